"""A random permutation of any length that needs no memory: number *i* of it is computed from *i* alone.

A Feistel network permutes the numbers below a power of two, and a number that leaves the range goes through it again
until it is back: fewer than two times on average. Black and Rogaway, "Ciphers with arbitrary finite domains", 2002.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.plan.philox import draw_words
from headrace.plan.shuffle import order_randomly

_SMALL = 1 << 16
"""Permutations up to this length are sorted random numbers, and so exactly uniform."""
_ROUNDS = 8
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))
_SHIFT = np.uint64(32)


class Permutation:
    """A permutation of the numbers 0 to `count` - 1, chosen by (seed, epoch, stream)."""

    def __init__(self, seed: int, epoch: int, stream: int, count: int) -> None:
        self.count = count
        self._key = seed, epoch, stream
        bits = max((count - 1).bit_length(), 2)
        self._low_bits = np.uint64(bits // 2)
        self._low, self._high = ((1 << half) - 1 for half in (bits // 2, bits - bits // 2))

    @cached_property
    def _table(self) -> NDArray[np.int64]:
        return order_randomly(*self._key, self.count)

    @cached_property
    def _round_keys(self) -> list[np.uint64]:
        words = draw_words(*self._key, np.arange(_ROUNDS), 2)
        return list((words[:, 0] << _SHIFT) | words[:, 1])

    def find(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where each number goes."""
        if self.count <= _SMALL:
            return self._table[numbers]
        found = self._mix(numbers.astype(np.uint64))
        outside = np.flatnonzero(found >= self.count)
        while len(outside):
            found[outside] = self._mix(found[outside])
            outside = outside[found[outside] >= self.count]
        return found.astype(np.int64)

    def _mix(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return each number after all rounds, which change its halves in turns."""
        low, high = numbers & np.uint64(self._low), numbers >> self._low_bits
        for number, key in enumerate(self._round_keys):
            if number % 2:
                high ^= _scramble(low, key) & np.uint64(self._high)
            else:
                low ^= _scramble(high, key) & np.uint64(self._low)
        mixed: NDArray[np.uint64] = (high << self._low_bits) | low
        return mixed


def _scramble(half: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Return a hash of each number."""
    half = (half ^ key) * _FACTORS[0]
    half ^= half >> _SHIFT
    half *= _FACTORS[1]
    half ^= half >> _SHIFT
    return half
