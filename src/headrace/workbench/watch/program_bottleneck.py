"""What limits a watched program: pure functions of a `Watched`. `program_advice.py` turns them into sentences."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from headrace.workbench.bench.dataset_bottleneck import Finding
from headrace.workbench.probe.classify_stack import (
    BLOCKED,
    COLLATE,
    DECODE,
    PYTHON,
    READ,
    TRANSFORM,
)
from headrace.workbench.watch.watched_program import Watched

DATA_BOUND = 0.05
"""Below this share of waiting, loading does not limit the loop."""

_SLOW_START = 0.1
"""Share of all loops from which first batches are the limit, if they take longer than the other waiting."""

_STARVED = 0.35
"""Run delay from which processes compete for cores, with each other or with other programs."""
_MISSED = 0.1
"""Missed cores from which other programs are to blame; an idle program misses none."""
_IN_USE = 0.7
"""Share of the cores from which a program counts as using all: it starts and ends with fewer."""
_WORKERS_IDLE = 0.6


class Limit(str, Enum):
    """What the loop waited for."""

    CRASHED = "crashed"
    UNSEEN = "no loader"
    EMPTY = "no batch"
    COMPUTE = "training step"
    FIRST_BATCHES = "first batches"
    TOO_MANY_WORKERS = "too many workers"
    TOO_FEW_WORKERS = "too few workers"
    READ = "read"
    DECODE = "decode"
    TRANSFORM = "transform"
    PYTHON = "Python"
    BLOCKED = "blocked"
    COLLATE = "collate"
    HANDOVER = "handover"


CORE_WORK = (Limit.DECODE, Limit.TRANSFORM)
"""Work that Headrace's core does in native threads."""
_WORK = (*CORE_WORK, Limit.READ, Limit.PYTHON, Limit.BLOCKED, Limit.COLLATE)


@dataclass(frozen=True)
class Judgement:
    """The verdict on a watched program. `gain` is the possible speedup; None if unknown."""

    limit: Limit
    headline: str
    gain: float | None
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_limit(watched: Watched) -> Limit:
    """Return what limits the loop."""
    if watched.crashed:
        return Limit.CRASHED
    if not watched.loaders:
        return Limit.EMPTY if watched.loops else Limit.UNSEEN
    if watched.first_share >= _SLOW_START and watched.starting > watched.waiting:
        return Limit.FIRST_BATCHES
    if watched.data_share < DATA_BOUND:
        return Limit.COMPUTE
    if _has_too_many(watched):
        return Limit.TOO_MANY_WORKERS
    if watched.work.get("idle", 0.0) >= _WORKERS_IDLE:
        return Limit.HANDOVER
    busiest = find_busiest(watched)
    if busiest not in (Limit.READ, Limit.BLOCKED) and _could_use_more(watched):
        return Limit.TOO_FEW_WORKERS
    return busiest


def find_busiest(watched: Watched) -> Limit:
    """Return the kind of work that took most of the loading time."""
    read, decode, transform, python, blocked, collate = (
        watched.work.get(kind, 0.0) for kind in (READ, DECODE, TRANSFORM, PYTHON, BLOCKED, COLLATE)
    )
    if python + blocked + collate > max(read, decode + transform):
        if collate > python + blocked:
            return Limit.COLLATE
        return Limit.BLOCKED if blocked > python else Limit.PYTHON
    if read >= decode + transform:
        return Limit.READ
    return Limit.TRANSFORM if transform > decode else Limit.DECODE


def _has_too_many(watched: Watched) -> bool:
    """Return whether workers compete for cores; workers that hardly compute do not, however many."""
    cores = watched.system.cores
    wanted = watched.cores_used + watched.cores_missed
    starved = watched.system.run_delay >= _STARVED and wanted > cores
    return starved and watched.workers >= 2 * cores


def _could_use_more(watched: Watched) -> bool:
    """Return whether a core is idle while all workers are busy."""
    cores = watched.system.cores
    workers = max(watched.workers, *(loader.workers for loader in watched.loaders))
    idle = watched.cores_used < cores - 0.5 and not is_crowded(watched)
    return workers < cores and idle


def is_crowded(watched: Watched) -> bool:
    """Return whether other programs had the cores that this one wanted."""
    starved = watched.system.run_delay >= _STARVED and watched.cores_missed >= _MISSED
    return starved and watched.cores_used < _IN_USE * watched.system.cores


def find_slow_work(watched: Watched) -> Limit | None:
    """Return the work that the loop waits for; None if it waits for something else."""
    limit = find_limit(watched)
    if limit in (Limit.TOO_MANY_WORKERS, Limit.TOO_FEW_WORKERS):
        return find_busiest(watched)
    return limit if limit in _WORK else None


def estimate_gain(watched: Watched, rate: float | None) -> float | None:
    """Return the speedup of the loops if images were rendered at `rate` per second; None if unknown.

    Starting, other Python (which shares the cores with rendering), reading and other waits (which overlap
    with it) are assumed to take as long as they did.
    """
    if rate is None or not watched.count("images"):
        return None
    later = watched.count("images") - watched.count("first_images")
    rendering = later / rate + _count_python_seconds(watched)
    blocked = _count_seconds(watched, READ) + _count_seconds(watched, BLOCKED)
    then = watched.starting + max(watched.computing, rendering, blocked)
    return watched.loop / max(then, 1e-9)


def _count_seconds(watched: Watched, kind: str) -> float:
    """Return the seconds that loading spent on `kind`."""
    loading = watched.loop if watched.workers else watched.waiting
    return watched.work.get(kind, 0.0) * loading


def _count_python_seconds(watched: Watched) -> float:
    """Return the seconds that the Python of loading would take on all cores."""
    cores = watched.system.cores
    return _count_seconds(watched, PYTHON) * min(max(watched.workers, 1), cores) / cores
