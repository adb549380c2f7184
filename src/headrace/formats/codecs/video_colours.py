"""What the samples of a video frame mean: the matrix from luma and chroma to RGB, and samples of more than 8 bits.

As in FFmpeg, a video that does not name its matrix is BT.601, and one that does not name its range is limited.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_BT601 = (0.299, 0.114)
_WEIGHTS = {1: (0.2126, 0.0722), 4: (0.30, 0.11), 7: (0.212, 0.087)}
_WEIGHTS |= {9: (0.2627, 0.0593), 10: (0.2627, 0.0593)}
"""The weights of red and blue in luma, by FFmpeg's number of the matrix; all others are BT.601."""


class Encoding(NamedTuple):
    """How the samples of a video are to be understood."""

    matrix: int
    """FFmpeg's number: 1 is BT.709, 9 BT.2020; 2, 5 and 6 are BT.601."""
    is_full: bool
    bits: int

    @property
    def is_jfif(self) -> bool:
        """Whether these are the colours of a JPEG, which are stored as they are."""
        return self.is_full and self.matrix not in _WEIGHTS


@lru_cache(maxsize=16)
def find_rgb_matrix(encoding: Encoding) -> tuple[float, ...]:
    """Return the 3 x 4 matrix from luma, blue and red chroma of 8 bits, and 1, to RGB, row by row."""
    red, blue = _WEIGHTS.get(encoding.matrix, _BT601)
    green = 1 - red - blue
    luma, black, chroma = (1.0, 0, 1.0) if encoding.is_full else (255 / 219, 16, 255 / 224)
    of_red, of_blue = 2 * (1 - red) * chroma, 2 * (1 - blue) * chroma
    rows = [
        (luma, 0.0, of_red),
        (luma, -of_blue * blue / green, -of_red * red / green),
        (luma, of_blue, 0.0),
    ]
    return tuple(n for y, b, r in rows for n in (y, b, r, -y * black - 128 * (b + r)))


def reduce_depth(
    plane: NDArray[np.uint16], encoding: Encoding, is_chroma: bool
) -> NDArray[np.uint8]:
    """Return samples of more than 8 bits rounded to 8 bits, with the same meaning."""
    return _depth_table(encoding.bits, encoding.is_full, is_chroma).take(plane)


@lru_cache(maxsize=16)
def _depth_table(bits: int, is_full: bool, is_chroma: bool) -> NDArray[np.uint8]:
    values = np.arange(1 << bits) / (1 << (bits - 8))
    if is_full:  # the largest value is 255 then, and zero chroma stays 128
        zero = 128 if is_chroma else 0
        values = (values - zero) * (255 / values[-1]) + zero
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
