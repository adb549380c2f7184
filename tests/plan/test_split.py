"""Splits check themselves and choose lanes that their ranks can share."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.split import Split, choose_lanes, cut_lane, own_lanes


@given(st.integers(0, 10_000), st.integers(1, 64))
def test_lanes_follow_each_other_and_differ_by_one_sample_at_most(entries: int, lanes: int) -> None:
    cuts = [cut_lane(entries, lanes, lane) for lane in range(lanes)]
    assert cuts[0][0] == 0 and cuts[-1][1] == entries
    assert all(before[1] == after[0] for before, after in pairwise(cuts))
    assert {b - a for a, b in cuts} <= {entries // lanes, -(-entries // lanes)}


@given(st.integers(1, 300), st.integers(1, 100), st.booleans())
def test_chosen_lanes_are_valid_for_any_world_size_and_batch(
    batch_size: int, world_size: int, shuffled: bool
) -> None:
    lanes = choose_lanes(Split(batch_size, 0, world_size), shuffled)
    Split(batch_size, 0, world_size, lanes)  # checks itself
    ranks = [own_lanes(Split(batch_size, rank, world_size), lanes) for rank in range(world_size)]
    assert [lane for rank in ranks for lane in rank] == list(range(lanes))


def test_one_to_eight_ranks_choose_the_same_lanes_for_one_global_batch() -> None:
    assert {choose_lanes(Split(256 // w, 0, w), shuffled=True) for w in (1, 2, 4, 8)} == {8}


def test_in_index_order_a_rank_has_one_lane() -> None:
    assert choose_lanes(Split(256, 0, 4), shuffled=False) == 4


def test_lanes_that_are_named_are_taken() -> None:
    assert choose_lanes(Split(256, 0, 2, lanes=16), shuffled=True) == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 4, "rank": 2, "world_size": 2}, "rank is 2 of 2"),
        ({"batch_size": 4, "rank": -1}, "rank is -1 of 1"),
        ({"batch_size": 4, "world_size": 2, "lanes": 3}, "3 lanes cannot be shared by 2 ranks"),
        ({"batch_size": 4, "lanes": 0}, "0 lanes"),
        ({"batch_size": 4, "world_size": 2, "lanes": 6}, "global batch of 8 .* from 6 lanes"),
        ({"batch_size": 4, "last": "keep"}, "last is 'keep'"),
    ],
)
def test_impossible_splits_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Split(**arguments)  # type: ignore[arg-type]
