"""Opens whatever a path is, packed or not, as samples by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from headrace.formats.data_files import is_pattern
from headrace.formats.detect import OPENERS, find_format, open_source
from headrace.pack.manifest import find_dataset
from headrace.read.dataset import Dataset, open_indexed
from headrace.run.source import Samples
from headrace.sample import Sample

Format = Enum("Format", {name.replace("-", "_"): name for name in OPENERS}, type=str)  # type: ignore[misc]


@dataclass(frozen=True)
class SourceView(Samples):
    """The samples of a source that is not packed, and which layout it has."""

    format: str

    @property
    def classes(self) -> Sequence[str] | None:
        return self.source.classes

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))  # not until IndexError, which not all give


def open_samples(path: Path, format: str | None) -> Dataset | SourceView:
    """The dataset at `path`, or the source if it is none."""
    is_there = path.exists() or is_pattern(path)
    if not is_there or (format is None and find_dataset(path) is not None):
        return open_indexed(path)
    name = format or find_format(path)[0]
    return SourceView(open_source(path, format=format), name)
