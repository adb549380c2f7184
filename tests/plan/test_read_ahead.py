"""Every unit is there when it is needed, is released after its last use, and no more are alive than the window explains."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epochs import Job, bucket_orders, jobs, make_runs, windowed_jobs
from headrace.plan import EpochPlan, Shuffle, Split, plan_epoch

endings = st.sampled_from(["drop", "short"])


def walk_alive(plan: EpochPlan, start: int = 0) -> list[Counter[int]]:
    """The units that are in memory in each step from `start` on, with the uses that are left of each."""
    alive, left, before = [], Counter[int](), plan.count_units_before(start)
    for t in range(start, len(plan)):
        uses = plan.count_units(t)
        left.update({u: plan.count_entries(u) - before[u] for u in uses if u not in left})
        alive.append(Counter(left))
        for unit, count in uses.items():
            left[unit] -= count
            if left[unit] <= 0:
                del left[unit]
    return alive


def find_last(plan: EpochPlan) -> dict[int, int]:
    """The last step that uses each unit."""
    return {unit: t for t in range(len(plan)) for unit in plan.count_units(t)}


@given(jobs(), st.data(), endings)
def test_the_rows_of_a_step_are_in_its_units(job: Job, data: st.DataObject, last: str) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for plan in job.plan_ranks(world_size, last):
        for t in range(len(plan)):
            step, rows = plan.step(t), {u: plan.list_rows(u) for u in plan.count_units(t)}
            for unit, row in zip(step.units.tolist(), step.rows.tolist(), strict=True):
                assert row in rows[unit]


@given(jobs())
def test_units_of_one_rank_hold_every_entry_once(job: Job) -> None:
    plan = job.plan(last="short")
    units = [unit for unit in find_last(plan) if unit >= 0]
    assert sum(plan.count_entries(unit) for unit in units) == len(job.entries)
    rows = [plan.list_rows(unit) for unit in units]
    assert all((np.diff(unit) > 0).all() for unit in rows)
    assert set(np.concatenate([*rows, np.empty(0, int)])) == set(job.entries.tolist())


@given(jobs(), st.data())
def test_a_unit_is_released_by_its_last_step_wherever_one_resumes(
    job: Job, data: st.DataObject
) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for plan in job.plan_ranks(world_size, "short"):
        if job.shuffle is not None and job.shuffle.is_global(len(job.entries)):
            continue  # units are single entries, or all of them are kept
        start = data.draw(st.integers(0, len(plan)))
        last = find_last(plan)
        for t, alive in enumerate(walk_alive(plan, start), start):
            assert all(last[unit] >= t for unit in alive)


def count_alive(job: Job, rank: int, world_size: int) -> list[int]:
    """Entries in the units that are alive, step by step."""
    plan = job.plan(rank, world_size, "drop")
    return [sum(map(plan.count_entries, alive)) for alive in walk_alive(plan)]


def measure_longest(job: Job) -> int:
    return int(np.diff(np.searchsorted(job.entries, job.runs.list_bounds())).max())


@given(windowed_jobs(), st.data())
def test_memory_is_bounded_by_the_window(job: Job, data: st.DataObject) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    longest = measure_longest(job)
    lane = 2 * job.shuffle.window // job.lanes + job.global_batch // job.lanes + 2 * longest
    bound = lane * job.lanes // world_size
    for rank in range(world_size):
        assert max(count_alive(job, rank, world_size), default=0) <= bound


@given(windowed_jobs(), st.data())
def test_in_buckets_memory_is_bounded_by_the_window_and_a_block(
    job: Job, data: st.DataObject
) -> None:
    block = data.draw(st.integers(1, 5))
    buckets = replace(data.draw(bucket_orders(job.runs.entries)), block=block)
    each = (2 * job.shuffle.window + block * job.global_batch) // job.lanes
    each += 2 * measure_longest(job)
    most = max(count_alive(replace(job, buckets=buckets), 0, 1), default=0)
    assert most <= each * job.lanes


def test_typical_memory_is_the_window_a_batch_and_two_runs_a_lane() -> None:
    window, run, batch, lanes = 8192, 64, 256, 4
    job = Job(make_runs([run] * 2000), None, lanes, batch, Shuffle(0, window), 0)
    most = max(count_alive(job, 0, 1))
    assert 0.9 * window < most < 1.05 * (window + batch + 2 * run * lanes)


def test_without_shuffle_a_run_or_two_are_alive() -> None:
    plan = plan_epoch(make_runs([50] * 100), Split(20))
    assert max(map(len, walk_alive(plan))) == 2
    assert list(find_last(plan)) == list(range(100))


def test_a_subset_reads_only_the_runs_that_it_has_samples_in() -> None:
    rows = np.array([5, 6, 7, 45, 46])
    plan = plan_epoch(make_runs([10] * 6), Split(1), shuffle=Shuffle(0, 3), rows=rows)
    read = [plan.list_rows(unit).tolist() for unit in find_last(plan)]
    assert sorted(read) == [[5, 6, 7], [45, 46]]
