"""Choose the frames of clips: which frames of each video a batch shows, for a whole batch at once.

A clip has T frames that are `stride` frames apart, a number per video that need not be an integer: frame
j of a clip is the one shown `j * stride` frames after its first. The caller supplies the uniforms. Every
function is pure; frames are numbered from 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
"""The number of frames of each video, at least 1."""
Frames = NDArray[np.int64]
"""int64[B, K, T]: the frames of K clips of each video."""

_ROUNDING = 1e-6  # of a frame: rates such as 29.97 / 9.99 are not exactly 3


def count_offsets(frames: int, strides: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return int64[B, T]: how far each frame of a clip lies behind its first."""
    return np.floor(np.arange(frames) * strides[:, None] + _ROUNDING).astype(np.int64)


def measure_spans(
    frames: int, strides: NDArray[np.float64], *, jitter: bool = False
) -> NDArray[np.int64]:
    """Return how many frames a clip spans: (T - 1) * stride + 1, or T * stride if frames are jittered."""
    last = count_offsets(frames + jitter, strides)[:, -1]
    spans: NDArray[np.int64] = last + (not jitter)
    return spans


def start_anywhere(
    counts: Counts, spans: NDArray[np.int64], uniforms: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return int64[B, K] starts, uniform over all at which the span fits, the last one included."""
    room = np.maximum(counts - spans, 0)[:, None]
    starts: NDArray[np.int64] = (uniforms * (room + 1)).astype(np.int64)
    return starts


def start_evenly(counts: Counts, spans: NDArray[np.int64], clips: int) -> NDArray[np.int64]:
    """Return int64[B, K] starts, evenly spaced from the first possible one to the last; one is in the middle."""
    room = np.maximum(counts - spans, 0)[:, None]
    parts = np.arange(clips) / (clips - 1) if clips > 1 else np.array([0.5])
    starts: NDArray[np.int64] = np.rint(room * parts).astype(np.int64)
    return starts


def start_one_after_another(
    frames: int, strides: NDArray[np.float64], clips: int
) -> NDArray[np.int64]:
    """Return int64[B, K] starts: the first is frame 0, and each clip begins where the one before it ends."""
    return count_offsets(clips, frames * strides)


def jitter_offsets(
    offsets: NDArray[np.int64], strides: NDArray[np.float64], uniforms: NDArray[np.float64]
) -> Frames:
    """Return int64[B, K, T] offsets, each moved by less than a stride, from `uniforms` float64[B, K, T]."""
    moves = np.floor(uniforms * np.maximum(strides, 1)[:, None, None]).astype(np.int64)
    return offsets[:, None, :] + moves


def spread_over_video(counts: Counts, frames: int, places: NDArray[np.float64]) -> Frames:
    """Return a frame from each of T equal segments of a video, at `places` float64[B, K, T] in [0, 1) of it."""
    found = ((np.arange(frames) + places) * (counts[:, None, None] / frames)).astype(np.int64)
    return np.minimum(found, counts[:, None, None] - 1)


def find_short(frames: Frames, counts: Counts) -> NDArray[np.bool_]:
    """Return which videos end before one of their clips does."""
    ends: NDArray[np.int64] = frames.max(axis=(1, 2))
    return ends >= counts


def repeat_last(frames: Frames, counts: Counts) -> Frames:
    """Return clips whose frames beyond the end of their video are their last frame within it.

    A clip that begins beyond the end shows the last frame of the video.
    """
    inside = frames < counts[:, None, None]
    last = np.where(inside, frames, -1).max(axis=2, keepdims=True)
    last = np.where(last < 0, counts[:, None, None] - 1, last)
    return np.where(inside, frames, last)


def loop_video(frames: Frames, counts: Counts) -> Frames:
    """Return clips that continue with the first frame of their video after its last."""
    return frames % counts[:, None, None]


def count_starts_in_time(times: NDArray[np.float64], end: float, seconds: float) -> int:
    """Return at how many frames a clip can start whose last frame is shown `seconds` later; at least 1.

    The video shows a frame from its time on to the next one, and the last frame until `end`.
    """
    return max(int(np.searchsorted(times, end - seconds - _ROUNDING)), 1)


def show_in_time(
    times: NDArray[np.float64], end: float, moments: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the frames that a player shows at these moments; from `end` on, a frame beyond the last."""
    shown = np.searchsorted(times, moments + _ROUNDING, side="right") - 1
    return np.where(moments + _ROUNDING < end, shown, len(times)).astype(np.int64)
