"""The one seed of all compatible DataFlows: the same program gives the same data."""

from __future__ import annotations

from penstock.run.seeding import check_seed

_seed = 0


def fix_rng_seed(seed: int) -> None:
    """Seed everything that is built from here on. Workers and items still differ."""
    global _seed
    _seed = check_seed(seed)


def get_seed() -> int:
    """The seed in force."""
    return _seed
