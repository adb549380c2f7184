"""Masks under the geometry of their images: labels are chosen by the nearest pixel, never mixed.

The nearest pixel is torch's, and so that of torchvision on a `tv_tensors.Mask`: the one at
`floor(place * (size before / size after))`, computed in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace import _core
from headrace.errors import DecodeError
from headrace.render.arena import Arena, Data
from headrace.render.decode import decode_labels
from headrace.render.draws import Draws


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
        full, (x, y) = self.size, (0, 0)
        if (view := self.draws.viewport) is not None:
            (full_height, full_width), (x, y) = view.sizes[row].tolist(), view.offsets[row].tolist()
            full = full_height, full_width
        flip = self.draws.flips is not None and bool(self.draws.flips[row])
        upside_down = self.draws.vertical_flips is not None and bool(self.draws.vertical_flips[row])
        rows = _Axis(height, full[0], y, upside_down)
        columns = _Axis(width, full[1], x, flip)
        data: Any = self.masks[row]
        labels = decode_labels(data, (left, top, width, rows.count_seen(self.size[0])))
        if labels.dtype.itemsize > out.dtype.itemsize:
            raise DecodeError(f"the mask has labels of {labels.dtype}, the batch {out.dtype}")
        labels = labels.astype(out.dtype, copy=False)
        _core.render_labels(labels, rows, columns, self.fill, out)


class _Axis(NamedTuple):
    """As the core takes it: `size` pixels are resized to `full`, of which results show those from `offset` on."""

    size: int
    full: int
    offset: int
    flip: bool

    def count_seen(self, count: int) -> int:
        """Return how many pixels there are up to the last that `count` results show; at least 1."""
        last = max(min(self.offset + count, self.full) - 1, 0)
        nearest = int(np.float32(last) * (np.float32(self.size) / np.float32(self.full)))
        return min(nearest, self.size - 1) + 1
