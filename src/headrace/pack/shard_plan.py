"""Decides which samples go into which shard, in which order, before anything is read."""

from __future__ import annotations

import numpy as np

from headrace.store.tar import BLOCK

DEFAULT_SHARD_SIZE = 256 << 20
_PER_SAMPLE = BLOCK + 2 * BLOCK  # the header of the image, and a label with its header


def order_rows(count: int, *, order: str, seed: int) -> np.ndarray:
    """Return row numbers in packing order: `source` keeps the order, `shuffled` permutes it by `seed`.

    The raw Philox stream is the same in every NumPy, unlike `Generator.permutation`.
    """
    if order == "source":
        return np.arange(count)
    keys = np.random.Philox(key=seed).random_raw(count)
    return np.argsort(keys, kind="stable")


def cut_shards(sizes: np.ndarray, rows: np.ndarray, shard_size: int) -> list[np.ndarray]:
    """Cut `rows` into shards of at most `shard_size` bytes by the sizes in the source.

    A larger sample has a shard of its own.
    """
    blocks = -(-sizes[rows] // BLOCK) * BLOCK + _PER_SAMPLE
    ends = np.cumsum(blocks)
    shards, start = [], 0
    while start < len(rows):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + shard_size, side="right"))
        shards.append(rows[start : max(stop, start + 1)])
        start = max(stop, start + 1)
    return shards
