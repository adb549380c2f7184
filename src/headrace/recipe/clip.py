"""Clips of a video: which of its frames a sample shows, drawn once per epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace import plan
from headrace.arguments import check_choice, check_count, keep_integers
from headrace.plan import Stream
from headrace.recipe.randomness import Randomness

At = Literal["random", "uniform", "segments", "start"]
Short = Literal["last", "loop", "error"]


@dataclass(frozen=True, repr=False)
class Clip:
    """Take clips of a video: the first step of a transform, which all further steps apply to.

        transform=[Clip(16, step=4), RandomResizedCrop(224), Normalize()]                      # training
        transform=[Clip(16, step=4, clips=10, at="uniform"), Resize(256), ThreeCrop(256), Normalize()]

    A batch is uint8[B, T, H, W, 3]; with several clips, uint8[B, K, T, H, W, 3]. `headrace.torch` gives
    [B, 3, T, H, W] and [B, K, 3, T, H, W]. `batch.clips` has the frames that were taken. All frames of a clip share
    their crop, flip and colours; each of several clips has its own.

    Args:
        frames: frames per clip, T.
        step: distance of the frames: 1 takes successive frames. A clip spans (frames - 1) * step + 1 frames.
        fps: frames per second to show instead of a `step`, whatever rate each video has.
        clips: clips per video, K.
        at: where clips start. `random`: anywhere they fit. `uniform`: evenly spaced, the first at the beginning and
            the last at the end; a single one in the middle. `start`: at the first frame, further clips one after
            the other. `segments`: the video is divided into `frames` equal segments, and a clip has a frame of each.
        short: what to do if the video ends before the clip. `last` repeats the last frame that was taken, `loop` goes
            on with the first frame of the video, `error` makes it a bad sample, as `on_error` of the loader says.
        jitter: move each frame by a random number of frames, less than `step`. With `segments`, take a random frame
            of each segment instead of its middle.
    """

    frames: int
    step: int = 1
    fps: float | None = None
    clips: int = 1
    at: At = "random"
    short: Short = "last"
    jitter: bool = False

    def __post_init__(self) -> None:
        keep_integers(self, "frames", "step", "clips")
        for name in ("frames", "step", "clips"):
            check_count(name, getattr(self, name), 1)
        check_choice("at", self.at, ("random", "uniform", "segments", "start"))
        check_choice("short", self.short, ("last", "loop", "error"))
        if self.fps is not None and not 0 < self.fps < float("inf"):
            raise ValueError(f"fps is {self.fps}; give a positive number of frames per second")
        if self.fps is not None and self.step != 1:
            raise ValueError(f"step is {self.step} and fps is {self.fps}; give one of them")
        if self.at == "segments" and (self.fps is not None or self.step != 1):
            raise ValueError("at='segments' takes a frame of each segment; leave step and fps out")

    def __repr__(self) -> str:
        """Return the options that are not the defaults."""
        given = [str(self.frames)]
        for option in fields(self)[1:]:
            value = getattr(self, option.name)
            given += [] if value == option.default else [f"{option.name}={value!r}"]
        return f"Clip({', '.join(given)})"

    def find_strides(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the distance of a clip's frames in each video, whose rates are NaN where they are unknown."""
        return np.full(len(rates), float(self.step)) if self.fps is None else rates / self.fps

    def measure_spans(
        self, counts: NDArray[np.int64], rates: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return how many frames of each video lie between the first frame of a clip and its last, both included."""
        if self.at == "segments":
            return counts
        spans = plan.measure_spans(self.frames, self.find_strides(rates), jitter=self.jitter)
        return np.minimum(spans, counts)

    def draw(
        self,
        randomness: Randomness,
        counts: NDArray[np.int64],
        rates: NDArray[np.float64],
        times: Mapping[int, NDArray[np.float64]],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the frames int64[B, K, T] of clips, and which videos are too short: a pure function.

        Args:
            randomness: The randomness of the batch.
            counts: The number of frames of each video.
            rates: Its frames per second, NaN if unknown.
            times: The seconds from the first frame to each frame, for the videos in which the rate varies.
        """
        uniforms = self._draw_uniforms(randomness)
        if self.at == "segments":
            frames = plan.spread_over_video(counts, self.frames, self._find_places(uniforms))
            return frames, np.zeros(len(counts), np.bool_)
        strides = self.find_strides(rates)
        starts = self._find_starts(counts, strides, uniforms[:, :, 0])
        offsets = plan.count_offsets(self.frames, strides)
        moved = offsets[:, None, :]
        if self.jitter:
            moved = plan.jitter_offsets(offsets, strides, uniforms[:, :, 1:])
        frames = starts[:, :, None] + moved
        if self.fps is not None:
            for row, seconds in times.items():
                frames[row] = self._show(
                    seconds, rates[row], uniforms[row], moved[row] - offsets[row]
                )
        short = plan.find_short(frames, counts)
        fill = plan.loop_video if self.short == "loop" else plan.repeat_last
        return fill(frames, counts), short & (self.short == "error")

    def _draw_uniforms(self, randomness: Randomness) -> NDArray[np.float64]:
        """Return [B, K, 1 + T]: a number for the start of each clip, and one for each of its frames if jittered."""
        each = 1 + self.frames * self.jitter
        if self.at != "random" and not self.jitter:
            return np.zeros((len(randomness.ids), self.clips, each))
        return randomness.uniforms(Stream.CLIP, self.clips * each).reshape(-1, self.clips, each)

    def _find_places(self, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return where in its segment each frame lies: at random, or evenly spaced over the clips."""
        if self.jitter:
            return uniforms[:, :, 1:]
        middle = (np.arange(self.clips) + 0.5) / self.clips
        return np.broadcast_to(middle[None, :, None], (len(uniforms), self.clips, self.frames))

    def _find_starts(
        self, counts: NDArray[np.int64], strides: NDArray[np.float64], uniforms: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        spans = plan.measure_spans(self.frames, strides, jitter=self.jitter)
        if self.at == "random":
            return plan.start_anywhere(counts, spans, uniforms)
        if self.at == "uniform":
            return plan.start_evenly(counts, spans, self.clips)
        return plan.start_one_after_another(self.frames, strides, self.clips)

    def _show(
        self,
        times: NDArray[np.float64],
        rate: float,
        uniforms: NDArray[np.float64],
        moves: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return int64[K, T]: the frames of one video that are shown at `fps`, although its own rate varies."""
        assert self.fps is not None
        end, seconds = times[-1] + 1 / rate, np.arange(self.frames) / self.fps
        if self.at == "start":
            begins = np.arange(self.clips) * self.frames / self.fps
        else:
            room = np.array([plan.count_starts_in_time(times, end, seconds[-1])])
            one = np.ones(1, np.int64)
            if self.at == "random":
                starts = plan.start_anywhere(room, one, uniforms[None, :, 0])[0]
            else:
                starts = plan.start_evenly(room, one, self.clips)[0]
            begins = times[starts]
        return plan.show_in_time(times, end, begins[:, None] + seconds) + moves


@dataclass(frozen=True)
class Shape:
    """What a sample consists of: clips of frames, each shown in one or three crops. An image is one picture.

    Args:
        clips: Clips per sample.
        crops: Crops per clip.
        frames: Frames per clip; None for an image.
    """

    clips: int = 1
    crops: int = 1
    frames: int | None = None

    @property
    def lead(self) -> tuple[int, ...]:
        """The axes of a batch between its samples and the pixels of a picture."""
        if self.frames is None:
            return ()
        views = self.clips * self.crops
        return (self.frames,) if views == 1 else (views, self.frames)

    @property
    def pictures(self) -> int:
        """Pictures per sample."""
        return self.clips * self.crops * (self.frames or 1)


IMAGES = Shape()
"""A sample is an image."""
