"""The bytes of a batch, as the caller has them, without copying: a buffer a sample, or an arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Buffer

Data: TypeAlias = (
    "Buffer | NDArray[np.uint8]"  # NumPy tells type checkers of its buffers from 3.12 on
)


@dataclass(frozen=True, eq=False)
class Arena:
    """The bytes of many samples in one buffer: sample i is `buffer[offsets[i]:][:sizes[i]]`."""

    buffer: Data
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __post_init__(self) -> None:
        if np.ndim(self.offsets) != 1 or np.shape(self.offsets) != np.shape(self.sizes):
            raise ValueError(
                f"offsets and sizes must be two lists of the same length, "
                f"not {np.shape(self.offsets)} and {np.shape(self.sizes)}"
            )


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the core takes: a list of buffers, or one buffer and (offset, size) of each sample."""

    buffers: list[Data]
    spans: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, source: Sequence[Data] | Arena, count: int, name: str) -> Inputs:
        """Those of a caller's argument `name`, which must hold `count` samples."""
        if isinstance(source, Arena):
            spans = np.stack([source.offsets, source.sizes], axis=1).astype(np.int64)
            inputs = cls([source.buffer], spans)
        else:
            inputs = cls(list(source))
        length = len(inputs.buffers) if inputs.spans is None else len(inputs.spans)
        if length != count:
            raise ValueError(f"{name} holds {length} samples, but there are {count} boxes")
        return inputs

    def __getitem__(self, row: int) -> memoryview:
        if self.spans is None:
            return memoryview(cast("Buffer", self.buffers[row]))
        offset, size = self.spans[row]
        return memoryview(cast("Buffer", self.buffers[0])).cast("B")[offset : offset + size]
