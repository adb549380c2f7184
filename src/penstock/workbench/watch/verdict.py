"""What the numbers of a watched program mean: pure functions of a `Watched`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from penstock.workbench.verdict import Finding
from penstock.workbench.watch.record import Watched

DATA_BOUND = 0.05
"""Below this part of the loop spent waiting, loading is no worry."""

_STARVED = 0.35
"""Run delay from which processes get in each other's way."""
_WORKERS_IDLE = 0.6


class Limit(str, Enum):
    """What the loop waited for."""

    UNSEEN = "no loader"
    COMPUTE = "training step"
    TOO_MANY_WORKERS = "too many workers"
    TOO_FEW_WORKERS = "too few workers"
    READ = "read"
    DECODE = "decode"
    PYTHON = "Python"
    HANDOVER = "handover"


@dataclass(frozen=True)
class Judgement:
    """The verdict on a watched program. `gain` is how many times as fast it could be; None if unknown."""

    limit: Limit
    headline: str
    gain: float | None
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_limit(watched: Watched) -> Limit:
    """One name for what held the loop up."""
    if not watched.loaders:
        return Limit.UNSEEN
    if watched.data_share < DATA_BOUND:
        return Limit.COMPUTE
    workers, cores = watched.workers, watched.system.cores
    if workers >= 2 * cores and watched.system.run_delay >= _STARVED:
        return Limit.TOO_MANY_WORKERS
    if watched.work.get("idle", 0.0) >= _WORKERS_IDLE:
        return Limit.HANDOVER
    busiest = find_busiest(watched)
    if busiest is not Limit.READ and _could_use_more(watched):
        return Limit.TOO_FEW_WORKERS
    return busiest


def find_busiest(watched: Watched) -> Limit:
    """What those who load did most."""
    work = watched.work
    shares = {
        Limit.READ: work.get("read", 0.0),
        Limit.DECODE: work.get("decode", 0.0),
        Limit.PYTHON: work.get("Python", 0.0) + work.get("collate", 0.0),
    }
    return max(shares, key=lambda limit: shares[limit])


def _could_use_more(watched: Watched) -> bool:
    """Whether there are cores for another worker: all workers are busy, and a core and more is not."""
    system = watched.system
    active = watched.waiting + watched.computing
    busy = system.cpu_seconds / max(watched.wall, 1e-9)
    workers = max(loader.workers for loader in watched.loaders)
    return active > 0 and workers < system.cores and busy < system.cores - 0.5


def estimate_gain(watched: Watched, rate: float | None) -> float | None:
    """How many times as fast the loop would be if it were given `rate` images/s; None if that is unknown."""
    images = sum(loader.images for loader in watched.loaders)
    if rate is None or not images:
        return None
    now = watched.waiting + watched.computing
    return now / max(watched.computing, images / rate, 1e-9)
