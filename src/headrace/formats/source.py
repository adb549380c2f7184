"""What every layout gives to the packer: samples by number, and what is known before reading them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from headrace.sample import Sample


@runtime_checkable
class Source(Protocol):
    """A dataset in someone else's layout. Reading is thread-safe and keeps nothing in memory.

    Sample `i` is called `names[i]` in messages, takes about `sizes[i]` bytes in its source and was
    last changed at `mtimes[i]` (nanoseconds, 0 where nobody knows).
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
        """Sample `i`, whole. SourceError if it cannot be had; SourceChangedError if it is not what
        it was when the source was opened."""
        ...


class Located(NamedTuple):
    """A sample, the file that its bytes lie in (by its name below the root), and each field's offset."""

    sample: Sample
    file: str
    offsets: Mapping[str, int]


@runtime_checkable
class PlacedSource(Source, Protocol):
    """A source whose encoded bytes lie contiguous in files, so that it can be indexed in place."""

    @property
    def root(self) -> Path: ...

    @property
    def files(self) -> Mapping[str, Sequence[int]]:
        """The rows that lie in each file, by its name below `root`, in the order of their bytes."""

    def locate(self, i: int) -> Located:
        """Sample `i` as it lies: only fields that are contiguous bytes of the file. SourceError if
        it cannot be read, or has a field that is not stored as the bytes of a file."""
        ...


def find_bytes(value: bytes, data: bytes) -> int | None:
    """Where `data` lies in `value`. Any place will do: the bytes there are the same."""
    start = value.find(data[:64])
    if start >= 0 and value[start : start + len(data)] != data:
        start = value.find(data)  # linear in any case, but slower to begin with
    return None if start < 0 else start
