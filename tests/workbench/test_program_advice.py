"""Verdicts on watched programs, from made-up numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.workbench.probe.timeline import BETWEEN, COMPUTE, FIRST, STARTUP, WAIT
from headrace.workbench.watch.program_advice import judge
from headrace.workbench.watch.program_bottleneck import Limit, estimate_gain, find_limit
from headrace.workbench.watch.watched_program import Rank, Seen, System, Watched

SYSTEM = System(
    cores=8,
    cpu_seconds=700.0,
    delay_seconds=37.0,
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
    loaders=(Seen("torch DataLoader", "ImageFolder", "/data", 8, 256, 100, 25_600),),
    loops=1,
    workers=8,
    work={"decode": 0.41, "transform": 0.3, "read": 0.2, "idle": 0.09},
    places=(("decode PIL/ImageFile.py:load", 0.41), ("Python train.py:augment", 0.25)),
    system=SYSTEM,
    cost=0.004,
    cut_short=False,
)


def test_the_verdict_is_a_sentence() -> None:
    found = judge(WATCHED, headrace_rate=600.0)
    assert found.limit is Limit.DECODE
    assert found.headline == (
        "Data-bound 63% of the time: 41% of the loading time is decoding. "
        "Packing and Headrace would make the loop about 2.1× as fast."
    )
    assert found.gain == pytest.approx(91 / (1 + 25_600 / 600))


@pytest.mark.parametrize(
    ("workers", "who"), [(0, "the loader"), (1, "the worker"), (2, "the 2 workers")]
)
def test_the_verdict_counts_the_workers(workers: int, who: str) -> None:
    findings = judge(replace(WATCHED, workers=workers), headrace_rate=600.0).findings
    assert any(finding.says.startswith(f"The time of {who}: 41% decode") for finding in findings)


def test_a_loop_that_hardly_waits_is_compute_bound() -> None:
    spans = {**WATCHED.spans, WAIT: 0.3, COMPUTE: 89.7}
    found = judge(replace(WATCHED, spans=spans), headrace_rate=10_000.0)
    assert found.limit is Limit.COMPUTE and found.gain is None
    assert "only 0.3% of the time" in found.headline


@pytest.mark.parametrize("waiting", [0.0, 12.0])
def test_slow_first_batches_are_not_called_computing(waiting: float) -> None:
    """Little waiting beside them does not change that."""
    spans = {**WATCHED.spans, FIRST: 30.0, WAIT: waiting, COMPUTE: 30.0}
    loaders = (replace(WATCHED.loaders[0], first_batches=50, first_images=12_800, epochs=50),)
    found = judge(replace(WATCHED, spans=spans, loaders=loaders), headrace_rate=1e6)
    assert found.limit is Limit.FIRST_BATCHES and found.gain is None
    assert "of the loop went into starting and into the first batch of 50 epochs" in found.headline
    assert "Compute-bound" not in found.headline


def test_the_rate_of_the_loop_has_the_first_batches_in_its_images_and_its_seconds() -> None:
    spans = {**WATCHED.spans, FIRST: 10.0, WAIT: 60.0, COMPUTE: 30.0}
    loaders = (replace(WATCHED.loaders[0], first_batches=20, first_images=5_120),)
    (loop,) = (
        f
        for f in judge(replace(WATCHED, spans=spans, loaders=loaders)).findings
        if f.topic == "loop"
    )
    assert loop.says == (
        "100 batches of 25,600 images, 256 images/s: 300.0 ms of computing each, 750.0 ms of waiting, "
        "500.0 ms until the first of an epoch."
    )


def test_a_gain_keeps_the_time_of_starting() -> None:
    spans = {**WATCHED.spans, FIRST: 10.0, WAIT: 60.0, COMPUTE: 30.0}
    loaders = (replace(WATCHED.loaders[0], first_batches=20, first_images=5_600),)
    assert estimate_gain(replace(WATCHED, spans=spans, loaders=loaders), 500.0) == 100 / (10 + 40)


def test_a_gain_keeps_the_time_of_python() -> None:
    seconds, work = 1 + 25_600 / 600, {"decode": 0.5, "Python": 0.2}
    whole = replace(WATCHED, work=work)
    assert estimate_gain(whole, 600.0) == pytest.approx(91 / (seconds + 0.2 * 91))
    assert estimate_gain(replace(whole, workers=16), 600.0) == estimate_gain(whole, 600.0)
    half = replace(whole, workers=4)
    assert estimate_gain(half, 600.0) == pytest.approx(91 / (seconds + 0.1 * 91))
    alone = replace(whole, workers=0)
    assert estimate_gain(alone, 600.0) == pytest.approx(91 / (seconds + 0.2 * 56.7 / 8))
    (said,) = (f.says for f in judge(whole, 600.0).findings if f.topic == "Headrace")
    assert "The 20% of Python are assumed to stay." in said


def test_a_gain_keeps_the_time_of_reading() -> None:
    slow = replace(WATCHED, work={"decode": 0.5, "read": 0.45, "Python": 0.05})
    assert estimate_gain(slow, 1e9) == pytest.approx(91 / (1 + 0.45 * 91))
    assert estimate_gain(replace(slow, workers=2), 1e9) == estimate_gain(slow, 1e9)
    assert estimate_gain(slow, 600.0) == pytest.approx(91 / (1 + 25_600 / 600 + 0.05 * 91))
    alone = replace(slow, workers=0, spans={**WATCHED.spans, WAIT: 80.0, COMPUTE: 10.0})
    assert estimate_gain(alone, 1e9) == pytest.approx(91 / (1 + 0.45 * 80))
    (said,) = (f.says for f in judge(slow, 600.0).findings if f.topic == "Headrace")
    assert said.endswith("The 5% of Python and the 45% of reading are assumed to stay.")


def test_a_gain_includes_the_transforms_of_torchvision() -> None:
    found = judge(replace(WATCHED, work={"transform": 0.5, "decode": 0.3}), 600.0)
    assert found.limit is Limit.TRANSFORM and found.gain == judge(WATCHED, 600.0).gain
    assert (
        "50% of the loading time is torchvision's transforms, and 30% decoding." in found.headline
    )
    mixed = replace(WATCHED, work={"transform": 0.3, "decode": 0.3, "Python": 0.4})
    assert find_limit(mixed) is Limit.DECODE


def test_a_loader_that_gave_no_batch_is_not_called_unused() -> None:
    found = judge(replace(WATCHED, loaders=(), work={}))
    assert found.limit is Limit.EMPTY and "was used but gave no batch" in found.headline
    assert judge(replace(WATCHED, loaders=(), loops=0, work={})).limit is Limit.UNSEEN


FEW = replace(
    WATCHED,
    loaders=(replace(WATCHED.loaders[0], workers=2),),
    workers=2,
    system=replace(SYSTEM, cpu_seconds=250.0),
)


@pytest.mark.parametrize("watched", [WATCHED, FEW], ids=["all cores", "few workers"])
@pytest.mark.parametrize(
    ("kind", "gains"),
    [
        ("decode", True),
        ("transform", True),
        ("Python", False),
        ("collate", False),
        ("read", False),
    ],
)
def test_a_gain_is_promised_only_for_work_of_the_core(
    watched: Watched, kind: str, gains: bool
) -> None:
    found = judge(replace(watched, work={kind: 0.9, "idle": 0.1}), headrace_rate=1e4)
    assert (found.gain is not None) == gains == ("Packing" in found.headline)
    says = " ".join(finding.says for finding in found.findings)
    assert ("would run the same Python" in says) == (kind == "Python")
    assert ("10,000 images/s" in says) == gains


def test_collating_is_named_and_nothing_else_is_blamed() -> None:
    work = {"collate": 0.7, "Python": 0.1, "decode": 0.2}
    found = judge(replace(WATCHED, work=work))
    assert found.limit is Limit.COLLATE and "70% of the loading time is collating" in found.headline
    assert not any(
        "train.py:augment" in f.says + f.advice for f in found.findings if f.topic == "limit"
    )


def test_python_code_is_named_by_its_place() -> None:
    found = judge(replace(WATCHED, work={"decode": 0.2, "Python": 0.7, "read": 0.1}))
    assert found.limit is Limit.PYTHON and "most of it in train.py:augment" in found.headline


def test_workers_that_wait_for_the_disk_are_limited_by_reading() -> None:
    assert find_limit(replace(WATCHED, work={"read": 0.8, "decode": 0.2})) is Limit.READ


def test_more_workers_than_cores_that_wait_for_cores_are_too_many() -> None:
    system = replace(SYSTEM, cpu_seconds=500.0, delay_seconds=1_200.0, run_delay=0.7)
    found = judge(replace(WATCHED, workers=32, system=system))
    assert found.limit is Limit.TOO_MANY_WORKERS
    assert "32 workers on 8 cores" in found.headline
    assert any("Use about 8 workers" in finding.advice for finding in found.findings)


BLOCKED = replace(
    WATCHED,
    work={"blocked": 0.9, "Python": 0.08, "idle": 0.02},
    places=(("blocked train.py:ask_database", 0.9), ("Python train.py:augment", 0.08)),
    system=replace(SYSTEM, cpu_seconds=250.0, delay_seconds=260.0, run_delay=0.5),
)


@pytest.mark.parametrize("workers", [0, 2, 8, 32])
def test_loading_that_waits_and_does_not_compute_wants_more_workers(workers: int) -> None:
    """This holds for any number of workers, also on a busy machine."""
    loaders = (replace(WATCHED.loaders[0], workers=workers),)
    found = judge(replace(BLOCKED, loaders=loaders, workers=workers))
    assert found.limit is Limit.BLOCKED
    assert "90% of the loading time is waiting, not computing" in found.headline
    assert "most of it in train.py:ask_database" in found.headline
    (advice,) = (f.advice for f in found.findings if f.topic == "limit")
    assert "more workers, also more than cores" in advice


def test_code_that_computes_more_than_it_waits_is_python() -> None:
    mixed = replace(BLOCKED, work={"blocked": 0.4, "Python": 0.5}, system=SYSTEM)
    assert find_limit(mixed) is Limit.PYTHON


def test_a_gain_keeps_the_time_of_waiting() -> None:
    slow = replace(WATCHED, work={"decode": 0.5, "read": 0.2, "blocked": 0.25})
    assert estimate_gain(slow, 1e9) == pytest.approx(91 / (1 + 0.45 * 91))
    (said,) = (f.says for f in judge(slow, 1e9).findings if f.topic == "Headrace")
    assert said.endswith("The 20% of reading and the 25% of other waiting are assumed to stay.")


def test_workers_that_hardly_compute_are_not_too_many() -> None:
    system = replace(SYSTEM, cpu_seconds=200.0, delay_seconds=400.0, run_delay=0.7)
    assert find_limit(replace(WATCHED, workers=32, system=system)) is Limit.DECODE


def test_a_busy_machine_is_mentioned() -> None:
    system = replace(SYSTEM, cpu_seconds=200.0, delay_seconds=300.0, run_delay=0.6)
    machine = judge(replace(WATCHED, system=system)).findings[-1]
    assert machine.says.startswith("2.0 of 8 cores in use, threads waited for 3.0 more;")
    assert "Other programs had the cores" in machine.advice


def test_cores_that_others_use_are_not_called_idle() -> None:
    system = replace(SYSTEM, cpu_seconds=20.0, delay_seconds=70.0, run_delay=0.8)
    found = judge(replace(FEW, system=system))
    assert found.limit is Limit.DECODE and "idle" not in found.headline
    assert "Other programs had the cores" in found.findings[-1].advice


def test_other_programs_are_not_blamed_if_the_program_hardly_computes() -> None:
    system = replace(SYSTEM, cpu_seconds=0.1, delay_seconds=1.0, run_delay=0.9)
    assert not judge(replace(WATCHED, system=system)).findings[-1].advice


def test_many_workers_that_get_their_cores_are_fine() -> None:
    assert find_limit(replace(WATCHED, workers=32)) is Limit.DECODE


def test_busy_workers_beside_idle_cores_are_too_few() -> None:
    found = judge(FEW)
    assert found.limit is Limit.TOO_FEW_WORKERS
    assert (
        "2 workers are busy all the time while cores are idle (2.5 of 8 in use)" in found.headline
    )
    none = replace(FEW, loaders=(replace(FEW.loaders[0], workers=0),), workers=0)
    assert "the main process alone is busy all the time" in judge(none).headline


def test_workers_without_a_known_loader_count_too() -> None:
    """They are workers of a Flow, or of other ranks."""
    assert find_limit(replace(FEW, workers=8)) is Limit.DECODE


def test_a_program_that_waits_for_the_disk_is_not_told_to_use_more_workers() -> None:
    assert find_limit(replace(FEW, work={"read": 0.8, "decode": 0.2})) is Limit.READ


def test_a_program_without_a_last_record_may_have_had_batches() -> None:
    died = judge(replace(WATCHED, loaders=(), work={}, cut_short=True))
    assert died.limit is Limit.EMPTY and "gave no batch" not in died.headline
    assert "A loader was used, but the program ended before its last record" in died.headline
    assert any("last seconds" in finding.says for finding in died.findings)


def test_idle_workers_and_a_waiting_loop_are_a_handover() -> None:
    assert find_limit(replace(WATCHED, work={"idle": 0.8, "decode": 0.2})) is Limit.HANDOVER


def test_a_gain_is_bounded_by_the_computing() -> None:
    assert estimate_gain(WATCHED, 1e9) == pytest.approx(91 / 34.3)
    assert estimate_gain(WATCHED, None) is None


def test_a_headrace_loader_is_not_told_to_use_headrace() -> None:
    own = replace(WATCHED, loaders=(replace(WATCHED.loaders[0], kind="headrace Loader"),))
    found = judge(own, headrace_rate=1e6)
    assert found.gain is None and "Packing" not in found.headline
    advice = " ".join(finding.advice or "" for finding in found.findings)
    assert "--resize-short" in advice and "Headrace decodes" not in advice


@pytest.mark.parametrize(
    ("others", "advised"),
    [
        ({"epochs": 3}, True),
        ({"epochs": 1}, False),
        ({"epochs": 3, "made": 3}, False),
        ({"epochs": 3, "persistent": True}, False),
        ({"epochs": 3, "kind": "headrace Loader"}, False),
        ({"epochs": 3, "workers": 0}, False),
    ],
    ids=["again", "once", "recreated", "persistent", "headrace", "no workers"],
)
def test_workers_that_start_slowly_every_epoch_should_persist(
    others: dict[str, Any], advised: bool
) -> None:
    slow = replace(WATCHED, spans={**WATCHED.spans, FIRST: 30.0})
    found = judge(replace(slow, loaders=(replace(WATCHED.loaders[0], **others),)))
    assert any("persistent_workers" in f.advice for f in found.findings) == advised


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (1, "RuntimeError: loss is nan", "failed after 100.0 s with exit code 1: RuntimeError: loss is nan."),
        (3, None, "failed after 100.0 s with exit code 3."),
        (-11, None, "was killed by SIGSEGV, after 100.0 s."),
        (139, None, "was killed by SIGSEGV, after 100.0 s."),
        (-9, None, "was killed by SIGKILL, possibly out of memory, after 100.0 s."),
    ],
)  # fmt: skip
def test_a_program_that_failed_gets_no_verdict(code: int, error: str | None, says: str) -> None:
    found = judge(replace(WATCHED, exit_code=code, error=error), headrace_rate=600.0)
    assert found.limit is Limit.CRASHED and found.gain is None
    assert found.headline == f"The program {says} There is no verdict on a program that failed."
    assert not {"limit", "Headrace"} & {finding.topic for finding in found.findings}
    unseen = replace(WATCHED, exit_code=code, error=error, loaders=(), loops=0, work={})
    assert judge(unseen).headline == found.headline


def test_a_program_that_the_user_ended_gets_its_verdict() -> None:
    found = judge(replace(WATCHED, exit_code=-2, interrupted=True, error="KeyboardInterrupt: "))
    assert found.limit is Limit.DECODE


def test_the_slowest_rank_is_named_and_all_are_listed() -> None:
    ranks = (Rank(0, 1.0, 5.0, 85.0, 50, 100, 2), Rank(1, 1.0, 56.7, 33.3, 50, 100, 1))
    found = judge(replace(WATCHED, rank=1, ranks=ranks))
    assert found.headline.startswith("Rank 1 waited for data the longest of 2 ranks. Data-bound")
    (told,) = (finding.says for finding in found.findings if finding.topic == "ranks")
    assert "rank 1 57.7 s (63% of its loop after first batches, 1 worker), rank 0 6.0 s (6%" in told


def test_of_many_ranks_the_slowest_are_listed() -> None:
    ranks = tuple(Rank(n, 1.0, float(n), 50.0, 50, 100, 2) for n in range(64))
    (told,) = (
        f.says for f in judge(replace(WATCHED, rank=63, ranks=ranks)).findings if f.topic == "ranks"
    )
    assert told.count("workers") == 8 and "and 56 more, which waited less" in told


def test_data_on_a_network_file_system_are_mentioned() -> None:
    topics = {f.topic: f for f in judge(replace(WATCHED, disk="network, nfs4 (nas:/x)")).findings}
    assert topics["network file system"].says.endswith("a network file system, nfs4 (nas:/x).")
    local = judge(replace(WATCHED, disk="solid state, ext4"))
    assert not any(finding.topic == "network file system" for finding in local.findings)
