"""Randomness that is a pure function of (seed, epoch, stream, position), in whatever process or thread.

Each random stage of a flow has a stream of its own, numbered from the source on, so that two stages
in a line with one seed are independent, and a stage that is added at the end changes nothing before it.
intentional: in parallel branches (concat, zip, mix, choose) stages in equal places with equal seeds
draw the same numbers, so that flows shuffled alike stay aligned when zipped. Give the branches
different seeds where they shall differ.

`item_rng()` is the generator of the item that is being worked on: the same numbers inline, on
threads and in processes. In worker processes the global generators are seeded per item as well,
so that functions that call `random`, `numpy.random` or `torch` are reproducible unchanged; in the
consumer's own process the globals are never touched.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from headrace.pack.checks import as_integer

BLOCK = 1024  # draws per counter block: a position's draw costs at most one block
SHUFFLE, MIX, CHOOSE, ITEM, GLOBALS = range(5)  # the last counter word: uses never share numbers

_OUTSIDE = 2**63  # the stream of a process of ours, which no stage has

Item: TypeAlias = "tuple[int, int, int, int, int]"  # the arguments of make_generator
Worked: TypeAlias = "tuple[Item | None, np.random.Generator | None]"


class _Current(threading.local):
    """What a thread works on, and its generator once that was asked for."""

    item: Item | None = None
    rng: np.random.Generator | None = None


_current = _Current()
_owned = False


def check_seed(seed: int) -> int:
    """A seed is an integer of 64 bits without sign."""
    number = as_integer(seed)
    if number is None or not 0 <= number < 2**64:
        raise ValueError(f"seed must be an integer from 0 to 2**64 - 1, not {seed!r}")
    return number


def make_generator(
    seed: int, epoch: int, block: int, use: int, stream: int = 0
) -> np.random.Generator:
    """Philox keyed by (seed, epoch), its counter placed by block, stream and use: nothing is kept."""
    key = np.array([seed, _fold(epoch)], np.uint64)
    counter = np.array([0, block, stream, use], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def _fold(epoch: int) -> int:
    """An epoch in 64 bits: endless repetitions inside each other count further than that."""
    if epoch < 2**64:
        return epoch
    return int(np.random.SeedSequence(epoch).generate_state(1, np.uint64)[0])


def draw_uniform(seed: int, epoch: int, start: int, use: int, stream: int = 0) -> Iterator[float]:
    """u(start), u(start + 1), …, each in [0, 1): u(p) is the same wherever one begins."""
    block, skip = divmod(start, BLOCK)
    while True:
        draws = make_generator(seed, epoch, block, use, stream).random(BLOCK).tolist()
        yield from draws[skip:]
        block, skip = block + 1, 0


def set_item(seed: int, epoch: int, stream: int, position: int) -> Worked:
    """Say which item this thread works on, for `item_rng`; what was before is for `go_back_to`."""
    before = _current.item, _current.rng
    _current.item, _current.rng = (seed, epoch, position, ITEM, stream), None
    return before


def go_back_to(before: Worked) -> None:
    """The item is done: this thread is where it was before, which may be inside another flow's function."""
    _current.item, _current.rng = before


def item_rng() -> np.random.Generator:
    """The generator of the item that a flow's function is working on, in this thread.

    The same (seed, epoch, position) gives the same numbers in every runner, and others in each stage of a line.

        def crop(image):
            top = item_rng().integers(0, image.shape[0] - 224)
            return image[top : top + 224]
    """
    if _current.item is None:
        raise RuntimeError("item_rng() is for functions that a flow calls; no item is in work here")
    if _current.rng is None:
        _current.rng = make_generator(*_current.item)
    return _current.rng


def own_process() -> None:
    """Say that this process was started by a flow, so that its global generators are ours.

    torch then computes in one thread: its pool of threads does not survive a fork, and is waited for.
    """
    global _owned
    _owned = True
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def owns_process() -> bool:
    """Whether this process was started by a flow."""
    return _owned


def seed_globals(seed: int, epoch: int, position: int, stream: int = _OUTSIDE) -> None:
    """Seed random, numpy.random and, if it is imported, torch from (seed, epoch, stream, position)."""
    block, place = divmod(position, BLOCK)
    set_globals(_draw_words(seed, epoch, block, stream)[place])


def set_globals(word: int) -> None:
    """Seed random, numpy.random and, if it is imported, torch with 64 random bits."""
    random.seed(word)
    np.random.seed(word & 0xFFFFFFFF)
    torch = sys.modules.get("torch")
    if torch is not None:  # not torch.manual_seed: it queues a call for CUDA each time
        torch.random.default_generator.manual_seed(word >> 1)


@lru_cache(maxsize=8)
def _draw_words(seed: int, epoch: int, block: int, stream: int) -> list[int]:
    generator = make_generator(seed, epoch, block, GLOBALS, stream)
    words: list[int] = generator.integers(0, 2**64, BLOCK, np.uint64).tolist()
    return words
