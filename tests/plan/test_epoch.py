"""The laws of an epoch: every sample once, ranks partition it, global batches belong to the job."""

from __future__ import annotations

import hashlib
import timeit
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochs import Job, jobs, list_order, make_runs, valid_rows, walk, windowed_jobs
from headrace.plan import Shuffle, Split, cut_runs, plan_epoch
from plain_plan import list_steps

endings = st.sampled_from(["drop", "short"])


def take_global_batch(job: Job, world_size: int, t: int, last: str) -> list[int]:
    return np.concatenate([valid_rows(p, t) for p in job.plan_ranks(world_size, last)]).tolist()


@given(jobs())
def test_an_epoch_takes_every_entry_exactly_once(job: Job) -> None:
    assert sorted(walk(job.plan(last="short"))) == job.entries.tolist()


@given(jobs(), st.data())
def test_ranks_partition_an_epoch(job: Job, data: st.DataObject) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    rows = np.concatenate([walk(plan) for plan in job.plan_ranks(world_size, "short")])
    assert sorted(rows) == job.entries.tolist()


@given(st.integers(0, 200), st.integers(1, 9), st.integers(1, 17), st.booleans())
def test_validation_covers_every_sample_once_for_sizes_that_do_not_divide(
    count: int, world_size: int, batch_size: int, shuffled: bool
) -> None:
    runs, shuffle = make_runs([1] * count), Shuffle(0, 20) if shuffled else None
    splits = [Split(batch_size, rank, world_size, last="short") for rank in range(world_size)]
    plans = [plan_epoch(runs, split, shuffle=shuffle) for split in splits]
    assert sorted(np.concatenate([walk(plan) for plan in plans])) == list(range(count))
    assert len({len(plan) for plan in plans}) == 1


@given(jobs(), endings)
def test_global_batches_are_the_same_for_every_world_size_that_the_lanes_allow(
    job: Job, last: str
) -> None:
    alone = job.plan(last=last)
    for world_size in job.world_sizes:
        assert {len(plan) for plan in job.plan_ranks(world_size, last)} == {len(alone)}
        for t in range(min(len(alone), 4)):
            expected = valid_rows(alone, t).tolist()
            assert take_global_batch(job, world_size, t, last) == expected
        if len(alone):
            t = len(alone) - 1
            assert take_global_batch(job, world_size, t, last) == valid_rows(alone, t).tolist()


@given(jobs(), st.data())
def test_an_epoch_goes_on_with_its_batches_when_the_world_size_changes(
    job: Job, data: st.DataObject
) -> None:
    before, after = (data.draw(st.sampled_from(job.world_sizes)) for _ in range(2))
    steps = len(alone := job.plan(last="short"))
    change = data.draw(st.integers(0, steps))
    seen = [take_global_batch(job, before, t, "short") for t in range(change)]
    seen += [take_global_batch(job, after, t, "short") for t in range(change, steps)]
    assert seen == [valid_rows(alone, t).tolist() for t in range(steps)]


def test_four_ranks_become_two_by_default() -> None:
    runs = make_runs([10] * 100)
    shuffle = Shuffle(seed=1, window=64)

    def global_batch(world_size: int, t: int) -> list[int]:
        splits = [Split(64 // world_size, rank, world_size) for rank in range(world_size)]
        plans = [plan_epoch(runs, split, shuffle=shuffle) for split in splits]
        return np.concatenate([plan.step(t).rows for plan in plans]).tolist()

    for t in range(15):
        assert global_batch(4, t) == global_batch(2, t) == global_batch(1, t)


@given(jobs(), st.data(), endings)
def test_all_ranks_make_the_same_steps_and_no_batch_is_empty(
    job: Job, data: st.DataObject, last: str
) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    plans = job.plan_ranks(world_size, last)
    batches, rest = divmod(len(job.entries), job.global_batch)
    assert {len(plan) for plan in plans} == {batches + (rest > 0 and last != "drop")}
    for plan in plans:
        sizes = [len(plan.step(t).rows) for t in range(len(plan))]
        assert all(size == plan.split.batch_size for size in sizes[:batches])
        assert all(1 <= size <= plan.split.batch_size for size in sizes)


@given(jobs(), st.data())
def test_short_batches_have_no_invalid_sample_unless_they_would_be_empty(
    job: Job, data: st.DataObject
) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for plan in job.plan_ranks(world_size, "short"):
        for t in range(len(plan)):
            step = plan.step(t)
            assert len(step.rows) == len(step.valid) == len(step.draws)
            assert step.valid.all() or (len(step.valid) == 1 and t == len(plan) - 1)
            assert np.isin(step.rows, job.entries).all()


@given(jobs())
def test_one_rank_never_repeats_a_sample_in_training(job: Job) -> None:
    plan = job.plan(last="short")
    assert all(plan.step(t).valid.all() for t in range(len(plan)))


@given(jobs(), st.data())
def test_a_step_computed_alone_is_the_step_reached_by_iterating(
    job: Job, data: st.DataObject
) -> None:
    plan = job.plan(last="short")
    if not len(plan):
        return
    t = data.draw(st.integers(0, len(plan) - 1))
    walked = [plan.step(i) for i in range(len(plan))][t]
    alone = job.plan(last="short").step(t)
    assert walked.rows.tolist() == alone.rows.tolist()
    assert walked.draws.tolist() == alone.draws.tolist()


@given(jobs())
def test_no_two_turns_of_an_epoch_share_their_draws(job: Job) -> None:
    plan = job.plan(last="short")
    steps = [plan.step(t) for t in range(len(plan))]
    draws = np.concatenate([step.draws for step in steps] + [np.empty(0, int)])
    rows = np.concatenate([step.rows for step in steps] + [np.empty(0, int)])
    assert len(np.unique(draws)) == len(job.entries)
    assert (draws % max(job.runs.entries, 1) == rows).all()


@given(jobs())
def test_a_sample_that_comes_once_draws_by_its_row(job: Job) -> None:
    if job.rows is not None:
        job = Job(**{**vars(job), "rows": np.unique(job.rows)})
    plan = job.plan(last="short")
    for t in range(len(plan)):
        assert plan.step(t).draws.tolist() == plan.step(t).rows.tolist()


@given(windowed_jobs())
def test_in_its_lane_a_sample_moves_by_less_than_its_part_of_the_window(job: Job) -> None:
    plan, still = (list_order(p) for p in (job.plan(last="short"), job.plan_with(window=0)))
    places = {draw: place for place, draw in enumerate(still.tolist())}
    moves = abs(np.array([places[draw] for draw in plan.tolist()]) - np.arange(len(plan)))
    assert (moves < max(job.shuffle.window // job.lanes, 1)).all()


@given(jobs(), st.data())
def test_a_rank_with_samples_repeats_one_of_its_own(job: Job, data: st.DataObject) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for plan in job.plan_ranks(world_size, "short"):
        own = walk(plan)
        if len(own) and len(plan):
            assert np.isin(plan.step(len(plan) - 1).rows, own).all()


def test_two_lanes_are_not_shuffled_alike() -> None:
    plan = plan_epoch(make_runs([64]), Split(2, lanes=2), shuffle=Shuffle(0, 60))
    order = list_order(plan)
    assert (order[:32] != order[32:] - 32).any()


@given(st.integers(0, 300), st.integers(1, 40))
def test_one_rank_without_shuffle_sees_the_index_order(count: int, batch_size: int) -> None:
    plan = plan_epoch(make_runs([count]), Split(batch_size, last="short"))
    assert walk(plan).tolist() == list(range(count))


def test_ranks_without_shuffle_each_read_one_stretch_of_the_index() -> None:
    splits = [Split(8, rank, 4, last="short") for rank in range(4)]
    walks = [walk(plan_epoch(make_runs([100]), split)) for split in splits]
    assert [rows.tolist() for rows in walks] == [list(range(i, i + 25)) for i in range(0, 100, 25)]


def test_epochs_and_seeds_differ() -> None:
    runs = make_runs([10] * 20)

    def order(seed: int, epoch: int, window: int | None) -> list[int]:
        return walk(plan_epoch(runs, Split(8), epoch=epoch, shuffle=Shuffle(seed, window))).tolist()

    for window in (0, 30, None):
        orders = [order(0, 0, window), order(0, 1, window), order(1, 0, window)]
        assert orders[0] != orders[1] != orders[2] != orders[0]


def test_a_window_as_long_as_the_epoch_is_a_permutation_across_lanes() -> None:
    runs = make_runs([100] * 8)
    whole = plan_epoch(runs, Split(8), shuffle=Shuffle(0, 800))
    order = list_order(whole)
    other = plan_epoch(runs, Split(8), shuffle=Shuffle(0))
    assert order.tolist() == list_order(other).tolist()
    lane = order[: len(order) // 8]
    assert len(np.unique(lane // 100)) == 8  # a lane of a windowed order has one or two runs


def test_a_rank_reads_only_its_part_of_the_runs() -> None:
    runs = make_runs([10] * 80)
    plans = [plan_epoch(runs, Split(8, r, 4), shuffle=Shuffle(0, 100)) for r in range(4)]
    used = [set((walk(plan) // 10).tolist()) for plan in plans]
    assert sum(len(runs) for runs in used) <= 80 + 3


@pytest.mark.parametrize("rows", [[3, 1], [-1, 2], [2, 10]])
def test_rows_out_of_order_or_range_are_refused(rows: list[int]) -> None:
    with pytest.raises(ValueError, match="rows must not decrease and lie in 0 to 9"):
        plan_epoch(make_runs([10]), Split(2), rows=np.array(rows))


@pytest.mark.parametrize("t", [-1, 5])
def test_a_step_outside_the_epoch_is_an_index_error(t: int) -> None:
    with pytest.raises(IndexError, match=f"step {t} of an epoch of 5 steps"):
        plan_epoch(make_runs([10]), Split(2)).step(t)


def digest(plan_steps: list[np.ndarray]) -> str:
    rows = np.concatenate(plan_steps).astype("<i8")
    return hashlib.sha256(rows.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("window", "weighted", "expected"),
    [
        (0, False, "8598488d7d0d57dd"),
        (500, False, "6a45be89f83b82e3"),
        (None, False, "c5d6388536ed33ce"),
        (500, True, "9916ec67ef68c262"),
    ],
)
def test_orders_never_change(window: int | None, weighted: bool, expected: str) -> None:
    """A change here breaks the resuming of every training in progress."""
    runs = make_runs([7, 100, 33] * 50)
    rows = np.arange(7000) // 3 * 2 if weighted else None
    shuffle = Shuffle(seed=2**40 + 1, window=window)
    plan = plan_epoch(runs, Split(32, 1, 2), epoch=3, shuffle=shuffle, rows=rows)
    assert digest([plan.step(t).draws for t in range(20)]) == expected


@given(jobs(), st.data(), endings)
def test_every_step_is_that_of_the_plain_plan(job: Job, data: st.DataObject, last: str) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for rank, plan in enumerate(job.plan_ranks(world_size, last)):
        steps = [plan.step(t) for t in range(len(plan))]
        found = [(step.draws[step.valid].tolist(), step.bucket) for step in steps]
        assert found == list_steps(job, rank, world_size, last)


@pytest.mark.parametrize("window", [100, 3000, 20_000, None])
@pytest.mark.parametrize("rows", [False, True])
def test_long_epochs_are_those_of_the_plain_plan(window: int | None, rows: bool) -> None:
    """Longer than a chunk of steps, and than the permutations that are sorted."""
    runs = make_runs([7, 100, 33] * 600)
    taken = np.sort(np.random.default_rng(0).integers(0, runs.entries, 70_000)) if rows else None
    job = Job(runs, taken, 8, 64, Shuffle(4, window), epoch=2)
    plan, expected = job.plan(last="short"), list_steps(job, last="short")
    for t in [*range(0, len(plan), 17), len(plan) - 1, 3]:
        assert plan.step(t).draws.tolist() == expected[t][0]


@pytest.mark.parametrize("window", [16_384, None])
def test_a_billion_samples_are_planned_in_the_memory_of_their_runs(window: int | None) -> None:
    shards = 20_000
    runs = cut_runs(np.full(shards, 50_000), np.full(shards, 256 << 20))
    tracemalloc.start()
    plan = plan_epoch(runs, Split(256, 3, 8), shuffle=Shuffle(0, window))
    rows = [plan.step(t).rows for t in (0, len(plan) // 2, len(plan) - 1)]
    plan.count_units_before(len(plan) // 2)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(runs) == 32 * shards and runs.entries == 10**9
    assert len(np.unique(np.concatenate(rows))) == 768 and max(map(np.max, rows)) < 10**9
    assert held < 12 * len(runs) + 8_000_000 and peak < 36 * len(runs) + 40_000_000


def test_a_step_is_planned_in_a_fifth_of_a_millisecond() -> None:
    plan = plan_epoch(make_runs([76] * 1000), Split(256), shuffle=Shuffle(0, 4096))
    assert min(timeit.repeat(lambda: plan.step(100), number=10, repeat=10)) < 10 * 2e-4
