"""What masks and maps have in common: the geometry of one of them, axis by axis, and a thread for each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.render.draws import Draws


class Axis(NamedTuple):
    """As the core takes it: `size` pixels are resized to `full`, of which results show those from `offset` on."""

    size: int
    full: int
    offset: int
    flip: bool

    def count_seen(self, count: int, exact: bool) -> int:
        """Return how many pixels there are up to the last that `count` results show, or one more; at least 1."""
        last = max(min(self.offset + count, self.full) - 1, 0)
        if exact:
            return min(int((last + 0.5) * self.size / self.full) + 2, self.size)
        nearest = int(np.float32(last) * (np.float32(self.size) / np.float32(self.full)))
        return min(nearest, self.size - 1) + 1


class Axes(NamedTuple):
    """The geometry of one result: the box of it begins at (left, top)."""

    left: int
    top: int
    rows: Axis
    columns: Axis

    @property
    def box(self) -> tuple[int, int, int, int]:
        """(left, top, width, height)."""
        return self.left, self.top, self.columns.size, self.rows.size

    def find_seen(self, height: int, exact: bool) -> tuple[int, int, int, int]:
        """Return the box without the rows below the last nearest one that `height` results show."""
        return self.left, self.top, self.columns.size, self.rows.count_seen(height, exact)


def find_axes(draws: Draws, row: int, size: tuple[int, int]) -> Axes:
    """Return the geometry of one result of this size (height, width). Raise DecodeError if its box is empty."""
    left, top, width, height = draws.boxes[row].tolist()
    if width < 1 or height < 1:
        raise DecodeError("its image is too small, or too long and thin, for this transform")
    (full_height, full_width), (x, y) = size, (0, 0)
    if (view := draws.viewport) is not None:
        (full_height, full_width), (x, y) = view.sizes[row].tolist(), view.offsets[row].tolist()
    flip = draws.flips is not None and bool(draws.flips[row])
    upside_down = draws.vertical_flips is not None and bool(draws.vertical_flips[row])
    return Axes(
        left, top, Axis(height, full_height, y, upside_down), Axis(width, full_width, x, flip)
    )


def render_rows(
    render: Callable[[int, NDArray[Any]], None], out: NDArray[Any], fill: float, threads: int
) -> dict[int, str]:
    """Call `render(row, out[row])` for each row. Return why rows failed, by their numbers; theirs are `fill`."""
    failed: dict[int, str] = {}

    def render_row(row: int) -> None:
        try:
            render(row, out[row])
        except (DecodeError, ValueError) as error:
            out[row] = fill
            failed[row] = str(error)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(render_row, range(len(out))))
    return failed
