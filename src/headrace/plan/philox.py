"""The source of all randomness of a plan: Philox4x32-10, a function from counters to random words.

It has no state. A word depends only on (seed, epoch, stream, id) and its number, so a sample's draws are
the same in any batch, rank or order, on every platform and with every version of NumPy.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. NumPy's own Philox is the
64-bit variant behind a sequential interface; with 32-bit words one uint64 product does a round.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF
_LOW = np.uint64(_MASK)
_HALF = np.uint64(32)
_MAX_COUNT = 4 << 16


class Stream(IntEnum):
    """The purpose of a draw: draws of different streams are independent."""

    RUNS = 0
    WINDOW = 1
    PERMUTATION = 2
    WEIGHTS = 3
    MIXTURE = 4
    CROP = 5
    FLIP = 6
    JITTER = 7
    LIGHTING = 8
    USER = 9
    CLIP = 10
    RESIZE = 11
    VERTICAL_FLIP = 12
    REPEAT = 13
    BUCKETS = 14
    MIX = 15
    STEP = 20
    """The first step of a program; those that follow it have the next numbers, up to 255."""


def philox4x32(
    counter: tuple[NDArray[np.uint64], ...], key: tuple[int, int]
) -> tuple[NDArray[np.uint64], ...]:
    """Return four random 32-bit words for each counter of four 32-bit words; all are held in uint64."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW
        c2, c3 = (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def draw_words(
    seed: int, epoch: int, stream: int, ids: NDArray[np.int64], count: int
) -> NDArray[np.uint64]:
    """Return uint64[len(ids), count] of random 32-bit words, `count` for each id.

    The seed is Philox's key; id, epoch, stream and block make up its counter.
    """
    _check_word("seed", seed, 64)
    _check_word("epoch", epoch, 32)
    _check_word("stream", stream, 16)
    if not 0 < count <= _MAX_COUNT:
        raise ValueError(f"count is {count}: draw 1 to {_MAX_COUNT} words per id")
    blocks = -(-count // 4)
    low, high = ids.astype(np.uint64) & _LOW, ids.astype(np.uint64) >> _HALF
    counter = (
        low[:, None],
        high[:, None],
        np.full((1, 1), epoch, np.uint64),
        np.uint64(stream << 16) | np.arange(blocks, dtype=np.uint64)[None, :],
    )
    words = philox4x32(counter, (seed & _MASK, seed >> 32))
    return np.stack(words, axis=-1).reshape(len(ids), 4 * blocks)[:, :count]


def draw_uniforms(
    seed: int, epoch: int, stream: int, ids: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """Return float64[len(ids), count], uniform on the multiples of 2**-32 in [0, 1).

    >>> draw_uniforms(seed=0, epoch=3, stream=Stream.FLIP, ids=step.draws, count=1) < 0.5
    """
    return draw_words(seed, epoch, stream, ids, count).astype(np.float64) * 2.0**-32


def draw_seeds(
    seed: int, epoch: int, ids: NDArray[np.int64], stream: int = Stream.USER
) -> NDArray[np.uint64]:
    """Return uint64[len(ids)]: a seed per sample, for the user's Python code."""
    words = draw_words(seed, epoch, stream, ids, 2)
    return (words[:, 0] << _HALF) | words[:, 1]


def _check_word(name: str, value: int, bits: int) -> None:
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name} is {value}: give a number from 0 to 2**{bits} - 1")
