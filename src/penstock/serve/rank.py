"""Which part of the work is ours: rank and world size, given, or found where torch keeps them."""

from __future__ import annotations

import os
import sys
from operator import index


def find_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """(rank, world size): as given; else torch.distributed's if it runs; else RANK and WORLD_SIZE; else 0 of 1."""
    if (rank is None) != (world_size is None):
        raise ValueError("give rank and world_size together, or neither")
    if rank is not None and world_size is not None:
        found = index(rank), index(world_size)
    else:
        found = _ask_torch() or _ask_environment()
    if not 0 <= found[0] < found[1]:
        raise ValueError(f"rank {found[0]} of {found[1]}: ranks are from 0 to world_size - 1")
    return found


def _ask_torch() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")  # who uses it has imported it
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())


def _ask_environment() -> tuple[int, int]:
    try:
        rank, world_size = (
            int(os.environ.get(name, default))
            for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"))
        )
    except ValueError:
        raise ValueError(
            f"RANK={os.environ.get('RANK')!r} and WORLD_SIZE={os.environ.get('WORLD_SIZE')!r} "
            "in the environment are not numbers"
        ) from None
    if world_size > 1 and "RANK" not in os.environ:
        raise ValueError(
            f"WORLD_SIZE is {world_size} in the environment, but RANK is not set: every process would read the same "
            "part. Set it, or give rank and world_size"
        )
    return rank, world_size
