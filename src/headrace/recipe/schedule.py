"""Sizes that change from epoch to epoch, as progressive resizing uses them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

from headrace.arguments import as_integer
from headrace.recipe.views import Views

Size = int | tuple[int, int]


@dataclass(frozen=True, init=False)
class Schedule:
    """A size that depends on the epoch: `RandomResizedCrop(Schedule({0: 128, 30: 160, 60: 192}))`.

    It may stand where `RandomResizedCrop`, `RandomCrop`, `CenterCrop` and `Resize` take a size.

    Args:
        sizes: the size from each epoch on, by the number of the epoch; the first is 0.

    Raises:
        ValueError: the first epoch is not 0, or a key is not the number of an epoch.
    """

    sizes: tuple[tuple[int, Size], ...]

    def __init__(self, sizes: Mapping[int, Size]) -> None:
        epochs = [as_integer(epoch) for epoch in sizes]
        if None in epochs or min(epochs, default=-1) != 0:  # type: ignore[type-var]
            raise ValueError(
                f"Schedule({dict(sizes)}): give sizes by the epoch that they begin with, from 0 on"
            )
        object.__setattr__(
            self, "sizes", tuple(sorted((int(e), size) for e, size in sizes.items()))
        )

    def at(self, epoch: int) -> Size:
        """Return the size in an epoch."""
        return self.sizes[bisect_right([first for first, _ in self.sizes], epoch) - 1][1]


def resolve_schedules(transform: Any, epoch: int) -> Any:
    """Return a transform with the sizes that it has in an epoch."""
    if isinstance(transform, Views):
        parts = [resolve_schedules(part, epoch) for part in transform]
        return Views(*parts, stack=transform.stack)
    if isinstance(transform, (list, tuple)):
        return [resolve_schedules(step, epoch) for step in transform]
    size = getattr(transform, "size", None) if is_dataclass(transform) else None
    if isinstance(size, Schedule) and not isinstance(transform, type):
        return replace(transform, size=size.at(epoch))
    return transform


def has_schedule(transform: Any) -> bool:
    """Return whether a size of a transform depends on the epoch."""
    if isinstance(transform, (list, tuple, Views)):
        return any(map(has_schedule, transform))
    return isinstance(getattr(transform, "size", None), Schedule)
