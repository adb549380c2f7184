"""What a batch consists of when some of its samples are bad."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

OnError = Literal["raise", "skip", "substitute"]


def choose_rows(bad: NDArray[np.bool_], on_error: OnError) -> NDArray[np.int64] | None:
    """Which entries make up the batch; None if simply all. Under `raise` there are no bad ones.

    A batch without a good sample keeps one, or all under `substitute`: ranks must make equally many
    steps. The caller marks them as invalid.
    """
    if not bad.any():
        return None
    good = np.flatnonzero(~bad)
    if not len(good):
        return np.arange(1 if on_error == "skip" else len(bad))
    if on_error == "skip":
        return good
    places = np.searchsorted(good, np.arange(len(bad)))
    return np.where(bad, good[places % len(good)], np.arange(len(bad)))
