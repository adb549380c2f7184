"""Masks under the geometry of their images: labels are chosen by the nearest pixel, never mixed.

The nearest pixel is torch's, and so that of torchvision on a `tv_tensors.Mask`: the one at
`floor(place * (size before / size after))`, computed in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _core
from headrace.errors import DecodeError
from headrace.render.arena import Arena, Data
from headrace.render.decode import decode_labels
from headrace.render.draws import Draws

_OUTSIDE = -1


@dataclass(frozen=True, eq=False)
class LabelRequest:
    """A batch of masks to render.

    Args:
        masks: The encoded masks.
        draws: The geometry of each; colours are left out.
        size: (height, width) of all results.
        dtype: uint8, or uint16 if a mask has 16 bits per pixel.
        fill: The label outside of masks.
        threads: The most threads to use.
    """

    masks: Sequence[Data] | Arena
    draws: Draws
    size: tuple[int, int]
    dtype: Any = np.uint8
    fill: int = 255
    threads: int = 1

    def render(self) -> tuple[NDArray[Any], dict[int, str]]:
        """Return the labels [B, H, W], and why masks were not rendered, by their places; theirs are `fill`."""
        out = np.empty((len(self.draws), *self.size), self.dtype)
        failed: dict[int, str] = {}
        render = partial(self._render_row, out, failed)
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(render, range(len(out))))
        return out, failed

    def _render_row(self, out: NDArray[Any], failed: dict[int, str], row: int) -> None:
        try:
            self._render_mask(row, out[row])
        except (DecodeError, ValueError) as error:
            out[row] = self.fill
            failed[row] = str(error)

    def _render_mask(self, row: int, out: NDArray[Any]) -> None:
        left, top, width, height = self.draws.boxes[row].tolist()
        if width < 1 or height < 1:
            raise DecodeError("the mask is too small, or too long and thin, for this transform")
        view = self.draws.viewport
        if view is None:
            full, offset = self.size, (0, 0)
        else:
            full = tuple(view.sizes[row].tolist())
            offset = tuple(view.offsets[row].tolist())
        columns = _find_nearest(width, full[1], offset[0], self.size[1])
        rows = _find_nearest(height, full[0], offset[1], self.size[0])
        if self.draws.flips is not None and self.draws.flips[row]:
            columns = columns[::-1]
        if self.draws.vertical_flips is not None and self.draws.vertical_flips[row]:
            rows = rows[::-1]
        used = int(rows.max()) + 1
        data: Any = self.masks[row]
        if used < 1 or columns.max() < 0:  # nothing of the mask is seen, but it must be one
            used = 1
        labels = decode_labels(data, (left, top, width, used))
        if labels.dtype.itemsize > out.dtype.itemsize:
            raise DecodeError(f"the mask has labels of {labels.dtype}, the batch {out.dtype}")
        labels = labels.astype(out.dtype, copy=False)
        _core.gather_labels(
            labels, np.ascontiguousarray(rows), np.ascontiguousarray(columns), self.fill, out
        )


def _find_nearest(size: int, full: int, offset: int, count: int) -> NDArray[np.int32]:
    """Return which of `size` pixels each of `count` results shows, if they are resized to `full` and the results begin
    at `offset`; -1 outside of them."""
    places = np.arange(offset, offset + count, dtype=np.int32)
    scale = np.float32(size) / np.float32(full)
    nearest = np.minimum((places.astype(np.float32) * scale).astype(np.int32), size - 1)
    return np.where((places < 0) | (places >= full), _OUTSIDE, nearest).astype(np.int32)
