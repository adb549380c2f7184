"""Frames of clips: each policy equals its statement in plain Python, and keeps its laws."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan import (
    Stream,
    count_offsets,
    count_starts_in_time,
    draw_uniforms,
    find_short,
    jitter_offsets,
    loop_video,
    measure_spans,
    repeat_last,
    show_in_time,
    spread_over_video,
    start_anywhere,
    start_evenly,
    start_one_after_another,
    three_crop_offsets,
)

counts = st.lists(st.integers(1, 400), min_size=1, max_size=5).map(lambda n: np.array(n, np.int64))
lengths, steps, clips = st.integers(1, 20), st.integers(1, 9), st.integers(1, 6)


def strides_of(step: float, videos: int) -> np.ndarray:
    return np.full(videos, float(step))


@given(lengths, steps)
def test_a_clip_spans_its_frames_and_the_steps_between_them(frames: int, step: int) -> None:
    (offsets,) = count_offsets(frames, strides_of(step, 1))
    assert offsets.tolist() == [j * step for j in range(frames)]
    assert measure_spans(frames, strides_of(step, 1)).tolist() == [(frames - 1) * step + 1]
    assert measure_spans(frames, strides_of(step, 1), jitter=True).tolist() == [frames * step]


@given(st.integers(1, 60), st.integers(1, 240), lengths)
def test_rates_that_divide_give_whole_strides(fps: int, times: int, frames: int) -> None:
    rate = fps * 1000 / 1001  # as 29.97
    (offsets,) = count_offsets(frames, np.array([rate * times / rate]))
    assert offsets.tolist() == [j * times for j in range(frames)]


def test_a_rate_that_does_not_divide_shows_what_a_player_shows() -> None:
    assert count_offsets(6, np.array([2.5])).tolist() == [[0, 2, 5, 7, 10, 12]]
    assert count_offsets(6, np.array([0.5])).tolist() == [[0, 0, 1, 1, 2, 2]]


@given(counts, lengths, steps, clips)
def test_random_starts_fit(counts: np.ndarray, frames: int, step: int, clips: int) -> None:
    spans = measure_spans(frames, strides_of(step, len(counts)))
    for value in (0.0, 0.5, 1 - 2.0**-32):
        starts = start_anywhere(counts, spans, np.full((len(counts), clips), value))
        assert (starts >= 0).all()
        fits = counts >= spans
        assert (starts + spans[:, None] <= counts[:, None])[fits].all()
        assert not starts[~fits].any()


def test_random_starts_are_uniform_and_include_the_last_one() -> None:
    draws = draw_uniforms(0, 0, Stream.CLIP, np.arange(20_000), 1)
    starts = start_anywhere(np.full(20_000, 30), np.full(20_000, 21), draws)
    found = np.bincount(starts[:, 0])
    assert len(found) == 10  # 0 to 9, of which 9 is the last that fits
    assert (
        (found - 2000) ** 2 / 2000
    ).sum() < 27.9  # chi-squared with 9 degrees of freedom, p = 0.001


@given(counts, lengths, clips)
def test_even_starts_go_from_the_beginning_to_the_end(
    counts: np.ndarray, frames: int, clips: int
) -> None:
    spans = measure_spans(frames, strides_of(1, len(counts)))
    starts = start_evenly(counts, spans, clips)
    for count, span, found in zip(counts.tolist(), spans.tolist(), starts.tolist(), strict=True):
        room = max(count - span, 0)
        if clips == 1:
            assert found == [round(room / 2)]
        else:
            assert found == [round(room * k / (clips - 1)) for k in range(clips)]
            assert found[0] == 0 and found[-1] == room


@given(lengths, steps, clips)
def test_clips_from_the_start_follow_one_another(frames: int, step: int, clips: int) -> None:
    starts = start_one_after_another(frames, strides_of(step, 1), clips)
    assert starts.tolist() == [[k * frames * step for k in range(clips)]]


@given(lengths, steps, st.integers(0, 1000))
def test_jitter_moves_each_frame_by_less_than_a_step(frames: int, step: int, seed: int) -> None:
    offsets = count_offsets(frames, strides_of(step, 1))
    uniforms = draw_uniforms(seed, 0, Stream.CLIP, np.arange(1), 3 * frames).reshape(1, 3, frames)
    moves = jitter_offsets(offsets, strides_of(step, 1), uniforms) - offsets[:, None]
    assert moves.min() >= 0 and moves.max() < step
    assert moves.max() + offsets.max() < measure_spans(frames, strides_of(step, 1), jitter=True)[0]


@given(st.integers(1, 300), lengths, st.floats(0, 1, exclude_max=True))
def test_each_segment_gives_one_of_its_frames(count: int, frames: int, place: float) -> None:
    (clip,) = spread_over_video(np.array([count]), frames, np.full((1, 1, frames), place))[0]
    for j, frame in enumerate(clip.tolist()):
        assert j * count // frames <= frame <= min((j + 1) * count / frames, count - 1)


@given(counts, lengths, steps, clips)
def test_short_videos_repeat_the_last_frame_that_was_taken(
    counts: np.ndarray, frames: int, step: int, clips: int
) -> None:
    strides = strides_of(step, len(counts))
    offsets = count_offsets(frames, strides)[:, None]
    taken = start_one_after_another(frames, strides, clips)[:, :, None] + offsets
    filled = repeat_last(taken, counts)
    for count, before, after in zip(counts.tolist(), taken, filled, strict=True):
        for clip, result in zip(before.tolist(), after.tolist(), strict=True):
            inside = [frame for frame in clip if frame < count]
            last = inside[-1] if inside else count - 1
            assert result == inside + [last] * (len(clip) - len(inside))
    assert find_short(taken, counts).tolist() == [
        bool((video >= count).any()) for video, count in zip(taken, counts, strict=True)
    ]


@given(counts, lengths, steps)
def test_looping_continues_with_the_first_frame(counts: np.ndarray, frames: int, step: int) -> None:
    taken = np.repeat(count_offsets(frames, strides_of(step, len(counts)))[:, None], 2, axis=1)
    looped = loop_video(taken, counts)
    assert looped.tolist() == [
        [[frame % count for frame in clip] for clip in video]
        for video, count in zip(taken.tolist(), counts.tolist(), strict=True)
    ]


@st.composite
def varying_times(draw: st.DrawFn) -> np.ndarray:
    gaps = draw(st.lists(st.floats(0.001, 1), min_size=0, max_size=40))
    return np.append(0.0, np.cumsum(gaps))


@given(varying_times(), st.floats(0.001, 1), st.lists(st.floats(0, 50), min_size=1, max_size=20))
def test_the_frame_shown_is_the_last_that_has_begun(
    times: np.ndarray, rest: float, moments: list[float]
) -> None:
    end = times[-1] + rest
    shown = show_in_time(times, end, np.array(moments))
    for moment, frame in zip(moments, shown.tolist(), strict=True):
        if frame == len(times):
            assert moment >= end - 1e-5
        else:
            assert times[frame] <= moment + 1e-5
            assert frame + 1 == len(times) or times[frame + 1] >= moment - 1e-5


@given(varying_times(), st.floats(0.001, 1), st.floats(0, 20))
def test_a_clip_in_time_starts_where_it_fits(
    times: np.ndarray, rest: float, seconds: float
) -> None:
    end = times[-1] + rest
    starts = count_starts_in_time(times, end, seconds)
    assert 1 <= starts <= len(times)
    if starts > 1:
        assert show_in_time(times, end, times[[starts - 1]] + seconds)[0] < len(times)
    if starts < len(times):
        assert times[starts] + seconds >= end - 1e-5


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 300), st.integers(1, 300))
def test_three_crops_lie_along_the_longer_side(
    height: int, width: int, crop_height: int, crop_width: int
) -> None:
    lefts, tops = three_crop_offsets(np.array([height]), np.array([width]), crop_height, crop_width)
    spare_x, spare_y = width - crop_width, height - crop_height
    long, short, spare = (lefts, tops, spare_x) if spare_x >= spare_y else (tops, lefts, spare_y)
    assert len(set(short[0].tolist())) == 1
    if spare > 0:
        assert (long[0, 0], long[0, 2]) == (0, spare) and long[0, 0] <= long[0, 1] <= long[0, 2]
    else:
        assert len(set(long[0].tolist())) == 1
