"""How the frames of a video file are made: at which rate, size and JPEG quality."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from headrace.arguments import keep_integers

DEFAULT_QUALITY = 90


@dataclass(frozen=True)
class VideoOptions:
    """Resample to `fps`, shrink to at most `short` and `longest` pixels, encode with `quality`.

    Without `fps` every frame is kept. Frames only ever become smaller.
    """

    fps: float | None = None
    short: int | None = None
    longest: int | None = None
    quality: int = DEFAULT_QUALITY

    def __post_init__(self) -> None:
        keep_integers(self, "short", "longest", "quality")
        if self.fps is not None and not 0 < self.fps <= 1000:
            raise ValueError(f"fps is {self.fps}; it must be above 0 and at most 1000")
        for name in ("short", "longest"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1 pixel")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality is {self.quality}; it must be from 1 to 100")

    @property
    def rate(self) -> Fraction | None:
        """The exact number of frames per second that `fps` spells: 29.97 is 2997/100."""
        return None if self.fps is None else Fraction(str(self.fps))

    def fit_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the size that a frame of this size is shrunk to."""
        small, large = min(width, height), max(width, height)
        scale = min(1.0, (self.short or small) / small, (self.longest or large) / large)
        if scale == 1.0:
            return width, height
        return max(1, round(width * scale)), max(1, round(height * scale))

    def estimate_frame(self, width: int, height: int) -> float:
        """Return about how many bytes a frame takes as a JPEG, from nothing but its size."""
        pixels = math.prod(self.fit_size(width, height))
        return 600 + pixels * _BYTES_PER_PIXEL * _relative_size(self.quality)


_BYTES_PER_PIXEL = 0.22  # of quality 90 and 4:2:0, the median of real clips; from 0.1 to 0.45


def _relative_size(quality: int) -> float:
    """Return the size of a JPEG relative to quality 90, interpolated between measured sizes."""
    known = ((1, 0.1), (50, 0.42), (75, 0.65), (85, 0.83), (90, 1.0), (95, 1.5), (100, 3.4))
    for (low, at_low), (high, at_high) in pairwise(known):
        if quality <= high:
            return at_low + (at_high - at_low) * (quality - low) / (high - low)
    raise AssertionError(quality)
