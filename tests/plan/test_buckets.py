"""The laws of buckets; that epochs in buckets keep the laws of all epochs is in test_epoch.py and test_read_ahead.py."""

from __future__ import annotations

import timeit
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochs import Job, jobs, list_order, make_runs, valid_rows
from headrace.plan import BucketOrder, EpochPlan, Shuffle, Split, plan_epoch
from headrace.plan.buckets import choose_block

bucketed_jobs = jobs(buckets=(True,))
RATIOS = (9 / 16, 3 / 4, 1.0, 4 / 3, 16 / 9)


def make_aspects(count: int, seed: int = 0) -> np.ndarray:
    """The aspects of photos: mostly landscape, of a few cameras, some cropped."""
    rng = np.random.default_rng(seed)
    cameras = rng.choice([2 / 3, 3 / 4, 1, 4 / 3, 3 / 2], count, p=[0.25, 0.4, 0.1, 0.15, 0.1])
    return cameras * np.exp(rng.normal(0, 0.1, count))


def find_block(job: Job) -> int:
    assert job.buckets is not None
    return job.buckets.block or choose_block(job.global_batch // job.repeat)


def list_blocks(plan: EpochPlan, block: int) -> list[list[int]]:
    """The rows of each block of steps, in ascending order."""
    rows = [valid_rows(plan, t) for t in range(len(plan))]
    return [
        sorted(np.concatenate(rows[b : b + block]).tolist()) for b in range(0, len(plan), block)
    ]


@given(bucketed_jobs, st.data(), st.sampled_from(["drop", "short"]))
def test_every_block_has_the_samples_that_it_has_without_buckets_on_every_rank(
    job: Job, data: st.DataObject, last: str
) -> None:
    world_size = data.draw(st.sampled_from(job.world_sizes))
    for rank in range(world_size):
        bucketed = job.plan(rank, world_size, last)
        plain = replace(job, buckets=None).plan(rank, world_size, last)
        assert list_blocks(bucketed, find_block(job)) == list_blocks(plain, find_block(job))


@given(bucketed_jobs, st.sampled_from(["drop", "short"]))
def test_all_ranks_agree_on_the_bucket_of_each_step(job: Job, last: str) -> None:
    assert job.buckets is not None
    alone = job.plan(last=last)
    expected = [alone.step(t).bucket for t in range(len(alone))]
    assert all(bucket in range(len(job.buckets.ratios)) for bucket in expected)
    for world_size in job.world_sizes:
        for plan in job.plan_ranks(world_size, last):
            assert [plan.step(t).bucket for t in range(len(plan))] == expected


@given(bucketed_jobs)
def test_steps_are_shared_in_proportion_to_the_images_that_are_nearest(job: Job) -> None:
    assert job.buckets is not None
    plan, block = job.plan(last="short"), find_block(job)
    ratios, aspects = np.log(job.buckets.ratios), np.log(job.buckets.aspects)
    for begin in range(0, len(plan), block):
        steps = range(begin, min(begin + block, len(plan)))
        rows = np.concatenate([plan.step(t).rows for t in steps])
        distances = abs(ratios - aspects[rows, None])
        nearest = distances <= distances.min(axis=1, keepdims=True) + 1e-9
        shares = (
            len(steps)
            / len(rows)
            * np.stack([nearest[nearest.sum(axis=1) == 1].sum(axis=0), nearest.sum(axis=0)])
        )
        taken = np.bincount([plan.step(t).bucket for t in steps], minlength=len(ratios))
        assert (shares[0] - 1 < taken).all() and (taken < shares[1] + 1).all()


@given(bucketed_jobs)
def test_in_a_block_and_lane_no_image_is_in_a_wider_bucket_than_a_wider_image(job: Job) -> None:
    assert job.buckets is not None
    aspects, ratios = job.buckets.aspects, job.buckets.ratios
    plan, size = job.plan(), find_block(job) * (job.global_batch // job.lanes)
    for lane in range(job.lanes):
        steps = [plan.step(t).rows[plan.find_lanes(t) == lane] for t in range(len(plan))]
        rows = np.concatenate([*steps, np.empty(0, int)])
        ratio_of = np.array([ratios[plan.step(p // plan.part).bucket] for p in range(len(rows))])
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            order = np.lexsort((ratio_of[part], aspects[rows[part]]))
            assert (np.diff(ratio_of[part][order]) >= 0).all()


def test_images_of_a_bucket_keep_their_order_so_that_its_batches_are_random() -> None:
    aspects = make_aspects(4096)
    order = BucketOrder(aspects, (1.0,))
    shuffle = Shuffle(0, 1000)
    plain, bucketed = (
        plan_epoch(make_runs([64] * 64), Split(64), shuffle=shuffle, buckets=buckets)
        for buckets in (None, order)
    )
    assert list_order(bucketed).tolist() == list_order(plain).tolist()


@pytest.mark.parametrize(("batch", "share"), [(32, 0.93), (256, 0.93)])
def test_most_images_are_in_their_nearest_bucket(batch: int, share: float) -> None:
    aspects = make_aspects(50_000)
    order, runs = BucketOrder(aspects, RATIOS), make_runs([50] * 1000)
    plan = plan_epoch(runs, Split(batch), shuffle=Shuffle(0, 8192), buckets=order)
    nearest = abs(np.log(RATIOS) - np.log(aspects)[:, None]).argmin(axis=1)
    steps = [plan.step(t) for t in range(len(plan))]
    hits = np.mean([np.mean(nearest[step.rows] == step.bucket) for step in steps])
    assert hits > share


def test_shuffled_steps_of_a_block_are_in_random_order_and_others_in_order_of_ratio() -> None:
    order, runs = BucketOrder(make_aspects(6400), RATIOS[::-1], 50), make_runs([64] * 100)
    plain = plan_epoch(runs, Split(64), buckets=order)
    assert [RATIOS[::-1][plain.step(t).bucket] for t in range(50)] == sorted(
        RATIOS[::-1][plain.step(t).bucket] for t in range(50)
    )
    lists = [
        [plan.step(t).bucket for t in range(50)]
        for epoch in (0, 1)
        if (plan := plan_epoch(runs, Split(64), epoch=epoch, shuffle=Shuffle(0), buckets=order))
    ]
    assert lists[0] != lists[1] and lists[0] != sorted(lists[0]) != sorted(lists[0])[::-1]


def test_two_blocks_are_not_shuffled_alike() -> None:
    order, runs = BucketOrder(np.tile([0.5, 2.0], 3200), (0.5, 2.0), 50), make_runs([64] * 100)
    plan = plan_epoch(runs, Split(64), shuffle=Shuffle(0, 0), buckets=order)
    buckets = [plan.step(t).bucket for t in range(100)]
    assert buckets[:50] != buckets[50:] and Counter(buckets[:50]) == {0: 25, 1: 25}


def test_without_buckets_a_step_has_none() -> None:
    assert plan_epoch(make_runs([10]), Split(2)).step(0).bucket is None


@pytest.mark.parametrize(
    ("batch", "block"), [(1, 128), (64, 128), (128, 64), (256, 32), (8192, 32)]
)
def test_the_default_block_has_about_8192_images(batch: int, block: int) -> None:
    assert choose_block(batch) == block


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ratios": ()}, r"ratios are \(\): give positive numbers, each once"),
        ({"ratios": (1.0, 1.0)}, "each once"),
        ({"ratios": (1.0, -2.0)}, "positive"),
        ({"block": 0}, "block is 0: give 1 to 65536 steps"),
        ({"aspects": np.array([1.0, 0.0])}, "aspects must be positive"),
        ({"aspects": np.array([1.0, np.nan])}, "aspects must be positive"),
    ],
)
def test_impossible_buckets_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BucketOrder(**{"aspects": np.ones(2), "ratios": (1.0, 2.0), **arguments})


def test_buckets_of_an_epoch_never_change() -> None:
    """A change here breaks the resuming of every training in progress."""
    order, runs = BucketOrder((np.arange(4200) * 7 % 13 + 4) / 10, RATIOS, 8), make_runs([42] * 100)
    plan = plan_epoch(runs, Split(32, 1, 2), epoch=3, shuffle=Shuffle(5, 500), buckets=order)
    assert [plan.step(t).bucket for t in range(10)] == [3, 2, 0, 4, 2, 3, 0, 1, 4, 2]
    assert plan.step(3).rows[:8].tolist() == [1649, 1662, 1675, 3766, 3742, 3740, 1673, 633]


def test_a_block_of_steps_is_planned_in_a_tenth_of_a_second() -> None:
    order = BucketOrder(make_aspects(1_300_000), RATIOS)
    plan = plan_epoch(
        make_runs([100] * 13_000), Split(256), shuffle=Shuffle(0, 16_384), buckets=order
    )
    steps = iter(range(0, len(plan), 32))
    assert min(timeit.repeat(lambda: plan.step(next(steps)), number=1, repeat=20)) < 0.1
