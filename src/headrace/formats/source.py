"""What a layout provides: a `Source` to pack samples from, and a `PlacedSource` to index them where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from headrace.kinds import Kind
from headrace.sample import Sample
from headrace.store.index_schema import check_file_names


@runtime_checkable
class Source(Protocol):
    """A dataset in someone else's layout. Reading is thread-safe and keeps nothing in memory.

    Sample `i` is called `names[i]` in messages, takes about `sizes[i]` bytes in its source and was
    last changed at `mtimes[i]` (nanoseconds, 0 where nobody knows).

    It may have `field_kinds`, the kinds of fields and columns that it knows (see `headrace.kinds`); packing recognises
    the others.
    """

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def sizes(self) -> np.ndarray: ...
    @property
    def mtimes(self) -> np.ndarray: ...

    @property
    def classes(self) -> Sequence[str] | None:
        """Class names, so that label `k` means `classes[k]`; None where labels are bare numbers."""

    @property
    def columns(self) -> pa.Schema:
        """The user's columns of every sample; may be empty."""

    @property
    def ignored(self) -> Sequence[str]:
        """What lies in the source and is not part of it, for the summary."""

    def read(self, i: int) -> Sample:
        """Return sample `i`.

        Raises:
            SourceError: The sample cannot be read.
            SourceChangedError: The sample has changed since the source was opened.
        """
        ...


@runtime_checkable
class EncodingSource(Source, Protocol):
    """A source that encodes what it reads, such as video files, so that reading takes long and sizes change."""

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What decides the bytes of its samples beside its files: options and versions, for the manifest."""

    def estimate_sizes(self) -> np.ndarray:
        """Return about how many bytes each sample will have, the same each time."""
        ...


def state_kinds(source: Source) -> Mapping[str, Kind]:
    """Return the kinds of fields and columns that a source states."""
    stated: Mapping[str, Kind] = getattr(source, "field_kinds", {})
    return stated


class Located(NamedTuple):
    """A sample, the name of its file below the root, and the offset of each field in that file."""

    sample: Sample
    file: str
    offsets: Mapping[str, int]
    is_unread: bool = False
    """Whether the file could not be read this time; `sample` has an empty image then."""


class Place(NamedTuple):
    """A sample that a scan came to: its name in messages, its size in bytes, and how to read it."""

    name: str
    size: int
    locate: Callable[[], Located]
    """Raises SourceError if the sample cannot be read, or a field is not stored as contiguous bytes."""


class Part(NamedTuple):
    """Samples that share an index file, indexed by one thread."""

    stem: str
    """The name of the index file, without its suffix."""
    file: str | None
    """The file below the root that all of them lie in; None if each is a file of its own."""
    size: int
    """Total size in bytes, for the progress."""
    scan: Callable[[], Iterable[Place]]
    """Called once; yields the samples in the order of their bytes. Raises SourceError if the file is damaged."""


@dataclass(frozen=True)
class PlacedSource:
    """A dataset whose encoded bytes lie contiguous in files, so that it can be indexed in place."""

    root: Path
    parts: Sequence[Part]
    samples: int | None
    """How many samples the parts have; None if only scanning tells."""
    classes: Sequence[str] | None = None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    field_kinds: Mapping[str, Kind] = field(default_factory=dict)
    """Kinds of fields and columns that the source states, where others would be recognised."""
    rejected: Sequence[tuple[str, str]] = ()
    """(name, reason) of samples that cannot be indexed, known in advance and not in any part."""
    keeps_damaged: bool = False
    """Whether an image that does not decode is marked in the index, instead of rejecting its sample."""
    check: Callable[[], None] = lambda: None
    """Called after all parts were scanned. Raises SourceError if they do not make a dataset."""


class LocatingSource(Source, Protocol):
    """A source that can say where the bytes of a sample lie."""

    def locate(self, i: int) -> Located:
        """Return sample `i` with only those fields that are contiguous bytes of its file.

        Raises:
            SourceError: The sample cannot be read, or a field is not stored as the bytes of a file.
        """
        ...


class LocatedRows(LocatingSource, Protocol):
    """A source that knows before reading which rows lie in which file."""

    @property
    def root(self) -> Path: ...

    @property
    def files(self) -> Mapping[str, Sequence[int]]:
        """The rows in each file, by its name below `root`, in the order of their bytes."""


def place_rows(source: LocatedRows) -> PlacedSource:
    """Return how to index a source in place, a part per file."""
    check_file_names(source.files)
    parts = [place_part(source, file, file, rows) for file, rows in source.files.items()]
    return PlacedSource(source.root, parts, len(source.names), source.classes, source.columns)


def place_part(source: LocatingSource, stem: str, file: str | None, rows: Sequence[int]) -> Part:
    """Return the part of an index that has these rows of a source."""

    def scan() -> Iterable[Place]:
        for i in rows:
            yield Place(source.names[i], int(source.sizes[i]), partial(source.locate, i))

    return Part(stem, file, int(source.sizes[rows].sum()), scan)


def find_bytes(value: bytes, data: bytes) -> int | None:
    """Return an offset at which `data` lies in `value`; all of them hold the same bytes."""
    start = value.find(data[:64])
    if start >= 0 and value[start : start + len(data)] != data:
        start = value.find(data)  # linear in any case, but slower to begin with
    return None if start < 0 else start
