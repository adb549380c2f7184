"""Sizes that change during training, as progressive resizing uses them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headrace.arguments import as_integer, check_choice

Size = int | tuple[int, int]
By = Literal["epoch", "step"]


@dataclass(frozen=True, init=False, repr=False)
class Schedule:
    """A size that changes with the epoch, or with the step within each epoch.

        RandomResizedCrop(Schedule({0: 128, 30: 160, 60: 192}))
        RandomResizedCrop(Schedule({0: 128, 2000: 160}, by="step"))
        Loader("shards/train", Schedule({0: 512, 30: 384}), transform=steps)

    It may stand where `RandomResizedCrop`, `RandomCrop`, `CenterCrop` and `Resize` take a size, and by epochs in the
    place of a batch size. It is a function of epoch and step alone, so that a resumed training continues with it.

    Args:
        sizes: the size from each epoch on, by the number of the epoch; the first is 0. With `by="step"`, from each step on.
        by: what the keys count: `epoch`, or `step`, which begins at 0 in every epoch.

    Raises:
        ValueError: the first key is not 0, or a key is not an integer.
    """

    sizes: tuple[tuple[int, Size], ...]
    by: By

    def __init__(self, sizes: Mapping[int, Size], by: By = "epoch") -> None:
        check_choice("by", by, ("epoch", "step"))
        starts = [as_integer(start) for start in sizes]
        if None in starts or min(starts, default=-1) != 0:  # type: ignore[type-var]
            raise ValueError(
                f"Schedule({dict(sizes)}): give sizes by the {by} that they begin with, from 0 on"
            )
        pairs = tuple(sorted((int(start), size) for start, size in sizes.items()))
        object.__setattr__(self, "sizes", pairs)
        object.__setattr__(self, "by", by)

    def __repr__(self) -> str:
        return f"Schedule({dict(self.sizes)}{', by=' + repr(self.by) if self.by == 'step' else ''})"

    @property
    def starts(self) -> list[int]:
        """The epochs or steps that sizes begin with."""
        return [start for start, _ in self.sizes]

    def at(self, epoch: int, step: int = 0) -> Size:
        """Return the size at a step of an epoch."""
        return self.sizes[bisect_right(self.starts, step if self.by == "step" else epoch) - 1][1]
