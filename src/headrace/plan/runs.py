"""Cut runs: groups of consecutive rows of the index that are read at once.

Run *j* is the rows `runs[j]` to `runs[j + 1] - 1`, so that k runs are an increasing int64[k + 1]
from 0 to the number of rows. Every row is in exactly one run and no run is empty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RUN_BYTES = 8 << 20


def cut_runs(
    files: NDArray[np.int64],
    offsets: NDArray[np.int64],
    sizes: NDArray[np.int64],
    run_bytes: int = RUN_BYTES,
) -> NDArray[np.int64]:
    """Cut rows, each the bytes [offset, offset + size) of a file, into runs of about `run_bytes`.

    A run lies in one file and never goes backwards in it. The runs of a stretch are about equally
    long, and longer than 3/2 `run_bytes` only to hold a last sample that reaches beyond the cut.
    """
    _check_run_bytes(run_bytes)
    if not len(files):
        return np.zeros(1, np.int64)
    stretches = _find_starts((files[1:] != files[:-1]) | (offsets[1:] < offsets[:-1]))
    begins = offsets[stretches]
    last_rows = np.append(stretches[1:], len(files)) - 1
    widths = _choose_widths(offsets[last_rows] + sizes[last_rows] - begins, run_bytes)
    stretch_of = np.repeat(np.arange(len(stretches)), np.diff(stretches, append=len(files)))
    buckets = (offsets - begins[stretch_of]) // widths[stretch_of]
    changes = (buckets[1:] != buckets[:-1]) | (stretch_of[1:] != stretch_of[:-1])
    return np.append(_find_starts(changes), len(files))


def group_files(sizes: NDArray[np.int64], run_bytes: int = RUN_BYTES) -> NDArray[np.int64]:
    """Group consecutive files of one sample each (an image folder) into runs of about `run_bytes`."""
    ends = np.cumsum(sizes)
    return cut_runs(np.zeros(len(sizes), np.int64), ends - sizes, sizes, run_bytes)


def find_runs(runs: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the run that each row is in."""
    return np.searchsorted(runs, rows, side="right") - 1


def _find_starts(changes: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.append(0, np.flatnonzero(changes) + 1)


def _choose_widths(spans: NDArray[np.int64], run_bytes: int) -> NDArray[np.int64]:
    """Return the width that divides each span equally, as close to `run_bytes` as possible."""
    parts = np.maximum((spans + run_bytes // 2) // run_bytes, 1)
    return np.maximum(-(-spans // parts), 1)


def _check_run_bytes(run_bytes: int) -> None:
    if run_bytes < 1:
        raise ValueError(f"run_bytes is {run_bytes}: a run needs at least one byte")
