"""Where the bytes of one field lie in all samples, and what the index says about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ByteRanges:
    """For each sample: `size` bytes at `offset` of a file, with the CRC-32C `checksum` if that is known.

    A sample without such bytes has the size 0, at the offset ABSENT if it lacks a wanted field.
    """

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    checksum: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))

    def find_bytes(self, row: int) -> tuple[int, int]:
        """Return the bounds of a sample's bytes."""
        return int(self.offset[row]), int(self.offset[row] + self.size[row])

    @classmethod
    def make_empty(cls, count: int) -> ByteRanges:
        """Return the ranges of `count` samples that have no bytes."""
        return cls(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.uint32))

    @classmethod
    def join(cls, parts: Sequence[ByteRanges]) -> ByteRanges:
        """Return the ranges of all parts, one after the other."""
        names = ("offset", "size", "checksum")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True, eq=False)
class TargetColumns:
    """Where the targets of all samples lie, and the first two axes of each, 0 if one is damaged or missing.

    `encodings` are the kinds of files that they are in: `png`, `npy-float32-2`.
    """

    ranges: ByteRanges
    height: NDArray[np.int64]
    width: NDArray[np.int64]
    encodings: frozenset[str]

    @property
    def is_deep(self) -> bool:
        """Whether an image has 16 bits per pixel."""
        return any(name.endswith("-16") for name in self.encodings)

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all are arrays of one shape, so that they can be stacked."""
        if len(self.encodings) != 1 or not next(iter(self.encodings)).startswith("npy-"):
            return False
        return all(len(np.unique(axis)) == 1 for axis in (self.height, self.width))

    @classmethod
    def join(cls, parts: Sequence[TargetColumns]) -> TargetColumns:
        """Return the targets of all parts, one after the other."""
        return cls(
            ByteRanges.join([part.ranges for part in parts]),
            np.concatenate([part.height for part in parts]),
            np.concatenate([part.width for part in parts]),
            frozenset().union(*(part.encodings for part in parts)),
        )


@dataclass(frozen=True, eq=False)
class PictureColumns:
    """Where the images of a field and their seek tables lie, and their sizes, 0 if one is damaged or missing."""

    image: ByteRanges
    seek: ByteRanges
    height: NDArray[np.int64]
    width: NDArray[np.int64]
    orientation: NDArray[np.uint8]

    def turn_upright(self) -> PictureColumns:
        """Return the same with the sizes that images have when they are turned as their orientation says."""
        lies = self.orientation >= 5
        return replace(
            self,
            height=np.where(lies, self.width, self.height),
            width=np.where(lies, self.height, self.width),
        )

    @classmethod
    def join(cls, parts: Sequence[PictureColumns]) -> PictureColumns:
        """Return the images of all parts, one after the other."""
        return cls(
            ByteRanges.join([part.image for part in parts]),
            ByteRanges.join([part.seek for part in parts]),
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("height", "width", "orientation")
            ),
        )
