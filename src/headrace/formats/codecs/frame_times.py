"""Which frames of a video are taken, by the times at which they are shown. All times are exact seconds.

A player shows a frame from its time on until the time of the next one. Timestamps are rounded to the units of their
file (milliseconds in WebM), so that a frame counts as shown a little earlier: by half a unit, at most half a millisecond.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

_Frame = TypeVar("_Frame")
_VARIES = 0.01  # of the mean duration


class Shown(NamedTuple, Generic[_Frame]):
    """A frame, and from when until when it is shown."""

    since: Fraction
    until: Fraction
    frame: _Frame


class Taken(NamedTuple, Generic[_Frame]):
    """A frame to pack `repeats` times, the first time at `time`."""

    time: Fraction
    repeats: int
    frame: _Frame


def find_rounding(unit: Fraction) -> Fraction:
    """Return how far a time may be from the true one if timestamps count multiples of `unit`."""
    return min(unit, Fraction(1, 1000)) / 2


def resample(
    frames: Iterable[Shown[_Frame]],
    rate: Fraction,
    rounding: Fraction,
    start: Fraction = Fraction(0),
    end: Fraction | None = None,
) -> Iterator[Taken[_Frame]]:
    """Yield the frame that is shown at each tick `start + k / rate` before `end`, equal ones as one.

    A video that ends before its first tick has none; every other video has at least one.
    """
    done = 0
    for since, until, frame in frames:
        stop = until - rounding if end is None else min(until - rounding, end)
        ticks = max(0, math.ceil((stop - start) * rate))
        if done == 0 and since <= start < until:
            ticks = max(ticks, 1)  # a video that is shorter than the rounding
        if ticks > done:
            yield Taken(start + done / rate, ticks - done, frame)
            done = ticks
        if end is not None and until >= end:
            return


def cut(
    frames: Iterable[Shown[_Frame]],
    rounding: Fraction,
    start: Fraction = Fraction(0),
    end: Fraction | None = None,
) -> Iterator[Taken[_Frame]]:
    """Yield each frame that begins between `start` and `end`; if there is none, the one shown at `start`."""
    shown: Taken[_Frame] | None = None
    for since, until, frame in frames:
        if end is not None and since + rounding >= end:
            break
        if since + rounding >= start:
            shown = None
            yield Taken(since, 1, frame)
        elif until > start:
            shown = Taken(since, 1, frame)
    if shown is not None:
        yield shown


def find_rate(
    times: Sequence[Fraction], rounding: Fraction, stated: Fraction | None
) -> tuple[float | None, list[float] | None]:
    """Return the frames per second, and the time of each frame from the first on if the rate varies.

    Args:
        times: The time of each frame, never decreasing.
        rounding: How far each time may be from the true one.
        stated: The rate in the header of the file, which is exact where times are rounded.
    """
    if len(times) < 2 or times[-1] <= times[0]:
        return (float(stated) if stated else None), None
    mean = (times[-1] - times[0]) / (len(times) - 1)
    if stated and abs(1 / stated - mean) <= mean / 100:
        rate = float(stated)
    else:
        rate = float(1 / mean)
    gaps = [after - before for before, after in pairwise(times)]
    if max(gaps) - min(gaps) <= mean * Fraction(_VARIES) + 4 * rounding:
        return rate, None
    return rate, [float(time - times[0]) for time in times]
