"""Buckets: batches of one size each, for images whose aspect ratios differ.

A bucket is a shape of batches; an image belongs to the one whose aspect ratio is nearest to its own. The steps of an
epoch are taken in blocks. Each block has steps of each bucket in proportion to its images, and each lane shows the
images that it has in the block anyway, in another order. Guaranteed:

- the order within lanes is permuted within blocks alone, so that a rank reads what it would read without buckets;
- all ranks know the bucket of every step, and the global batches do not depend on the world size;
- the images of a lane are divided among the buckets of a block by aspect, so that those which do not fit into their
  nearest bucket go to the ones beside it.

Only integers, comparisons and square roots decide, so that the order is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.plan.philox import Stream, draw_words
from headrace.plan.shuffle import Shuffle

Aspects = NDArray[np.float64]
Ranks = NDArray[np.uint16]
"""Buckets numbered by aspect ratio, the widest first."""

MAX_BLOCK = 1 << 16
_USUAL_IMAGES = 8192
_USUAL_BLOCKS = (32, 128)


@dataclass(frozen=True, eq=False)
class BucketOrder:
    """Which buckets there are, and what decides about them.

    Args:
        aspects: float64, height / width of each row of the index; 1 for damaged images.
        ratios: height / width of each bucket.
        block: number of consecutive steps within which images change places. A larger block puts more images into
            their nearest bucket, and holds more of them in memory. Default: see `choose_block`.
    """

    aspects: Aspects
    ratios: tuple[float, ...]
    block: int | None = None

    def __post_init__(self) -> None:
        ratios = np.array(self.ratios, np.float64)
        possible = np.isfinite(ratios) & (ratios > 0)
        if not len(ratios) or not possible.all() or len(np.unique(ratios)) < len(ratios):
            raise ValueError(f"ratios are {self.ratios}: give positive numbers, each once")
        if self.block is not None and not 1 <= self.block <= MAX_BLOCK:
            raise ValueError(f"block is {self.block}: give 1 to {MAX_BLOCK} steps")
        if not ((self.aspects > 0) & np.isfinite(self.aspects)).all():
            raise ValueError("aspects must be positive: give 1 for images without a size")

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The place in `ratios` of each rank."""
        return np.argsort(self.ratios, kind="stable")

    def find_nearest(self, aspects: Aspects) -> NDArray[np.int64]:
        """Return the rank of the bucket whose ratio is nearest to each aspect, on a scale of logarithms."""
        ratios = np.sort(np.array(self.ratios, np.float64))
        return np.searchsorted(np.sqrt(ratios[1:]) * np.sqrt(ratios[:-1]), aspects)


def choose_block(global_batch: int) -> int:
    """Return the default number of steps of a block: 8192 images, but at least 32 steps, and at most 128.

    Of images with the aspects of ImageNet's, about 19 in 20 are then in their nearest of 5 buckets.
    """
    fewest, most = _USUAL_BLOCKS
    return min(max(_USUAL_IMAGES // global_batch, fewest), most)


def choose_buckets(
    lanes: Sequence[Aspects],
    order: BucketOrder,
    part: int,
    block: int,
    shuffle: Shuffle | None,
    epoch: int,
) -> Ranks:
    """Return the bucket of each step, from the aspects of all lanes, of which each step takes `part`."""
    steps = -(-max(map(len, lanes)) // part)
    if not steps:
        return np.empty(0, np.uint16)
    blocks, count = -(-steps // block), len(order.ratios)
    images = np.zeros(blocks * count, np.int64)
    for lane in lanes:
        block_of = np.arange(len(lane)) // (block * part)
        images += np.bincount(block_of * count + order.find_nearest(lane), minlength=len(images))
    lengths = np.minimum(steps - block * np.arange(blocks), block)
    shares = _share_steps(images.reshape(blocks, count), lengths)
    sorted_ranks = np.repeat(np.tile(np.arange(count), blocks), shares.reshape(-1))
    ranks = np.empty(steps, np.uint16)
    ranks[_order_steps(steps, blocks, block, shuffle, epoch)] = sorted_ranks
    return ranks


def fill_steps(lane: Aspects, ranks: Ranks, part: int, block: int) -> NDArray[np.int64]:
    """Return the places of a lane in the order that puts its images into the buckets of its steps."""
    slots, size = np.repeat(ranks, part)[: len(lane)], block * part
    whole = len(lane) // size * size
    places = np.empty(len(lane), np.int64)
    starts = np.arange(0, whole, size)[:, None]
    filled = _fill_blocks(lane[:whole].reshape(-1, size), slots[:whole].reshape(-1, size))
    places[:whole] = (filled + starts).reshape(-1)
    places[whole:] = _fill_blocks(lane[None, whole:], slots[None, whole:])[0] + whole
    return places


def _share_steps(images: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the steps of each bucket int64[blocks, buckets], in proportion to its images, by largest remainder."""
    totals = images.sum(axis=1, keepdims=True)
    shares, remainders = np.divmod(images * steps[:, None], totals)
    largest_first = np.argsort(-remainders, axis=1, kind="stable")
    missing = (steps - shares.sum(axis=1))[:, None]
    more = np.arange(images.shape[1]) < missing
    np.put_along_axis(
        shares, largest_first, np.take_along_axis(shares, largest_first, axis=1) + more, axis=1
    )
    return shares


def _order_steps(
    steps: int, blocks: int, block: int, shuffle: Shuffle | None, epoch: int
) -> NDArray[np.int64]:
    """Return all steps, block after block; shuffled, the steps of a block in random order."""
    if shuffle is None:
        return np.arange(steps)
    words = draw_words(shuffle.seed, epoch, Stream.BUCKETS, np.arange(blocks), block)
    numbers = np.arange(blocks * block).reshape(blocks, block)
    keys = np.where(numbers < steps, words, np.uint64(1 << 32))  # the last block may be shorter
    order = np.argsort(keys, axis=1, kind="stable")
    return np.take_along_axis(numbers, order, axis=1).reshape(-1)[:steps]


def _fill_blocks(aspects: Aspects, slots: Ranks) -> NDArray[np.int64]:
    """Return int64[N, n]: which of the n images of each block comes in which of its slots, which have these ranks.

    The images are divided among the buckets by aspect; those of a bucket keep their order.
    """
    by_slot = np.argsort(slots, axis=1, kind="stable")
    by_aspect = np.argsort(aspects, axis=1, kind="stable")
    ranks = np.empty_like(slots)
    np.put_along_axis(ranks, by_aspect, np.take_along_axis(slots, by_slot, axis=1), axis=1)
    filled = np.empty_like(by_slot)
    np.put_along_axis(filled, by_slot, np.argsort(ranks, axis=1, kind="stable"), axis=1)
    return filled
