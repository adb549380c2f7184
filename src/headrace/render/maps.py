"""Maps of floats under the geometry of their images: depth, disparity, flow.

They are resized as torch resizes floats: `torch.nn.functional.interpolate` with "bilinear" and antialias=True, or with
"nearest", after cropping to the box. Where the sizes are equal, values stay as they are. Bilinear sums spread NaN: every
result that depends on a NaN is one. Take `nearest` for maps with gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace import _core
from headrace.arguments import check_choice
from headrace.errors import DecodeError
from headrace.kinds import ValueScale
from headrace.render.arena import Arena, Data
from headrace.render.arrays import is_array, read_array
from headrace.render.axes import Axes, find_axes, render_rows
from headrace.render.decode import check_box, decode_levels
from headrace.render.draws import Draws


@dataclass(frozen=True, eq=False)
class MapRequest:
    """A batch of maps to render.

    Args:
        maps: The maps: .npy files of real numbers [H, W] or [H, W, C], or grey images of 8 or 16 bits.
        draws: The geometry of each; colours are left out.
        size: (height, width) of all results.
        channels: Number C of channels of all maps. Default: maps are [H, W], and so are the results.
        scale: What resizing does to the values: `none`; `x` multiplies them by the ratio of the widths; `xy` multiplies
            channel 0 by the ratio of the widths and channel 1 by that of the heights, and a flip negates the channel
            of its direction.
        interpolation: `bilinear`, antialiased; or `nearest`.
        fill: The value outside of maps.
        divisor: Number that the levels of an image are divided by; arrays are taken as they are.
        threads: The most threads to use.
    """

    maps: Sequence[Data] | Arena
    draws: Draws
    size: tuple[int, int]
    channels: int | None = None
    scale: ValueScale = "none"
    interpolation: Literal["bilinear", "nearest"] = "bilinear"
    fill: float = 0.0
    divisor: float = 1.0
    threads: int = 1

    def __post_init__(self) -> None:
        check_choice("scale", self.scale, ("none", "x", "xy"))
        check_choice("interpolation", self.interpolation, ("bilinear", "nearest"))
        if self.channels is not None and self.channels < 1:
            raise ValueError(f"channels is {self.channels}; give at least 1")
        if self.scale == "xy" and (self.channels or 1) < 2:
            raise ValueError(
                f"scale is 'xy' and channels is {self.channels}; give at least 2 channels"
            )
        if not self.divisor > 0:
            raise ValueError(f"divisor is {self.divisor}; give a positive number")

    def render(self) -> tuple[NDArray[np.float32], dict[int, str]]:
        """Return float32[B, H, W], or [B, H, W, C] if `channels` is given; and why maps were not rendered, by their
        places; theirs are `fill`.
        """
        shape = (len(self.draws), *self.size, self.channels or 1)
        out = np.empty(shape, np.float32)
        failed = render_rows(self._render_map, out, self.fill, self.threads)
        return out[..., 0] if self.channels is None else out, failed

    def _render_map(self, row: int, out: NDArray[np.float32]) -> None:
        axes = find_axes(self.draws, row, self.size)
        data: Any = self.maps[row]
        values = self._read(data, axes)
        factors, nearest = self._find_factors(axes), self.interpolation == "nearest"
        _core.render_map(values, axes.rows, axes.columns, factors, nearest, self.fill, out)

    def _read(self, data: Any, axes: Axes) -> NDArray[np.float32]:
        """Return float32[h, w, C], the box of a map."""
        if is_array(data):
            array = read_array(data)
            self._check(array)
            left, top, width, height = check_box(axes.box, array.shape[1], array.shape[0])
            values = array[top : top + height, left : left + width]
        else:
            values = decode_levels(data, axes.box)
            self._check(values)
            values = values.astype(np.float32) / np.float32(self.divisor)
        with np.errstate(over="ignore"):  # a float64 that becomes infinite
            floats = np.require(values, np.float32, ["C", "A"])
        return floats.reshape(*floats.shape[:2], -1)

    def _check(self, values: NDArray[Any]) -> None:
        """Raise DecodeError unless this is a map with the channels that were given."""
        channels = values.shape[2] if values.ndim == 3 else 1
        good = values.ndim in (2, 3) and values.size and channels == (self.channels or 1)
        if not good or values.dtype.kind not in "biuf":
            sides = "[H, W]" if self.channels is None else f"[H, W, {self.channels}]"
            raise DecodeError(
                f"the map is {values.dtype}{list(values.shape)}; give real numbers {sides}"
            )

    def _find_factors(self, axes: Axes) -> NDArray[np.float32]:
        """Return the number that each channel is multiplied by."""
        factors = np.ones(self.channels or 1, np.float32)
        wider, higher = (axis.full / axis.size for axis in (axes.columns, axes.rows))
        if self.scale == "x":
            factors[:] = wider
        elif self.scale == "xy":
            factors[0] = -wider if axes.columns.flip else wider
            factors[1] = -higher if axes.rows.flip else higher
        return factors
