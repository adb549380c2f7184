"""Defaults that a loader derives from its data: the window, the length of runs, the common size."""

from __future__ import annotations

from operator import index

import numpy as np
from numpy.typing import NDArray

from headrace.plan.runs import RUN_BYTES
from headrace.plan.shuffle import MAX_WINDOW
from headrace.read.columns import Columns
from headrace.read.field_columns import PictureColumns
from headrace.read.table import Table

WINDOW_BYTES = 96 << 20


def choose_window(
    window: int | str | None, table: Table, global_batch: int, *, apart: bool = False
) -> int | None:
    """Return the window in samples, None for all. It depends on the data, not on the requested fields.

    Args:
        window: option of the loader.
        table: rows of the dataset.
        global_batch: samples per step on all ranks.
        apart: whether each sample is read by itself, so that mixing all of them costs nothing. Files of their own
            always are; and folders are sorted by class.
    """
    if window is None:
        return None
    if not isinstance(window, str):
        return index(window)
    if window != "auto":
        raise ValueError(f"window is {window!r}; give 'auto', a number of samples, or None")
    if apart or any(part.loose for part in table.parts):
        return None
    sizes = table.columns.anchor.size
    mean = max(int(sizes.mean()) if len(sizes) else 1, 1)
    return min(max(WINDOW_BYTES // mean, 4 * global_batch), MAX_WINDOW)


def choose_run_bytes(columns: Columns, *, anywhere: bool, wanted: float) -> int:
    """Return the length of runs, chosen so that memory does not grow with the dataset.

    A whole run is in memory as long as one of its samples is needed.

    Args:
        anywhere: whether samples are needed in any order, as in a full shuffle.
        wanted: share of the samples that an epoch may need.
    """
    if int(columns.anchor.size.sum()) <= WINDOW_BYTES:
        return RUN_BYTES
    return 1 if anywhere else max(int(RUN_BYTES * wanted), 1)


def find_common_size(
    columns: Columns | PictureColumns, rows: NDArray[np.int64] | None
) -> tuple[int, int] | None:
    """Return the size (height, width) of all images that decode, or None if it differs."""
    heights = columns.height if rows is None else columns.height[rows]
    widths = columns.width if rows is None else columns.width[rows]
    heights, widths = heights[heights > 0], widths[heights > 0]
    if not len(heights) or (heights != heights[0]).any() or (widths != widths[0]).any():
        return None
    return int(heights[0]), int(widths[0])
