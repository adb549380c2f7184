"""A billion samples on 1,024 ranks: every sample once, in equally many steps, checked on some ranks and for all shards."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from headrace.plan import EpochPlan, Shuffle, Split, Stream, cut_runs
from headrace.plan.line import Line
from headrace.plan.shuffle import order_randomly

RANKS, BATCH, SHARDS = 1024, 64, 20_000
RUNS = cut_runs(np.full(SHARDS, 50_000), np.full(SHARDS, 256 << 20))


@pytest.fixture(scope="module")
def line() -> Line:
    """The line that all ranks share, which takes most of the time."""
    return Line.lay(RUNS, order_randomly(0, 5, Stream.RUNS, len(RUNS)))


def plan_rank(line: Line, rank: int) -> EpochPlan:
    split = Split(BATCH, rank, RANKS, RANKS, last="short")
    return EpochPlan(RUNS, split, RANKS, line, epoch=5, shuffle=Shuffle(0, 1 << 20))


def find_lane(rank: int) -> tuple[int, int]:
    return rank * RUNS.entries // RANKS, (rank + 1) * RUNS.entries // RANKS


def test_the_lanes_of_all_ranks_hold_every_row_of_every_shard_once(line: Line) -> None:
    bounds = [find_lane(rank) for rank in range(RANKS)]
    assert bounds[0][0] == 0 and bounds[-1][1] == len(line) == 10**9
    assert all(a[1] == b[0] for a, b in pairwise(bounds))
    stretches = np.arange(len(RUNS))
    begins = line.find_begins(np.append(stretches, len(RUNS)))
    entries, _ = line.find(begins[:-1])
    rows = np.bincount(entries // 50_000, np.diff(begins), minlength=SHARDS)
    assert (rows == 50_000).all() and len(np.unique(entries)) == len(RUNS)


@pytest.mark.parametrize("rank", [0, 511, 1023])
def test_a_rank_takes_every_sample_of_its_lane_once(line: Line, rank: int) -> None:
    plan = plan_rank(line, rank)
    rows = np.concatenate([plan.step(t).rows for t in range(len(plan))])
    lane, _ = line.find(np.arange(*find_lane(rank)))
    assert np.array_equal(np.sort(rows), np.sort(lane))
    assert {len(plan_rank(line, other)) for other in range(0, RANKS, 100)} == {len(plan)}
    # A lane does not sit in one shard: its 625 runs come from about as many.
    assert len(np.unique(lane // 50_000)) > 550


def test_a_step_in_the_middle_is_found_as_quickly_as_the_first(line: Line) -> None:
    walked = plan_rank(line, 700)
    walked = [walked.step(t).rows.tolist() for t in range(7990, 8010)]
    for number, t in enumerate(range(7990, 8010)):
        assert plan_rank(line, 700).step(t).rows.tolist() == walked[number]
