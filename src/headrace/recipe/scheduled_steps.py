"""Find the schedules in a transform, and put in their place the sizes of an epoch and a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

from headrace.recipe.patched_steps import find_change
from headrace.recipe.schedule import By, Schedule
from headrace.recipe.torchvision import find_container
from headrace.recipe.views import Views


def list_starts(transform: Any, by: By) -> list[int]:
    """Return the epochs or the steps of an epoch, from 0 on, at which a size of a transform changes."""
    schedules = (schedule for schedule in _find_schedules(transform) if schedule.by == by)
    return sorted({0, *(start for schedule in schedules for start in schedule.starts)})


def has_schedule(transform: Any) -> bool:
    """Return whether a size of a transform changes during training."""
    return any(True for _ in _find_schedules(transform))


def describe_schedules(transform: Any) -> str:
    """Return a line for `print(loader)`, which shows the sizes of the first batch; or nothing."""
    bys: tuple[By, ...] = ("epoch", "step")
    changes = [
        f"{by} {', '.join(map(str, starts))}"
        for by in bys
        if (starts := list_starts(transform, by)[1:])
    ]
    return f"\n  sizes change from {' and '.join(changes)} on" if changes else ""


def resolve_schedules(transform: Any, epoch: int, step: int = 0) -> Any:
    """Return a transform with the sizes that it has at a step of an epoch."""
    if not has_schedule(transform):
        return transform
    if isinstance(transform, Views):
        parts = [resolve_schedules(part, epoch, step) for part in transform]
        return Views(*parts, stack=transform.stack)
    if (inner := _list_inner(transform)) is not None:
        return [resolve_schedules(part, epoch, step) for part in inner]
    return replace(transform, size=transform.size.at(epoch, step))


def _find_schedules(transform: Any) -> Iterator[Schedule]:
    if (inner := _list_inner(transform)) is not None:
        for part in inner:
            yield from _find_schedules(part)
    elif is_dataclass(transform) and not isinstance(transform, type):
        size = getattr(transform, "size", None)
        yield from (size,) if isinstance(size, Schedule) else ()


def _list_inner(transform: Any) -> Sequence[Any] | None:
    """Return the parts of views or of a container, unless it was changed, for example by a hook."""
    if isinstance(transform, Views):
        return transform.transforms
    inner = find_container(transform)
    return None if inner is None or find_change(transform) else inner
