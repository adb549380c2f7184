"""Made-up benches and machines; each test changes only what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.workbench.bench import results
from headrace.workbench.bench.results import Bench, Data, Machine, Rate, Setting, Stage

GIB = 1 << 30

MACHINE = Machine(
    cpu="a CPU",
    cores=8,
    usable_cores=8,
    cpu_limit=None,
    memory=64 * GIB,
    memory_available=60 * GIB,
    memory_limit=None,
    shm=32 * GIB,
    numa_nodes=1,
    disk="solid state, ext4",
    versions={"Python": "3.12.0", "headrace": "0.1.0"},
)
DATA = Data(
    path="train",
    samples=1000,
    bytes=110_000_000,
    kinds={"baseline": 1000},
    loose=False,
    mean_bytes=110_000.0,
    mean_short_side=300.0,
    megapixels=(0.1, 0.2, 0.4),
    kilobytes=(80.0, 110.0, 140.0),
    decode_ms=(1.0, 1.5, 2.0),
    kind_ms={"baseline": 0.5},
    recoded_ms=None,
    window=None,
    mixing=1.0,
)
SETTING = Setting(
    command="headrace bench train",
    date="2026-01-01 00:00 UTC",
    batch_size=256,
    threads=8,
    transform="RandomResizedCrop(224)",
    size=(224, 224),
    cold=False,
    samples_used=1000,
)


def make_stage(name: str, rate: float, threads: int = 8, **others: Any) -> Stage:
    """Return a stage whose rounds differ by a tenth."""
    cpu_ms = threads * 1e3 / rate
    spread = Rate.of([0.95 * rate, rate, 1.05 * rate])
    return Stage(name, threads, spread, cpu_ms, image_bytes=110_000.0, **others)


def make_bench(
    rates: dict[str, float] | None = None,
    *,
    machine: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    setting: dict[str, Any] | None = None,
) -> Bench:
    """Return a bench with 8,000 images/s from end to end, and the given changes."""
    ordinary = {
        results.COLD: 20_000.0,
        results.WARM: 100_000.0,
        results.ENTROPY: 9_500.0,
        results.DECODE: 6_000.0,
        results.RENDER: 8_500.0,
        results.PIPELINE: 8_000.0,
    }
    changed = replace(SETTING, **(setting or {}))
    stages = [
        make_stage(name, rate, threads=1 if name == results.PYTHON else changed.threads)
        for name, rate in {**ordinary, **(rates or {})}.items()
    ]
    return Bench(
        setting=changed,
        machine=replace(MACHINE, **(machine or {})),
        data=replace(DATA, **(data or {})),
        stages=tuple(stages),
        skipped=((results.COPY, "no CUDA device"),),
        notes=(),
        complete=True,
    )


def agree(one: Rate, other: Rate) -> bool:
    """Return whether the medians differ by at most the larger spread."""
    assert one.spread is not None and other.spread is not None
    slow, fast = sorted((one.median, other.median))
    return fast <= slow * (1 + max(one.spread, other.spread))
