"""The one seed of all compatible DataFlows: the same program gives the same data, another in each source."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from headrace.work.seeding import check_seed

T = TypeVar("T")

_seed = 0
_sources = 0  # random ones that were built since it was fixed


def fix_rng_seed(seed: int) -> None:
    """Seed everything that is built from here on. Workers and items still differ."""
    global _seed, _sources
    _seed, _sources = check_seed(seed), 0


def make_source_seed() -> int:
    """Return a seed for one more random source or stage; each call returns another."""
    global _sources
    words = np.random.SeedSequence((_seed, _sources))
    _sources += 1
    return int(words.generate_state(1, np.uint64)[0])


def build_alike(make: Callable[[], T], count: int) -> list[T]:
    """Call `make()` so many times, each with the same seeds for its sources."""
    global _sources
    first, built = _sources, []
    for _ in range(count):
        _sources = first
        built.append(make())
    return built
