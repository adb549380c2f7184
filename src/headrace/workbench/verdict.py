"""What the numbers of a bench mean for a training: what each stage can deliver, and which gives out first.

Pure functions of measured values; `advice.py` puts them together and finds the words.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from headrace.workbench import numbers
from headrace.workbench.need import Need
from headrace.workbench.numbers import Bench, Rate, Stage

ENOUGH = 1.2
"""Headroom from which a stage is no worry: 20 % above the need."""

_SLOW_PATH_MATTERS = 0.3
"""Part of the rendering time from which the slow path is what to talk about."""

_OWN_CORES = 0.7
"""Part of the cores below which rendering did not have them to itself."""


class Cause(str, Enum):
    """What limits the training, or would limit it first."""

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
    """What a stage can deliver beside what is needed. `headroom` is the quotient, None without a need."""

    stage: str
    threads: int
    rate: float
    low: float
    high: float
    headroom: float | None


@dataclass(frozen=True)
class Finding:
    """One thing to know: a sentence with the numbers, and what to do, if anything."""

    topic: str
    says: str
    advice: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on a bench. `first` is the stage that gives out first."""

    cause: Cause
    headline: str
    need: float | None
    first: str
    capacities: tuple[Capacity, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def list_capacities(bench: Bench, need: Need | None) -> list[Capacity]:
    """Every stage that a training goes through, at the threads of the setting, in the order of the path."""
    names = [
        _storage_name(bench),
        numbers.RENDER,
        numbers.PYTHON,
        numbers.COPY,
        numbers.PIPELINE,
    ]
    found = [pick_stage(bench, name) for name in names]
    return [_capacity(_spread(stage, bench), need) for stage in found if stage is not None]


def _spread(stage: Stage, bench: Bench) -> Stage:
    """The user's Python is measured in one process and runs in as many as there are threads."""
    if stage.name != numbers.PYTHON:
        return stage
    times = min(bench.setting.threads, bench.machine.capacity_cores) / stage.threads
    rate = Rate.of([times * window for window in stage.rate.windows])
    return replace(stage, threads=bench.setting.threads, rate=rate)


def pick_stage(bench: Bench, name: str) -> Stage | None:
    """The stage at the threads that the training will have, else at the most that were measured."""
    return bench.find(name, bench.setting.threads) or bench.find(name)


def _storage_name(bench: Bench) -> str:
    """After the first epoch a dataset that fits is read from memory."""
    return numbers.WARM if fits_in_memory(bench) and not bench.setting.cold else numbers.COLD


def fits_in_memory(bench: Bench) -> bool:
    """Whether the page cache can hold the dataset, with a fifth of the room left for others."""
    return bench.data.bytes < 0.8 * bench.machine.cache_room


def _capacity(stage: Stage, need: Need | None) -> Capacity:
    headroom = None if need is None else stage.rate.median / need.rate
    return Capacity(
        stage.name, stage.threads, stage.rate.median, stage.rate.low, stage.rate.high, headroom
    )


def find_first(capacities: list[Capacity]) -> Capacity:
    """The stage with the least capacity; the pipeline is no stage, but all there is if nothing else is known."""
    stages = [c for c in capacities if c.stage != numbers.PIPELINE] or capacities
    return min(stages, key=lambda capacity: capacity.rate)


def find_delivered(bench: Bench) -> float | None:
    """Images per second that a training gets; None if the pipeline was not measured."""
    whole = pick_stage(bench, numbers.PIPELINE)
    return None if whole is None else whole.rate.median


def find_cause(bench: Bench, need: Need | None) -> Cause:
    """What to call the limit. With enough headroom in the pipeline as a whole it is nothing."""
    rate = find_delivered(bench)
    if need is not None and rate is not None and rate >= need.rate:
        return Cause.NOTHING
    first = find_first(list_capacities(bench, need)).stage
    if first in (numbers.COLD, numbers.WARM):
        return Cause.STORAGE
    if first == numbers.PYTHON:
        return Cause.PYTHON
    if first == numbers.COPY:
        return Cause.COPY
    return _find_render_cause(bench)


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
    """Cores that rendering alone had: it never waits, so less than its threads means that others had the rest."""
    stage = pick_stage(bench, numbers.RENDER)
    return None if stage is None else stage.rate.median * stage.cpu_ms / 1e3


def is_busy(bench: Bench) -> bool:
    """Whether other programs, or a limit, kept the cores from rendering."""
    got = count_cores_got(bench)
    wanted = min(bench.setting.threads, bench.machine.capacity_cores)
    return got is not None and got < _OWN_CORES * wanted


def slow_time_share(bench: Bench) -> float:
    """The part of the rendering time that goes into images which the native core leaves to Pillow."""
    data = bench.data
    slow = data.slow_share * data.slow_path_ms
    total = slow + (1 - data.slow_share) * data.native_ms
    return slow / total if total else 0.0


def cores_needed(cpu_ms: float, need: Need) -> float:
    """Cores that would meet the need if nothing else ran, from the CPU time of an image."""
    return cpu_ms * need.rate / 1e3


def threads_needed(bench: Bench, need: Need) -> int:
    """Threads that would meet the need, from the CPU time that an image takes."""
    rate = find_delivered(bench)
    if rate is None:
        return bench.setting.threads
    per_thread = rate / bench.setting.threads
    return max(1, -int(-need.rate // per_thread))
