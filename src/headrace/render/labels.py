"""Masks under the geometry of their images: labels are chosen by the nearest pixel, never mixed.

The nearest pixel is torch's, and so that of torchvision on a `tv_tensors.Mask`: "nearest" is the one at
`floor(place * (size before / size after))`, computed in float32, and "nearest-exact" the one under the centre.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _core
from headrace.arguments import check_choice
from headrace.errors import DecodeError
from headrace.kinds import Nearest
from headrace.render.arena import Arena, Data
from headrace.render.axes import find_axes, render_rows
from headrace.render.decode import decode_labels
from headrace.render.draws import Draws

_DTYPES = tuple(np.dtype(name) for name in ("uint8", "uint16", "int32", "int64"))


@dataclass(frozen=True, eq=False)
class LabelRequest:
    """A batch of masks to render.

    Args:
        masks: The encoded masks, or .npy files of integers [H, W].
        draws: The geometry of each; colours are left out.
        size: (height, width) of all results.
        dtype: uint8, uint16, int32 or int64. A mask with labels that do not fit is not rendered.
        fill: The label outside of masks, any that fits into `dtype`.
        threads: The most threads to use.
        interpolation: The rule for the nearest pixel, `nearest` or `nearest-exact`.
        rgb_ids: Whether the labels of an RGB image are R + 256 G + 65536 B.
    """

    masks: Sequence[Data] | Arena
    draws: Draws
    size: tuple[int, int]
    dtype: Any = np.uint8
    fill: int = 255
    threads: int = 1
    interpolation: Nearest = "nearest"
    rgb_ids: bool = False

    def __post_init__(self) -> None:
        check_choice("interpolation", self.interpolation, ("nearest", "nearest-exact"))
        dtype = np.dtype(self.dtype)
        check_choice("dtype", dtype, _DTYPES)
        if not _fits(self.fill, self.fill, dtype):
            raise ValueError(f"fill is {self.fill}; give a label that fits into {dtype}")
        object.__setattr__(self, "dtype", dtype)

    def render(self) -> tuple[NDArray[Any], dict[int, str]]:
        """Return the labels [B, H, W], and why masks were not rendered, by their places; theirs are `fill`."""
        out = np.empty((len(self.draws), *self.size), self.dtype)
        return out, render_rows(self._render_mask, out, self.fill, self.threads)

    def _render_mask(self, row: int, out: NDArray[Any]) -> None:
        axes, exact = find_axes(self.draws, row, self.size), self.interpolation == "nearest-exact"
        data: Any = self.masks[row]
        labels = decode_labels(data, axes.find_seen(self.size[0], exact), self.rgb_ids)
        labels = _widen(labels, self.fill, out.dtype)
        same = labels.dtype == out.dtype
        chosen = out if same else np.empty(out.shape, labels.dtype)
        _core.render_labels(labels, axes.rows, axes.columns, self.fill, chosen, exact)
        if not same:
            least, most = int(chosen.min()), int(chosen.max())
            if not _fits(least, most, out.dtype):
                raise DecodeError(
                    f"the mask has labels from {least} to {most}, the batch {out.dtype}"
                )
            out[...] = chosen


def _fits(least: int, most: int, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return bool(limits.min <= least and most <= limits.max)


def _widen(labels: NDArray[Any], fill: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return labels in a type of the core that holds them and `fill`: their own, `dtype`, or int64."""
    if labels.dtype in _DTYPES and _fits(fill, fill, labels.dtype):
        return labels
    if np.can_cast(labels.dtype, dtype):
        return labels.astype(dtype)
    if labels.dtype == np.uint64 and labels.max() > np.iinfo(np.int64).max:
        raise DecodeError(f"the mask has labels up to {labels.max()}, the batch {dtype}")
    return labels.astype(np.int64)
