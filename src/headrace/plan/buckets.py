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
    steps: int,
    block: tuple[int, int],
    shuffle: Shuffle | None,
    epoch: int,
) -> Ranks:
    """Return the bucket of each of the `steps` of a block, from the aspects that all lanes have in it.

    Args:
        lanes: The aspects of each lane.
        order: The buckets.
        steps: Steps of this block: fewer than others have, if it is the last one.
        block: Number of the block, and steps of a full one.
        shuffle: What the order of the steps comes from; None for the order of the buckets.
        epoch: Number of the epoch.
    """
    images = np.zeros(len(order.ratios), np.int64)
    for lane in lanes:
        images += np.bincount(order.find_nearest(lane), minlength=len(images))
    ranks = np.empty(steps, np.uint16)
    sorted_ranks = np.repeat(np.arange(len(images)), _share_steps(images, steps))
    ranks[_order_steps(steps, *block, shuffle, epoch)] = sorted_ranks
    return ranks


def fill_steps(lane: Aspects, ranks: Ranks, part: int) -> NDArray[np.int64]:
    """Return the places that a lane has in a block in the order that puts its images into the buckets of the steps.

    The images are divided among the buckets by aspect; those of a bucket keep their order.
    """
    slots = ranks[np.arange(len(lane)) // part]
    by_slot = np.argsort(slots, kind="stable")
    found = np.empty_like(slots)
    found[np.argsort(lane, kind="stable")] = slots[by_slot]
    filled = np.empty_like(by_slot)
    filled[by_slot] = np.argsort(found, kind="stable")
    return filled


def _share_steps(images: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """Return the steps of each bucket, in proportion to its images, by largest remainder."""
    shares, remainders = np.divmod(images * steps, images.sum())
    largest_first = np.argsort(-remainders, kind="stable")
    shares[largest_first[: steps - int(shares.sum())]] += 1
    return shares


def _order_steps(
    steps: int, number: int, block: int, shuffle: Shuffle | None, epoch: int
) -> NDArray[np.int64]:
    """Return the steps of a block; shuffled, in random order."""
    if shuffle is None:
        return np.arange(steps)
    words = draw_words(shuffle.seed, epoch, Stream.BUCKETS, np.array([number]), block)
    return np.argsort(words[0, :steps], kind="stable")
