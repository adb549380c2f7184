"""Find rank and world size when an epoch begins, unless they are given.

In this order: the options, the process group of torch.distributed, RANK and WORLD_SIZE, the variables of
MPI and Slurm in a job of several tasks. Without any of them, this is the only rank.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from operator import index

_log = logging.getLogger("headrace")

_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Variables of other launchers. They count only if there are several tasks."""


@dataclass(frozen=True)
class Place:
    """A rank and the world size; the rank is None where only the world size could be found."""

    rank: int | None
    world_size: int
    origin: str

    def __post_init__(self) -> None:
        if not 0 <= (self.rank or 0) < self.world_size:
            raise ValueError(f"{self} ({self.origin}): ranks count from 0 to world_size - 1")

    def __str__(self) -> str:
        return f"rank {'unknown' if self.rank is None else self.rank} of {self.world_size}"

    def require_rank(self) -> int:
        """Return the rank; raise ValueError if it could not be found."""
        if self.rank is None:
            raise ValueError(
                f"WORLD_SIZE is {self.world_size} in the environment, but RANK is not set and there is no process "
                "group: every process would load the same samples; call torch.distributed.init_process_group first, "
                "set RANK, or give rank and world_size"
            )
        return self.rank


_ALONE = Place(0, 1, "no process group, and no variables of a launcher")


def check_given(rank: int | None, world_size: int | None) -> Place | None:
    """Return the place that the options give, None if it has to be found."""
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        raise ValueError("give rank and world_size together, or neither")
    return Place(index(rank), index(world_size), "the options")


def find_place() -> Place:
    """Return this process's place as it can be found right now.

    Raises:
        ValueError: RANK or WORLD_SIZE is not an integer, or disagrees with the process group.
    """
    rank, world_size = _read_number("RANK"), _read_number("WORLD_SIZE")
    group = _ask_torch()
    if group is not None:
        # Intentional: the other launchers' variables are not compared. Their tasks often start several ranks.
        if (rank is not None and rank != group.rank) or world_size not in (None, group.world_size):
            raise ValueError(
                f"{group} in the process group of torch.distributed, but RANK={rank} and WORLD_SIZE={world_size} in "
                "the environment; give rank and world_size to say which samples to load"
            )
        return group
    if rank is None and world_size is None:
        return next(_ask_launchers(), _ALONE)
    world_size = 1 if world_size is None else world_size
    rank = 0 if rank is None and world_size == 1 else rank
    return Place(rank, world_size, "RANK and WORLD_SIZE")


@cache
def log_place(place: Place) -> None:
    """Log a place, once per process."""
    _log.info("loading as %s (%s)", place, place.origin)


def _ask_torch() -> Place | None:
    distributed = sys.modules.get("torch.distributed")  # a program that uses it has imported it
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    rank, world_size = int(distributed.get_rank()), int(distributed.get_world_size())
    return Place(rank, world_size, "the process group of torch.distributed")


def _ask_launchers() -> Iterator[Place]:
    """Yield the places that launchers tell; a job of one task may start processes in its own way."""
    for rank_name, size_name in _LAUNCHERS:
        rank, world_size = _read_number(rank_name), _read_number(size_name)
        if rank is not None and world_size is not None and world_size > 1:
            yield Place(rank, world_size, f"{rank_name} and {size_name}")


def _read_number(name: str) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r} in the environment; set it to an integer") from None
