"""Opens whatever a path is, packed or not, as samples by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import overload

from penstock.errors import SourceError
from penstock.formats.data_files import is_pattern
from penstock.formats.detect import OPENERS, find_format, open_source
from penstock.formats.source import Source
from penstock.pack.manifest import find_dataset
from penstock.read.dataset import Dataset, open_indexed
from penstock.sample import Sample

Format = Enum("Format", {name.replace("-", "_"): name for name in OPENERS}, type=str)  # type: ignore[misc]


class SourceView(Sequence[Sample]):
    """A source as a sequence of samples, like a data set. Errors name the sample."""

    def __init__(self, source: Source, format: str) -> None:
        self.source = source
        self.format = format

    @property
    def classes(self) -> Sequence[str] | None:
        return self.source.classes

    def __len__(self) -> int:
        return len(self.source.names)

    @overload
    def __getitem__(self, i: int) -> Sample: ...
    @overload
    def __getitem__(self, i: slice) -> list[Sample]: ...
    def __getitem__(self, i: int | slice) -> Sample | list[Sample]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        try:
            return self.source.read(i)
        except SourceError as error:
            raise SourceError(f"{self.source.names[i]}: {error}") from None

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))


def open_samples(path: Path, format: str | None) -> Dataset | SourceView:
    """The data set at `path`, or the source if it is none."""
    is_there = path.exists() or is_pattern(path)
    if not is_there or (format is None and find_dataset(path) is not None):
        return open_indexed(path)
    name = format or find_format(path)[0]
    return SourceView(open_source(path, format=format), name)
