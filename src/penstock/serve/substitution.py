"""What a batch consists of when some of its samples are bad."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from penstock.errors import DecodeError

OnError = Literal["raise", "skip", "substitute"]


def choose_rows(bad: NDArray[np.bool_], on_error: OnError) -> NDArray[np.int64] | None:
    """Which entries make up the batch; None if simply all. Under `raise` there are no bad ones."""
    if not bad.any():
        return None
    good = np.flatnonzero(~bad)
    if on_error == "skip":
        return good
    if not len(good):
        raise DecodeError(f"none of a batch of {len(bad)} decodes: nothing to substitute with")
    places = np.searchsorted(good, np.arange(len(bad)))
    return np.where(bad, good[places % len(good)], np.arange(len(bad)))
