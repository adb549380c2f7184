"""The bytes of a batch, as the caller has them, without copying: a buffer a sample, or arenas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """The bytes of many samples in one buffer: sample i is `buffer[offsets[i]:][:sizes[i]]`.

    With `numbers`, in several: `buffer` is a list of them, and sample i lies in `buffer[numbers[i]]`.
    """

    buffer: Data | Sequence[Data]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    numbers: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        lists = (self.offsets, self.sizes, self.offsets if self.numbers is None else self.numbers)
        shapes = [np.shape(numbers) for numbers in lists]
        if len(shapes[0]) != 1 or len(set(shapes)) > 1:
            raise ValueError(
                f"offsets and sizes, and numbers if given, must be lists of the same length, not {shapes}"
            )

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[memoryview]:
        """The bytes of each sample, where they lie."""
        inputs = Inputs.of(self, len(self), "arena")
        return (inputs[row] for row in range(len(self)))


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the core takes: a list of buffers, or a few buffers and (number, offset, size) of each sample."""

    buffers: list[Data]
    spans: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, source: Sequence[Data] | Arena, count: int, name: str) -> Inputs:
        """Those of a caller's argument `name`, which must hold `count` samples."""
        if isinstance(source, Arena):
            numbers, buffers = source.numbers, cast("list[Data]", source.buffer)
            if numbers is None:
                numbers, buffers = np.zeros(len(source), np.int64), [cast("Data", source.buffer)]
            spans = np.stack([numbers, source.offsets, source.sizes], axis=1).astype(np.int64)
            inputs = cls(list(buffers), spans)
        else:
            inputs = cls(list(source))
        length = len(inputs.buffers) if inputs.spans is None else len(inputs.spans)
        if length != count:
            raise ValueError(f"{name} holds {length} samples, but there are {count} boxes")
        return inputs

    def __getitem__(self, row: int) -> memoryview:
        if self.spans is None:
            return memoryview(cast("Buffer", self.buffers[row]))
        number, offset, size = self.spans[row].tolist()
        return memoryview(cast("Buffer", self.buffers[number])).cast("B")[offset : offset + size]
