from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.pack.shard_plan import cut_shards, order_rows


@given(st.integers(0, 300), st.integers(0, 2**64 - 1))
def test_a_shuffled_order_is_a_permutation(count: int, seed: int) -> None:
    rows = order_rows(count, order="shuffled", seed=seed)
    assert sorted(rows) == list(range(count))


def test_a_seed_gives_the_same_order_on_every_machine() -> None:
    assert order_rows(8, order="shuffled", seed=0).tolist() == [0, 2, 1, 5, 4, 3, 6, 7]
    assert order_rows(8, order="source", seed=5).tolist() == list(range(8))


@given(st.lists(st.integers(0, 5000), max_size=60), st.integers(1, 20000))
def test_shards_partition_the_rows_and_keep_to_their_size(sizes: list[int], limit: int) -> None:
    array = np.array(sizes, np.int64)
    shards = cut_shards(array, np.arange(len(sizes)), limit)
    assert np.concatenate([np.array([], int), *shards]).tolist() == list(range(len(sizes)))
    for shard in shards:
        room = sum(-(-sizes[row] // 512) * 512 + 1536 for row in shard)
        assert room <= limit or len(shard) == 1
