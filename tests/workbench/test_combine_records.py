"""The records of watched processes, combined."""

from __future__ import annotations

from typing import Any

from headrace.workbench.probe.timeline import COMPUTE, FIRST, KINDS, STARTUP, WAIT
from headrace.workbench.watch.combine_records import combine, correct_ends
from headrace.workbench.watch.watched_program import System, Watched

SYSTEM = System(2, 10.0, 1.0, 0.1, 0.0, 1 << 30, 3, 8 << 30)


def make_record(begin: float, end: float, **others: Any) -> dict[str, Any]:
    totals = {**dict.fromkeys(KINDS, 0.0), WAIT: end - begin}
    timeline = {"begin": begin, "totals": totals, "width": 1.0, "bins": []}
    ordinary = {
        "loaders": [],
        "worker": False,
        "kinds": {},
        "places": {},
        "cost": 0.0,
        "ended": True,
    }
    return {"timeline": timeline, "end": end, **ordinary, **others}


def put_together(records: list[dict[str, Any]]) -> Watched:
    return combine(
        records, command="python train.py", exit_code=0, begin=0.0, end=10.0, system=SYSTEM
    )


def make_epoch(batches: int, **others: Any) -> dict[str, Any]:
    ordinary = {"kind": "torch DataLoader", "dataset": "ImageFolder", "source": "/data"}
    counts = {"batches": batches, "images": 64 * batches, "epochs": 1}
    return {**ordinary, **counts, "workers": 2, "batch_size": 64, **others}


def test_workers_of_consecutive_epochs_are_not_added_up() -> None:
    loop = make_record(0, 10, loaders=[make_epoch(5)])
    first = [make_record(1, 4, worker=True) for _ in range(2)]
    second = [make_record(5, 9, worker=True) for _ in range(2)]
    assert put_together([loop, *first, *second]).workers == 2
    assert put_together([loop, *first, make_record(2, 9, worker=True)]).workers == 3


def test_equal_loaders_of_several_epochs_are_merged() -> None:
    made = [make_epoch(5), make_epoch(7), make_epoch(0), make_epoch(3, batch_size=100)]
    found = put_together([make_record(0, 10, loaders=made)]).loaders
    assert [(seen.batch_size, seen.batches) for seen in found] == [(64, 12), (100, 3)]
    assert (found[0].images, found[0].epochs, found[0].made) == (64 * 12, 2, 2)


def test_the_threads_of_headrace_work_from_the_first_batch_on() -> None:
    own = make_epoch(5, kind="headrace Loader", read_seconds=2.0, render_seconds=6.0)
    loop = make_record(0, 8, loaders=[own])
    loop["timeline"]["totals"].update({FIRST: 8.0, WAIT: 0.0})
    assert put_together([loop]).work == {"decode": 0.75, "read": 0.25, "idle": 0.0}
    loop["timeline"]["totals"].update({FIRST: 8.0, WAIT: 8.0})
    assert put_together([loop]).work == {"decode": 0.375, "read": 0.125, "idle": 0.5}


def test_a_loop_without_a_last_record_was_cut_short() -> None:
    worker = make_record(1, 4, worker=True, ended=False)
    assert not put_together([make_record(0, 10, loaders=[make_epoch(5)]), worker]).cut_short
    assert put_together([make_record(0, 10, loaders=[make_epoch(5)], ended=False)]).cut_short


def test_python_that_runs_in_the_loop_itself_is_not_taken_for_waiting_threads() -> None:
    own = make_epoch(5, kind="headrace Loader", read_seconds=0.1, render_seconds=2.0)
    looks = {"kinds": {"Python": 70, "idle": 30}, "places": {"Python train.py:f": 70}}
    watched = put_together([make_record(0, 10, loaders=[own], **looks)])
    assert watched.work == {"Python": 0.7, "idle": 0.3}
    assert watched.places == (("Python train.py:f", 0.7),)
    looks = {"kinds": {"Python": 10, "idle": 90}, "places": {}}
    assert "decode" in put_together([make_record(0, 10, loaders=[own], **looks)]).work


def test_without_a_loader_all_time_is_startup() -> None:
    spans = put_together([make_record(1, 9)]).spans
    assert (spans[STARTUP], sum(spans.values())) == (10.0, 10.0)


def make_rank(rank: int, waited: float, *, pid: int, **others: Any) -> dict[str, Any]:
    record = make_record(0, 10, loaders=[make_epoch(5)], rank=rank, pid=pid, parent=1, **others)
    record["timeline"]["totals"].update({WAIT: waited, COMPUTE: 10 - waited})
    return record


def make_worker(pid: int, parent: int, **others: Any) -> dict[str, Any]:
    return make_record(1, 9, worker=True, pid=pid, parent=parent, **others)


def test_the_rank_that_waited_the_longest_is_judged_and_all_are_listed() -> None:
    workers = [
        make_worker(20, 10, kinds={"decode": 5}),
        make_worker(21, 11, kinds={"Python": 5}),
        make_worker(22, 11, kinds={"Python": 5}),
    ]
    watched = put_together([make_rank(1, 4.0, pid=11), make_rank(0, 1.0, pid=10), *workers])
    assert watched.rank == 1 and watched.waiting == 4.0
    assert [(each.rank, each.waiting, each.workers) for each in watched.ranks] == [
        (0, 1.0, 1),
        (1, 4.0, 2),
    ]
    assert watched.ranks[1].data_share == 0.4 and watched.ranks[0].batches == 5
    assert watched.workers == 3, "all, which share the cores"
    assert watched.work == {"Python": 1.0} and watched.who_loads == "the 2 workers of rank 1"


def test_workers_of_a_fork_server_belong_to_the_rank_that_started_it() -> None:
    server = make_record(0, 10, pid=30, parent=11)
    ranks = [make_rank(0, 1.0, pid=10), make_rank(1, 4.0, pid=11)]
    watched = put_together([*ranks, server, make_worker(31, 30), make_worker(32, 99)])
    assert [each.workers for each in watched.ranks] == [0, 1]


def test_a_single_rank_is_not_a_distributed_training() -> None:
    watched = put_together([make_rank(0, 1.0, pid=10), make_worker(20, 77)])
    assert watched.ranks == () and watched.rank is None and watched.who_loads == "the worker"


def test_the_error_is_the_first_that_ended_a_loop_and_not_the_launchers() -> None:
    launcher = make_record(0, 9, error="ChildFailedError: see above", pid=1, parent=0)
    late = make_rank(0, 1.0, pid=10, error="RuntimeError: connection closed")
    early = make_rank(1, 1.0, pid=11, error="ValueError: loss is nan")
    early["end"] = 5
    assert put_together([launcher, late, early]).error == "rank 1: ValueError: loss is nan"
    assert put_together([launcher]).error == "ChildFailedError: see above"
    assert put_together([make_record(0, 9)]).error is None


def test_killed_workers_lived_until_they_were_last_seen() -> None:
    loop = make_record(0, 10, loaders=[make_epoch(5)], pid=1)
    killed = [make_record(n, n + 0.5, worker=True, ended=False, pid=2 + n) for n in range(2)]
    assert put_together([loop, *killed]).workers == 1, "each wrote once, when it began"
    seen = {1: 99.0, 2: 3.0, 3: 3.0}
    corrected = correct_ends([loop, *killed], seen)
    assert put_together(corrected).workers == 2
    assert [record["end"] for record in corrected] == [10, 3.0, 3.0]
    told = correct_ends([{**loop, "children": {"2": 4.0, "3": 2.0}}, *killed], seen)
    assert [record["end"] for record in told] == [10, 4.0, 3.0]
