"""The laws of repeated augmentation: copies lie in one batch, epochs take turns, and all other laws of epochs hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochs import Job, jobs, list_order, make_runs, valid_rows, walk
from headrace.plan import EpochPlan, Shuffle, Split, plan_epoch
from plain_plan import list_steps as list_plain_steps
from plain_plan import order_lanes

endings = st.sampled_from(["drop", "short"])


@st.composite
def repeated_jobs(draw: st.DrawFn) -> Job:
    """Shuffled epochs whose entries come 2 to 5 times in their batch, in buckets or not."""
    job = draw(jobs(("global", "window")))
    repeat = draw(st.integers(2, 5))
    return replace(job, repeat=repeat, global_batch=job.global_batch * repeat)


def list_steps(plan: EpochPlan) -> list[tuple[list[int], list[int]]]:
    return [(plan.step(t).rows.tolist(), plan.step(t).draws.tolist()) for t in range(len(plan))]


def walk_entries(job: Job) -> list[int]:
    """The entries of an epoch, ascending: rows may be equal, entries are not."""
    entries = np.concatenate([*order_lanes(job), np.empty(0, np.int64)])
    return sorted(entries.tolist())


@given(repeated_jobs(), st.data(), endings)
def test_copies_lie_next_to_each_other_in_one_batch_of_one_rank(
    job: Job, data: st.DataObject, last: str
) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for plan in job.plan_ranks(world_size, last):
        for t in range(len(plan)):
            step, copies = plan.step(t), (-1, job.repeat)
            rows, draws = step.rows.reshape(copies), step.draws.reshape(copies)
            assert (rows == rows[:, :1]).all()
            assert (step.valid.reshape(copies) == step.valid.reshape(copies)[:, :1]).all()
            assert (draws - draws[:, :1] == np.arange(job.repeat) << 48).all()


@given(repeated_jobs())
def test_an_epoch_takes_one_entry_in_repeat_and_every_copy_draws_anew(job: Job) -> None:
    plan = job.plan(last="short")
    count = -(-len(job.entries) // job.repeat)
    assert len(np.unique(list_order(plan)[:: job.repeat])) == count
    draws = [draw for _, draws in list_steps(plan) for draw in draws]
    assert len(set(draws)) == len(draws) == count * job.repeat


@given(repeated_jobs())
def test_the_epochs_of_a_deal_take_every_entry_once_or_twice(job: Job) -> None:
    first = job.epoch // job.repeat * job.repeat
    epochs = [replace(job, epoch=first + turn) for turn in range(job.repeat)]
    lists = [walk_entries(epoch) for epoch in epochs]
    assert len({len(entries) for entries in lists}) == 1
    times = np.bincount(np.concatenate(lists).astype(int), minlength=len(job.entries))
    assert (times >= 1).all()
    if len(job.entries) >= job.repeat:
        assert (times <= 2).all() and (times == 2).sum() < job.repeat


def test_the_next_deal_divides_the_entries_differently() -> None:
    job = Job(make_runs([1] * 100), None, 1, 4, Shuffle(3), 0, repeat=4)
    deals = [
        {tuple(walk_entries(replace(job, epoch=4 * deal + turn))) for turn in range(4)}
        for deal in range(2)
    ]
    assert not deals[0] & deals[1]


@given(st.integers(0, 300), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), endings)
def test_a_split_counts_steps_and_samples(
    entries: int, world_size: int, each: int, repeat: int, last: str
) -> None:
    splits = [
        Split(each * repeat, rank, world_size, last=last, repeat=repeat)  # type: ignore[arg-type]
        for rank in range(world_size)
    ]
    shuffle = Shuffle(0, 10)
    plans = [plan_epoch(make_runs([1] * entries), split, shuffle=shuffle) for split in splits]
    assert {len(plan) for plan in plans} == {splits[0].count_steps(entries)}
    assert max(len(walk(plan)) for plan in plans) == splits[0].count_samples(entries)
    without = replace(splits[0], repeat=1).count_steps(entries)
    assert without <= splits[0].count_steps(entries) <= without + 1


@given(repeated_jobs(), st.data())
def test_global_batches_do_not_depend_on_the_world_size_nor_on_where_one_resumes(
    job: Job, data: st.DataObject
) -> None:
    before, after = (
        job.plan_ranks(data.draw(st.sampled_from(job.world_sizes)), "short") for _ in range(2)
    )
    alone = job.plan(last="short")
    assert {len(plan) for plan in (*before, *after)} == {len(alone)}
    change = data.draw(st.integers(0, len(alone)))
    for t in range(len(alone)):
        plans = before if t < change else after
        rows = np.concatenate([valid_rows(plan, t) for plan in plans])
        assert rows.tolist() == valid_rows(alone, t).tolist()
        assert {plan.step(t).bucket for plan in plans} == {alone.step(t).bucket}


@given(repeated_jobs(), st.data())
def test_no_batch_is_empty_and_all_but_the_last_are_full(job: Job, data: st.DataObject) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for plan in job.plan_ranks(world_size, "short"):
        sizes = [len(rows) for rows, _ in list_steps(plan)]
        assert all(size == plan.split.batch_size for size in sizes[:-1])
        assert all(1 <= size <= plan.split.batch_size for size in sizes)
        assert all(plan.step(t).valid.all() for t in range(len(plan) - 1))


@given(repeated_jobs(), st.data(), endings)
def test_every_step_is_that_of_the_plain_plan(job: Job, data: st.DataObject, last: str) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for rank, plan in enumerate(job.plan_ranks(world_size, last)):
        steps = [plan.step(t) for t in range(len(plan))]
        found = [(step.draws[step.valid].tolist(), step.bucket) for step in steps]
        assert found == list_plain_steps(job, rank, world_size, last)


@pytest.mark.parametrize("lengths", [[10] * 1000, [3] * 400 + [5000], [5000] + [1] * 300])
@pytest.mark.parametrize("window", [500, None])
def test_whole_runs_are_dealt_as_in_the_plain_plan(lengths: list[int], window: int | None) -> None:
    for epoch in range(4):
        job = Job(make_runs(lengths), None, 8, 32, Shuffle(0, window), epoch, repeat=4)
        plan, expected = job.plan(last="short"), list_plain_steps(job, last="short")
        assert [plan.step(t).draws.tolist() for t in range(len(plan))] == [e for e, _ in expected]


def list_units(plan: EpochPlan) -> set[int]:
    return {unit for t in range(len(plan)) for unit in plan.count_units(t)}


def list_runs(plan: EpochPlan) -> set[int]:
    return {int(plan.list_rows(unit)[0]) // 10 for unit in list_units(plan)}


def test_runs_are_dealt_whole_so_that_little_is_read_that_is_not_used() -> None:
    runs = make_runs([10] * 1000)
    used = [
        list_runs(plan_epoch(runs, Split(32, repeat=4), epoch=epoch, shuffle=shuffle))
        for shuffle in (Shuffle(0, 500), Shuffle(0))
        for epoch in range(4)
    ]
    assert all(len(runs) <= 252 for runs in used)
    assert len(set.union(*used[:4])) == 1000 and sum(map(len, used[:4])) <= 1003


def test_with_few_runs_entries_are_dealt_one_by_one() -> None:
    plan = plan_epoch(make_runs([100] * 255), Split(32, repeat=4), shuffle=Shuffle(0, 500))
    assert 255 <= len(list_units(plan)) <= 255 + plan.lanes


def test_entries_that_weights_repeat_draw_anew_in_every_turn_and_copy() -> None:
    rows = np.repeat(np.arange(50), 4)
    plan = plan_epoch(
        make_runs([10] * 5), Split(8, last="short", repeat=2), shuffle=Shuffle(0), rows=rows
    )
    draws = [draw for _, draws in list_steps(plan) for draw in draws]
    assert len(set(draws)) == len(draws) == 200


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (200, [1473, 895, 668, 1222, 1044, 404, 1635, 1808]),
        (300, [1703, 1705, 1288, 2498, 1161, 1162, 827, 1267]),
    ],
)
def test_deals_never_change(runs: int, expected: list[int]) -> None:
    """A change here breaks the resuming of every training in progress."""
    split = Split(32, 1, 2, repeat=4)
    plan = plan_epoch(make_runs([10] * runs), split, epoch=3, shuffle=Shuffle(5, 100))
    assert plan.step(3).rows[::4].tolist() == expected


def test_repeats_are_refused_without_a_shuffle() -> None:
    with pytest.raises(ValueError, match="repeat is 2: entries are dealt at random, so shuffle"):
        plan_epoch(make_runs([10]), Split(2, repeat=2))


@pytest.mark.parametrize("repeat", [0, 3])
def test_a_batch_is_a_multiple_of_its_repeats(repeat: int) -> None:
    with pytest.raises(ValueError, match=f"repeat is {repeat} in batches of 8: give at least 1"):
        Split(8, repeat=repeat)


def test_lanes_divide_the_distinct_entries_of_a_batch() -> None:
    assert plan_epoch(make_runs([10]), Split(16, repeat=4), shuffle=Shuffle(0)).lanes == 4
    with pytest.raises(ValueError, match="a global batch of 4 cannot take equally from 8 lanes"):
        Split(16, lanes=8, repeat=4)
