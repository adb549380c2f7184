"""The capacity of each stage, and which stage limits a training: pure functions of a `Bench`.

`dataset_advice.py` turns them into sentences.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from headrace.workbench.bench import results
from headrace.workbench.bench.required_rate import Need
from headrace.workbench.bench.results import Bench, Rate, Stage

ENOUGH = 1.2
"""Headroom from which a stage is fast enough: 20 % above the need."""

_SLOW_PATH_MATTERS = 0.3
"""Share of the rendering time from which the slow path is the cause."""

_OWN_CORES = 0.7
"""Share of the cores below which other programs kept rendering from them."""


class Cause(str, Enum):
    """What limits the training, or would be the next limit."""

    NOTHING = "nothing"
    STORAGE = "storage"
    THREADS = "threads"
    CPU_LIMIT = "cpu limit"
    BUSY = "other programs"
    SLOW_PATH = "slow path"
    RENDER = "render"
    PYTHON = "user transform"
    COPY = "copy to device"


@dataclass(frozen=True)
class Capacity:
    """What a stage delivers. `headroom` is its rate divided by the need; None without a need."""

    stage: str
    threads: int
    rate: float
    low: float
    high: float
    headroom: float | None


@dataclass(frozen=True)
class Finding:
    """One fact with its numbers, and advice if there is any."""

    topic: str
    says: str
    advice: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The conclusions from a bench. `bottleneck` is the stage with the lowest capacity."""

    cause: Cause
    headline: str
    need: float | None
    bottleneck: str
    capacities: tuple[Capacity, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def list_capacities(bench: Bench, need: Need | None) -> list[Capacity]:
    """Return the stages of a training in order, at the thread count of the setting."""
    storage = results.WARM if fits_in_memory(bench) and not bench.setting.cold else results.COLD
    names = (storage, results.RENDER, results.PYTHON, results.COPY, results.PIPELINE)
    found = [pick_stage(bench, name) for name in names]
    return [_capacity(_spread(stage, bench), need) for stage in found if stage is not None]


def _spread(stage: Stage, bench: Bench) -> Stage:
    """Scale the user's Python, measured in one process, to as many processes as threads."""
    if stage.name != results.PYTHON:
        return stage
    times = min(bench.setting.threads, bench.machine.capacity_cores) / stage.threads
    rate = Rate.of([times * rate for rate in stage.rate.rounds])
    return replace(stage, threads=bench.setting.threads, rate=rate)


def pick_stage(bench: Bench, name: str) -> Stage | None:
    """Return the stage at the thread count of the setting, or at the highest measured."""
    return bench.find(name, bench.setting.threads) or bench.find(name)


def fits_in_memory(bench: Bench) -> bool:
    """Return whether the dataset takes less than 80 % of the page cache: later epochs read it from there."""
    return bench.data.bytes < 0.8 * bench.machine.cache_room


def _capacity(stage: Stage, need: Need | None) -> Capacity:
    headroom = None if need is None else stage.rate.median / need.rate
    return Capacity(
        stage.name, stage.threads, stage.rate.median, stage.rate.low, stage.rate.high, headroom
    )


def find_bottleneck(capacities: list[Capacity]) -> Capacity:
    """Return the stage with the lowest capacity; the pipeline only if no stage was measured."""
    stages = [c for c in capacities if c.stage != results.PIPELINE] or capacities
    return min(stages, key=lambda capacity: capacity.rate)


def find_delivered(bench: Bench) -> float | None:
    """Return the images per second of the pipeline; None if it was not measured."""
    whole = pick_stage(bench, results.PIPELINE)
    return None if whole is None else whole.rate.median


def find_cause(bench: Bench, need: Need | None) -> Cause:
    """Return what limits the training; NOTHING if the pipeline meets the need."""
    rate = find_delivered(bench)
    if need is not None and rate is not None and rate >= need.rate:
        return Cause.NOTHING
    stage = find_bottleneck(list_capacities(bench, need)).stage
    return _STAGE_CAUSES.get(stage) or _find_render_cause(bench)


_STAGE_CAUSES = {
    results.COLD: Cause.STORAGE,
    results.WARM: Cause.STORAGE,
    results.PYTHON: Cause.PYTHON,
    results.COPY: Cause.COPY,
}


def _find_render_cause(bench: Bench) -> Cause:
    if slow_time_share(bench) >= _SLOW_PATH_MATTERS:
        return Cause.SLOW_PATH
    machine, threads = bench.machine, bench.setting.threads
    if threads < int(machine.capacity_cores):
        return Cause.THREADS
    if machine.cpu_limit is not None and machine.cpu_limit < machine.usable_cores:
        return Cause.CPU_LIMIT
    return Cause.BUSY if is_busy(bench) else Cause.RENDER


def count_cores_got(bench: Bench) -> float | None:
    """Return the cores that rendering had; it never waits, so other programs had the rest."""
    stage = pick_stage(bench, results.RENDER)
    return None if stage is None else stage.rate.median * stage.cpu_ms / 1e3


def is_busy(bench: Bench) -> bool:
    """Return whether rendering got too few of its cores."""
    got = count_cores_got(bench)
    wanted = min(bench.setting.threads, bench.machine.capacity_cores)
    return got is not None and got < _OWN_CORES * wanted


def slow_time_share(bench: Bench) -> float:
    """Return the share of the rendering time spent on images that go through Pillow."""
    return bench.data.time_share(frozenset(bench.data.kinds) - results.NATIVE_KINDS)


def threads_needed(bench: Bench, need: Need) -> int:
    """Return the threads that would meet the need if throughput grew with their number."""
    rate = find_delivered(bench)
    if rate is None:
        return bench.setting.threads
    per_thread = rate / bench.setting.threads
    return max(1, -int(-need.rate // per_thread))
