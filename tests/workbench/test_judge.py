"""Verdicts on watched programs, from made-up numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.workbench.probe.timeline import BETWEEN, COMPUTE, FIRST, STARTUP, WAIT
from penstock.workbench.watch.judge import judge
from penstock.workbench.watch.record import Seen, System, Watched
from penstock.workbench.watch.verdict import Limit, estimate_gain, find_limit

SYSTEM = System(
    cores=8,
    cpu_seconds=700.0,
    run_delay=0.05,
    io_wait=0.02,
    peak_bytes=4 << 30,
    most_processes=5,
    memory_bytes=64 << 30,
)
WATCHED = Watched(
    command="python train.py",
    exit_code=0,
    wall=100.0,
    spans={STARTUP: 5.0, FIRST: 1.0, WAIT: 56.7, COMPUTE: 33.3, BETWEEN: 4.0},
    bin_seconds=1.0,
    bins=({STARTUP: 1.0}, {WAIT: 0.6, COMPUTE: 0.4}),
    loaders=(Seen("torch DataLoader", "ImageFolder", "/data", 8, 256, 100),),
    loops=1,
    workers=8,
    work={"decode": 0.41, "Python": 0.3, "read": 0.2, "idle": 0.09},
    places=(("decode PIL/ImageFile.py:load", 0.41), ("Python train.py:augment", 0.25)),
    system=SYSTEM,
    cost=0.004,
)


def test_the_verdict_reads_as_in_a_conversation() -> None:
    found = judge(WATCHED, penstock_rate=600.0)
    assert found.limit is Limit.DECODE
    assert found.headline == (
        "Data-bound 63% of the time: 41% of the loading time is decoding. "
        "Packing and Penstock would make the loop about 2.1× as fast."
    )
    assert found.gain == pytest.approx(90 / (25_600 / 600))


def test_a_loop_that_hardly_waits_is_compute_bound() -> None:
    spans = {**WATCHED.spans, WAIT: 0.3, COMPUTE: 89.7}
    found = judge(replace(WATCHED, spans=spans), penstock_rate=10_000.0)
    assert found.limit is Limit.COMPUTE and found.gain is None
    assert "only 0.3% of the time" in found.headline


def test_python_code_is_named_by_its_place() -> None:
    found = judge(replace(WATCHED, work={"decode": 0.2, "Python": 0.7, "read": 0.1}))
    assert found.limit is Limit.PYTHON and "most of it in train.py:augment" in found.headline


def test_workers_that_only_wait_for_the_disk() -> None:
    assert find_limit(replace(WATCHED, work={"read": 0.8, "decode": 0.2})) is Limit.READ


def test_more_workers_than_cores_that_wait_for_cores_are_too_many() -> None:
    crowded = replace(WATCHED, workers=32, system=replace(SYSTEM, run_delay=0.7))
    found = judge(crowded)
    assert found.limit is Limit.TOO_MANY_WORKERS
    assert "32 workers on 8 cores" in found.headline
    assert any("Use about 8 workers" in finding.advice for finding in found.findings)


def test_a_machine_that_others_use_is_mentioned() -> None:
    shared = replace(WATCHED, system=replace(SYSTEM, run_delay=0.6, cpu_seconds=200.0))
    assert any("Other programs had the cores" in found.advice for found in judge(shared).findings)


def test_many_workers_that_get_their_cores_are_fine() -> None:
    assert find_limit(replace(WATCHED, workers=32)) is Limit.DECODE


def test_busy_workers_beside_idle_cores_are_too_few() -> None:
    few = (replace(WATCHED.loaders[0], workers=2),)
    idle = replace(WATCHED, loaders=few, workers=2, system=replace(SYSTEM, cpu_seconds=250.0))
    found = judge(idle)
    assert found.limit is Limit.TOO_FEW_WORKERS
    assert (
        "2 workers are busy all the time while cores are idle (2.5 of 8 in use)" in found.headline
    )


def test_idle_workers_and_a_waiting_loop_are_another_matter() -> None:
    assert find_limit(replace(WATCHED, work={"idle": 0.8, "decode": 0.2})) is Limit.HANDOVER


def test_a_gain_is_bounded_by_the_computing() -> None:
    assert estimate_gain(WATCHED, 1e9) == pytest.approx(90 / 33.3)
    assert estimate_gain(WATCHED, None) is None


def test_a_penstock_loader_is_not_told_to_use_penstock() -> None:
    own = replace(WATCHED, loaders=(replace(WATCHED.loaders[0], kind="penstock Loader"),))
    found = judge(own, penstock_rate=1e6)
    assert found.gain is None and "Packing" not in found.headline
    advice = " ".join(finding.advice or "" for finding in found.findings)
    assert "--resize-short" in advice and "Penstock decodes" not in advice


def test_slow_starts_of_workers_are_mentioned() -> None:
    slow = replace(WATCHED, spans={**WATCHED.spans, FIRST: 30.0})
    assert any("persistent_workers" in finding.advice for finding in judge(slow).findings)
