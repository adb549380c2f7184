"""Randomness that is a pure function of (seed, epoch, stream, position), in any process or thread.

Each random stage of a flow has a stream of its own, numbered from the source on. So two stages of one
flow with one seed are independent, and a stage that is added at the end changes nothing before it.
intentional: in parallel branches (concat, zip, mix, choose) stages at equal places with equal seeds
draw the same numbers, so that flows shuffled alike stay aligned when zipped. Give the branches
different seeds if they must differ.

`item_rng()` returns the generator of the current item: the same numbers inline, on threads and in
processes. In worker processes the global generators are seeded per item as well, so that functions
that call `random`, `numpy.random` or `torch` are reproducible unchanged. In the consumer's own process
the globals are never touched.

The generator is NumPy's Philox, since users get it as a `numpy.random.Generator`. `plan.philox` has the
32-bit variant, which draws for all samples of a batch in one call.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from headrace.arguments import as_integer

BLOCK = 1024  # draws per counter block: a draw at any position costs at most one block
SHUFFLE, MIX, CHOOSE, ITEM, GLOBALS = range(5)  # the last counter word: uses never share numbers

_OUTSIDE = 2**63  # the stream of a worker process, which no stage has

Item: TypeAlias = "tuple[int, int, int, int, int]"  # the arguments of make_generator
Worked: TypeAlias = "tuple[Item | None, np.random.Generator | None]"


class _Current(threading.local):
    """The item that a thread works on, and its generator once it was requested."""

    item: Item | None = None
    rng: np.random.Generator | None = None


_current = _Current()
_owned = False


def check_seed(seed: int) -> int:
    """Return a seed as a Python integer. Raise ValueError unless it fits into 64 bits, unsigned."""
    number = as_integer(seed)
    if number is None or not 0 <= number < 2**64:
        raise ValueError(f"seed must be an integer from 0 to 2**64 - 1, not {seed!r}")
    return number


def make_generator(
    seed: int, epoch: int, block: int, use: int, stream: int = 0
) -> np.random.Generator:
    """Return Philox keyed by (seed, epoch), its counter set by block, stream and use. It keeps no state."""
    key = np.array([seed, _fold(epoch)], np.uint64)
    counter = np.array([0, block, stream, use], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def _fold(epoch: int) -> int:
    """Return an epoch in 64 bits: nested endless repetitions count further than that."""
    if epoch < 2**64:
        return epoch
    return int(np.random.SeedSequence(epoch).generate_state(1, np.uint64)[0])


def draw_uniform(seed: int, epoch: int, start: int, use: int, stream: int = 0) -> Iterator[float]:
    """Yield u(start), u(start + 1), …, each in [0, 1): u(p) does not depend on `start`."""
    block, skip = divmod(start, BLOCK)
    while True:
        draws = make_generator(seed, epoch, block, use, stream).random(BLOCK).tolist()
        yield from draws[skip:]
        block, skip = block + 1, 0


def set_item(seed: int, epoch: int, stream: int, position: int) -> Worked:
    """Set the item that this thread works on, for `item_rng`, and return the previous one, for `go_back_to`."""
    before = _current.item, _current.rng
    _current.item, _current.rng = (seed, epoch, position, ITEM, stream), None
    return before


def go_back_to(before: Worked) -> None:
    """Set the previous item again, which may be inside another flow's function."""
    _current.item, _current.rng = before


def item_rng() -> np.random.Generator:
    """Return the generator of the item that a flow's function is working on in this thread.

        def crop(image):
            top = item_rng().integers(0, image.shape[0] - 224)
            return image[top : top + 224]

    Returns:
        A generator whose numbers depend on the seed, the epoch, the stage and the position of the item, not on the
        runner.

    Raises:
        RuntimeError: it is called outside a flow's function.
    """
    if _current.item is None:
        raise RuntimeError("item_rng(): no current item; call it in a function that a flow calls")
    if _current.rng is None:
        _current.rng = make_generator(*_current.item)
    return _current.rng


def own_process() -> None:
    """Note that a flow started this process, so that its global generators may be seeded.

    torch then computes in one thread: its thread pool does not survive a fork, and torch would wait for it forever.
    """
    global _owned
    _owned = True
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def owns_process() -> bool:
    """Return whether a flow started this process."""
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
