"""Converts the planes of a video frame to those of a JPEG: BT.601 in full range (JFIF), 8 bits.

Luma and chroma stay planes of their own size: nothing is converted to RGB on the way, and where a video is BT.601 in full range
already, nothing changes at all. As in FFmpeg, a video that does not name its matrix is BT.601, and one that does not
name its range is limited.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_BT601 = (0.299, 0.114)
_WEIGHTS = {1: (0.2126, 0.0722), 4: (0.30, 0.11), 7: (0.212, 0.087)}
_WEIGHTS |= {
    9: (0.2627, 0.0593),
    10: (0.2627, 0.0593),
}  # of red and blue, by FFmpeg's number of the matrix
_FIXED = 16  # fixed point: a luma of int16 with four bits behind the point


class Encoding(NamedTuple):
    """How the samples of a video are to be understood."""

    matrix: int
    """FFmpeg's number: 1 is BT.709, 9 BT.2020; 2, 5 and 6 are BT.601."""
    is_full: bool
    bits: int


class _Tables(NamedTuple):
    luma: NDArray[np.uint8]
    """Luma of 8 bits by the luma in the video."""
    fixed: NDArray[np.int16]
    """The same, times 16 and not clipped."""
    chroma: NDArray[np.uint8]
    centred: NDArray[np.float32]
    """Chroma around zero, in full range, by the chroma in the video."""
    mix: NDArray[np.float32] | None
    """(luma, blue, red) x (blue, red): what chroma adds to each; None if the matrix is BT.601."""


def convert_planes(
    planes: list[NDArray[np.uint8]] | list[NDArray[np.uint16]], encoding: Encoding
) -> list[NDArray[np.uint8]]:
    """Return the planes of a JPEG, of the same sizes: luma alone, or luma, blue and red."""
    tables = _make_tables(encoding)
    if len(planes) == 1 or tables.mix is None:
        luma, *chroma = planes
        return [tables.luma.take(luma), *(tables.chroma.take(plane) for plane in chroma)]
    blue, red = (tables.centred.take(plane) for plane in planes[1:])
    added = np.rint((tables.mix[0, 0] * blue + tables.mix[0, 1] * red) * _FIXED).astype(np.int16)
    luma16 = tables.fixed.take(planes[0])
    luma16 += _enlarge(added, luma16.shape)
    luma16 += _FIXED // 2
    luma16 >>= 4
    mixed = (tables.mix[row, 0] * blue + tables.mix[row, 1] * red + 128.5 for row in (1, 2))
    return [_clip(luma16), *(_clip(plane) for plane in mixed)]


def _clip(plane: NDArray[np.int16] | NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.clip(plane, 0, 255, out=plane).astype(np.uint8)


def _enlarge(plane: NDArray[np.int16], shape: tuple[int, ...]) -> NDArray[np.int16]:
    """Return a plane of chroma at the size of luma, each value repeated."""
    for axis in (0, 1):
        times = -(-shape[axis] // plane.shape[axis])
        if times > 1:
            plane = plane.repeat(times, axis)
    return plane[: shape[0], : shape[1]]


@lru_cache(maxsize=16)
def _make_tables(encoding: Encoding) -> _Tables:
    unit = 1 << (encoding.bits - 8)
    values = np.arange(256 * unit) / unit
    if encoding.is_full and encoding.bits > 8:
        values = values * (255 / values[-1])  # the largest value is white
    luma, chroma = values, values - 128
    if not encoding.is_full:
        luma, chroma = (values - 16) * (255 / 219), chroma * (255 / 224)
    weights = _WEIGHTS.get(encoding.matrix)
    return _Tables(
        np.clip(np.rint(luma), 0, 255).astype(np.uint8),
        np.rint(luma * _FIXED).astype(np.int16),
        np.clip(np.rint(chroma + 128), 0, 255).astype(np.uint8),
        chroma.astype(np.float32),
        None if weights is None else _mix_chroma(weights),
    )


def _mix_chroma(weights: tuple[float, float]) -> NDArray[np.float32]:
    """Return what a unit of blue and of red chroma adds to luma, blue and red of BT.601."""
    change = _from_rgb(_BT601) @ np.linalg.inv(_from_rgb(weights))
    return change[:, 1:].astype(np.float32)


def _from_rgb(weights: tuple[float, float]) -> NDArray[np.float64]:
    """Return the matrix from RGB to luma, blue and red chroma."""
    red, blue = weights
    luma = np.array([red, 1 - red - blue, blue])
    to_blue = (np.array([0, 0, 1]) - luma) / (2 * (1 - blue))
    to_red = (np.array([1, 0, 0]) - luma) / (2 * (1 - red))
    return np.stack([luma, to_blue, to_red])
