"""Opens any path, packed or not, as samples by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.flow.flow_source import Samples
from headrace.formats.detect import LAYOUTS, detect
from headrace.formats.file_patterns import is_pattern
from headrace.read.dataset import Dataset, open_indexed
from headrace.sample import Sample
from headrace.store.manifest import find_dataset

Format = Enum("Format", {name.replace("-", "_"): name for name in sorted(LAYOUTS)}, type=str)  # type: ignore[misc]


@dataclass(frozen=True)
class SourceView(Samples):
    """The samples of a source that is not packed, and which layout it has."""

    format: str

    @property
    def classes(self) -> Sequence[str] | None:
        return self.source.classes

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))  # not until IndexError, which not all give


def open_samples(path: Path, format: str | None, **options: Any) -> Dataset | SourceView:
    """Open the dataset at `path`, or the source if it is not a dataset. `options` are those of `detect`."""
    is_there = path.exists() or is_pattern(path)
    says_what = format is not None or any(value is not None for value in options.values())
    if not is_there or (not says_what and find_dataset(path) is not None):
        return open_indexed(path)
    layout = detect(path, format=format, **options)
    return SourceView(layout.open(), layout.name)
