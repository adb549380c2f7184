"""The schedule has every run when it is needed, and no more runs than the window explains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epochs import Job, bucket_orders, jobs, make_runs, windowed_jobs
from headrace.plan import RunSchedule, Shuffle, Split, find_runs, plan_epoch, schedule_runs


def find_alive(schedule: RunSchedule, step: int) -> np.ndarray:
    """The runs that must be in memory in this step."""
    return schedule.runs[(schedule.first <= step) & (schedule.last >= step)]


@given(jobs(), st.data(), st.sampled_from(["drop", "short"]))
def test_first_and_last_are_the_first_and_last_step_that_use_the_run(
    job: Job, data: st.DataObject, last: str
) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for plan in job.plan_ranks(world_size, last):
        uses: dict[int, list[int]] = {}
        for t in range(len(plan)):
            for run in find_runs(plan.runs, plan.step(t).rows):
                uses.setdefault(int(run), []).append(t)
        schedule = schedule_runs(plan)
        spans = zip(schedule.first.tolist(), schedule.last.tolist())
        got = dict(zip(schedule.runs.tolist(), spans))
        assert got == {run: (steps[0], steps[-1]) for run, steps in uses.items()}
        assert (np.diff(schedule.first) >= 0).all()


@given(jobs())
def test_reading_needed_runs_and_dropping_released_ones_leaves_the_live_ones(
    job: Job,
) -> None:
    schedule, memory = schedule_runs(plan := job.plan(last="short")), set()
    for t in range(len(plan)):
        memory |= set(schedule.runs[schedule.first == t].tolist())
        assert memory == set(find_alive(schedule, t).tolist())
        assert memory >= set(find_runs(plan.runs, plan.step(t).rows).tolist())
        memory -= set(schedule.runs[schedule.last == t].tolist())
    assert not memory


def count_alive(job: Job, rank: int, world_size: int) -> list[int]:
    """Entries in the runs that are alive, step by step."""
    schedule = schedule_runs(plan := job.plan(rank, world_size, "drop"))
    held = np.diff(np.searchsorted(job.entries, job.runs))
    return [int(held[find_alive(schedule, t)].sum()) for t in range(len(plan))]


@given(windowed_jobs(), st.data())
def test_memory_is_bounded_by_the_window(job: Job, data: st.DataObject) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    longest = int(np.diff(np.searchsorted(job.entries, job.runs)).max())
    lane = 2 * job.shuffle.window // job.lanes + job.global_batch // job.lanes + 2 * longest
    bound = lane * job.lanes // world_size
    for rank in range(world_size):
        assert max(count_alive(job, rank, world_size), default=0) <= bound


@given(windowed_jobs(), st.data())
def test_in_buckets_memory_is_bounded_by_the_window_and_a_block(
    job: Job, data: st.DataObject
) -> None:
    block = data.draw(st.integers(1, 5))
    buckets = replace(data.draw(bucket_orders(int(job.runs[-1]))), block=block)
    longest = int(np.diff(np.searchsorted(job.entries, job.runs)).max())
    each = (2 * job.shuffle.window + block * job.global_batch) // job.lanes + 2 * longest
    most = max(count_alive(replace(job, buckets=buckets), 0, 1), default=0)
    assert most <= each * job.lanes


def test_typical_memory_is_the_window_a_batch_and_two_runs_a_lane() -> None:
    window, run, batch, lanes = 8192, 64, 256, 4
    job = Job(make_runs([run] * 2000), None, lanes, batch, Shuffle(0, window), 0)
    most = max(count_alive(job, 0, 1))
    assert 0.9 * window < most < 1.05 * (window + batch + 2 * run * lanes)


def test_without_shuffle_a_run_or_two_are_alive() -> None:
    plan = plan_epoch(make_runs([50] * 100), Split(20))
    schedule = schedule_runs(plan)
    assert max(len(find_alive(schedule, t)) for t in range(len(plan))) == 2
    assert schedule.runs.tolist() == list(range(100))


def test_a_subset_reads_only_the_runs_that_it_has_samples_in() -> None:
    rows = np.array([5, 6, 7, 45, 46])
    plan = plan_epoch(make_runs([10] * 6), Split(1), shuffle=Shuffle(0, 3), rows=rows)
    assert sorted(schedule_runs(plan).runs) == [0, 4]
