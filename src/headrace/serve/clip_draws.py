"""The clips of an epoch: which frames each step shows. Any thread can ask for any step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.plan import EpochPlan
from headrace.read.columns import Columns
from headrace.read.frames import VideoFrames
from headrace.read.reading import RecentSteps
from headrace.read.table import Table
from headrace.recipe.clip import Clip
from headrace.recipe.randomness import Randomness

_SMALL_VIDEO = 256 << 10
"""Larger videos are read one by one: a window of them would hold too few to be well mixed."""
_COVERED = 1 / 1.3
"""The share of videos that clips must cover for whole videos to be read."""


class StepClips(NamedTuple):
    """The clips of a step: `frames` int64[B, K, T], and which videos are too short for them."""

    frames: NDArray[np.int64]
    short: NDArray[np.bool_]


class ClipDraws:
    """Draws the clips of each step of an epoch, and keeps those of the most recent steps."""

    def __init__(
        self, clip: Clip, videos: VideoFrames, plan: EpochPlan, seed: int, epoch: int
    ) -> None:
        self.clip, self._videos = clip, videos
        self._plan, self._seed, self._epoch = plan, seed, epoch
        self._steps = RecentSteps[StepClips]()

    def find(self, number: int) -> StepClips:
        """Return the clips of a step."""
        return self._steps.find(number, self._draw)

    def find_frames(self, number: int) -> NDArray[np.int64]:
        """Return the frames int64[B, K, T] of a step."""
        return self.find(number).frames

    def _draw(self, number: int) -> StepClips:
        step, videos = self._plan.step(number), self._videos
        rows = step.rows
        counts = np.maximum(videos.counts[rows], 1)  # a damaged video has none, and is not rendered
        randomness = Randomness(self._seed, self._epoch, step.draws)
        frames, short = self.clip.draw(
            randomness, counts, videos.rates[rows], videos.take_times(rows)
        )
        return StepClips(frames, short)


def check_rates(table: Table, clip: Clip) -> None:
    """Raise ValueError if a clip has a rate, but a video has none."""
    videos = table.columns.frames
    if clip.fps is None or videos is None:
        return
    unknown = np.flatnonzero(np.isnan(videos.rates) & (videos.counts > 0))
    if len(unknown):
        raise ValueError(
            f"{clip}: the frame rate of {len(unknown)} videos is not known, such as {table.name_row(int(unknown[0]))!r}; "
            "give a step, or pack the videos with --fps"
        )


def reads_spans(columns: Columns, clip: Clip) -> bool:
    """Return whether the clips of videos are read one by one, instead of whole videos in runs.

    It depends on the data and the clips alone, since it decides how an epoch is shuffled.
    """
    videos, sizes = columns.frames, columns.image.size
    total = int(sizes.sum())
    if videos is None or not total:
        return False
    if total > _SMALL_VIDEO * len(sizes):
        return True
    counts = np.maximum(videos.counts, 1)
    covered = np.minimum(clip.measure_spans(counts, videos.rates) * clip.clips, counts) / counts
    return float((covered * sizes).sum()) < _COVERED * total
