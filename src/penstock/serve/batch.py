"""What the training loop gets: a tuple that also says where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

IGNORED_LABEL = -100
"""The label of an entry that only fills up the batch: torch's losses leave it out by default."""


_NO_FLAGS = np.zeros(0, np.bool_)
_NO_ROWS = np.zeros(0, np.int64)


class Batch(tuple[Any, ...]):
    """`images, labels = batch`, or whatever fields were asked for, in their order.

    valid: bool[B], False for entries that only make ranks equally long: leave them out of metrics.
    rows: int64[B], the numbers of the samples in the data set.
    draws: int64[B], the numbers that their randomness comes from: those of the rows, unless rows repeat.
    errors: (key, reason) of its samples that did not decode, and were left out or substituted.
    epoch, step: where it stands; with the seed, they are all it takes to make it again.
    """

    valid: NDArray[np.bool_]
    rows: NDArray[np.int64]
    draws: NDArray[np.int64]
    errors: tuple[tuple[str, str], ...]
    epoch: int
    step: int
    finished: bool
    """Whether all steps ran in Python already: then nothing is left to normalise on a device."""

    def __new__(
        cls,
        values: Iterable[Any],
        *,
        valid: NDArray[np.bool_] = _NO_FLAGS,
        rows: NDArray[np.int64] = _NO_ROWS,
        draws: NDArray[np.int64] = _NO_ROWS,
        errors: tuple[tuple[str, str], ...] = (),
        epoch: int = 0,
        step: int = 0,
        finished: bool = False,
    ) -> Self:
        """With the values alone it is as good as a tuple: code that moves batches about may do that."""
        batch = super().__new__(cls, values)
        batch.valid, batch.rows, batch.draws = valid, rows, draws
        batch.errors, batch.epoch, batch.step, batch.finished = errors, epoch, step, finished
        return batch

    def replace(self, values: tuple[Any, ...]) -> Batch:
        """The same batch with other values."""
        return _rebuild(values, vars(self))

    def take(self, kept: NDArray[np.int64]) -> Batch:
        """The same values, said to be of these entries only."""
        chosen = {name: getattr(self, name)[kept] for name in ("valid", "rows", "draws")}
        return _rebuild(tuple(self), {**vars(self), **chosen})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (tuple(self), vars(self))


def _rebuild(values: tuple[Any, ...], about: dict[str, Any]) -> Batch:
    return Batch(values, **about)
