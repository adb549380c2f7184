"""Which frames are taken by their times: resampling, cutting, and rates that vary."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.codecs.frame_times import Shown, cut, find_rate, find_rounding, resample

MILLISECOND = Fraction(1, 1000)
gaps = st.lists(st.integers(1, 400), min_size=1, max_size=60)
rates = st.fractions(Fraction(1, 4), 120, max_denominator=1001)


def show(durations: list[int]) -> list[Shown[int]]:
    """Frames numbered from 0, with durations in milliseconds."""
    times = [Fraction(sum(durations[:k]), 1000) for k in range(len(durations) + 1)]
    return [Shown(times[k], times[k + 1], k) for k in range(len(durations))]


def take(
    frames: list[Shown[int]],
    rate: Fraction,
    rounding: Fraction,
    start: Fraction = Fraction(0),
    end: Fraction | None = None,
) -> list[int]:
    taken = resample(frames, rate, rounding, start, end)
    return [number for _, repeats, number in taken for _ in range(repeats)]


def take_slowly(
    frames: list[Shown[int]], rate: Fraction, rounding: Fraction, start: Fraction, end: Fraction
) -> list[int]:
    """The frame at each tick, found by looking through all frames."""
    taken, tick = [], start
    while tick < min(end, frames[-1].until - rounding):
        taken.append(max(f.frame for f in frames if f.since - rounding <= tick or f.frame == 0))
        tick += 1 / rate
    return taken


@given(gaps, rates, st.sampled_from([Fraction(0), MILLISECOND / 2]))
def test_each_tick_takes_the_frame_that_is_shown_then(
    durations: list[int], rate: Fraction, rounding: Fraction
) -> None:
    frames = show(durations)
    taken = take(frames, rate, rounding)
    expected = take_slowly(frames, rate, rounding, Fraction(0), frames[-1].until)
    assert taken == (expected or [0])
    assert taken == sorted(taken)


@given(gaps, rates, st.integers(0, 4000), st.integers(1, 4000))
def test_ticks_of_a_part_begin_at_its_start_and_end_before_its_end(
    durations: list[int], rate: Fraction, start: int, length: int
) -> None:
    frames, first = show(durations), Fraction(start, 1000)
    end = first + Fraction(length, 1000)
    taken = take(frames, rate, MILLISECOND / 2, first, end)
    expected = take_slowly(frames, rate, MILLISECOND / 2, first, end)
    assert taken == expected or (len(taken) == 1 and not expected)


@given(st.integers(1, 60), st.integers(1, 100))
def test_resampling_to_the_own_rate_changes_nothing(count: int, rate: int) -> None:
    """Also if times are rounded to milliseconds, as in WebM."""
    times = [Fraction(round(1000 * k / rate), 1000) for k in range(count + 1)]
    frames = [Shown(times[k], times[k + 1], k) for k in range(count)]
    assert take(frames, Fraction(rate), MILLISECOND / 2) == list(range(count))


@given(gaps, st.integers(0, 4000), st.integers(1, 4000))
def test_a_cut_has_the_frames_that_begin_inside_or_the_one_shown_at_its_start(
    durations: list[int], start: int, length: int
) -> None:
    frames, first = show(durations), Fraction(start, 1000)
    end = first + Fraction(length, 1000)
    taken = [number for _, _, number in cut(frames, Fraction(0), first, end)]
    inside = [f.frame for f in frames if first <= f.since < end]
    shown = [f.frame for f in frames if f.since <= first < f.until]
    assert taken == (inside or shown)


def test_half_a_unit_is_rounding_but_never_more_than_half_a_millisecond() -> None:
    assert find_rounding(Fraction(1, 90000)) == Fraction(1, 180000)
    assert find_rounding(MILLISECOND) == MILLISECOND / 2
    assert find_rounding(Fraction(1, 25)) == MILLISECOND / 2  # AVI counts frames


def test_rounded_times_have_the_rate_of_the_header_and_no_times() -> None:
    times = [Fraction(round(1000 * k / 30), 1000) for k in range(90)]
    assert find_rate(times, MILLISECOND / 2, Fraction(30)) == (30.0, None)


def test_a_rate_that_varies_has_times_that_begin_with_zero() -> None:
    times = [Fraction(k, 25) for k in (3, 4, 5, 9, 10, 13)]
    rate, found = find_rate(times, Fraction(0), Fraction(25))
    assert rate == 12.5
    assert found == [0.0, 0.04, 0.08, 0.24, 0.28, 0.4]


def test_one_frame_has_the_rate_of_the_header() -> None:
    assert find_rate([Fraction(1)], Fraction(0), Fraction(24)) == (24.0, None)
    assert find_rate([Fraction(1)], Fraction(0), None) == (None, None)
