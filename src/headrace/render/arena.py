"""The bytes of many samples where they lie in memory, without copying."""

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

    With `numbers`, they are in several: `buffer` is a list of them, and sample i lies in `buffer[numbers[i]]`.
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

    @property
    def buffers(self) -> list[Data]:
        """The buffers, as the core takes them."""
        return [cast("Data", self.buffer)] if self.numbers is None else list(self.buffer)  # type: ignore[arg-type]

    @property
    def spans(self) -> NDArray[np.int64]:
        """int64[B, 3] as (number of a buffer, offset, size), as the core takes them."""
        numbers = np.zeros_like(self.offsets) if self.numbers is None else self.numbers
        return np.stack([numbers, self.offsets, self.sizes], axis=1).astype(np.int64)

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, row: int) -> memoryview:
        """Return the bytes of a sample."""
        buffers = self.buffers
        number, offset, size = self.spans[row].tolist()
        return memoryview(cast("Buffer", buffers[number])).cast("B")[offset : offset + size]

    def __iter__(self) -> Iterator[memoryview]:
        """Iterate over the bytes of each sample."""
        views = [memoryview(cast("Buffer", buffer)).cast("B") for buffer in self.buffers]
        for number, offset, size in self.spans.tolist():
            yield views[number][offset : offset + size]
