"""Estimates how large and how long a pack of video files becomes, from a few frames of some of them.

Headers say how many frames there are; how many bytes a frame takes is measured on the first frames of a few videos,
spread over the source, within about a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from headrace.errors import SourceError
from headrace.formats.codecs.jpeg_frames import encode_frame
from headrace.formats.codecs.video_file import open_video
from headrace.formats.codecs.video_frames import decode_frames
from headrace.formats.video_files import VideoFiles
from headrace.formats.video_options import VideoOptions

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

_VIDEOS, _FRAMES, _SECONDS = 5, 6, 1.0
_FPS, _SHORT, _QUALITY = 12, 256, 75  # what estimates are also made for
_NOTICED = 0.98


@dataclass(frozen=True)
class VideoEstimate:
    """How many bytes and seconds of one thread a pack takes, and how many bytes with other options.

    `other` has the bytes by option, such as `--fps 12`, where that option would make the pack smaller.
    """

    videos: int
    frames: int
    source_bytes: int
    bytes: int
    seconds: float
    other: dict[str, int]


def estimate_videos(source: VideoFiles) -> VideoEstimate | None:
    """Return the estimate for a source; None if none of the videos that were tried can be decoded."""
    other = _other_options(source.options)
    source.estimate_sizes()  # reads the headers once, for all variants
    variants = [source, *(source.with_options(options) for options in other.values())]
    measured = _Measured([variant.options for variant in variants])
    for row in _spread_rows(len(source.files)):
        if measured.seconds < _SECONDS:
            measured.add(source, row)
    if not measured.frames:
        return None
    rows = range(len(source.files))
    frames = sum(map(source.count_frames, rows))
    decoded = sum(_count_decoded(source, row) for row in rows)
    sizes = [
        int(variant.estimate_sizes().sum() * ratio)
        for variant, ratio in zip(variants, measured.ratios, strict=True)
    ]
    return VideoEstimate(
        videos=len(source.files),
        frames=round(frames),
        source_bytes=int(source.sizes.sum()),
        bytes=sizes[0],
        seconds=decoded * measured.decoding + frames * measured.encoding,
        other={n: s for n, s in zip(other, sizes[1:], strict=True) if s < _NOTICED * sizes[0]},
    )


def _other_options(options: VideoOptions) -> dict[str, VideoOptions]:
    """Return options to compare with, by their name on the command line."""
    other = {f"--fps {_FPS}": replace(options, fps=_FPS)}
    if options.short is None or options.short > _SHORT:
        other[f"--resize-short {_SHORT}"] = replace(options, short=_SHORT)
    if options.quality > _QUALITY:
        other[f"--quality {_QUALITY}"] = replace(options, quality=_QUALITY)
    return other


def _count_decoded(source: VideoFiles, row: int) -> float:
    """Return how many frames are decoded for a sample, whether they are taken or not."""
    header, taken = source.headers[row], source.count_frames(row)
    return taken * max(1.0, (header.fps or 0) / source.options.fps) if source.options.fps else taken


def _spread_rows(count: int) -> list[int]:
    return sorted({k * count // _VIDEOS for k in range(_VIDEOS)})


class _Measured:
    """Adds up what was measured on some videos, for each of several options; times are of the first."""

    def __init__(self, options: list[VideoOptions]) -> None:
        self._options = options
        self._sizes, self._expected = [0.0] * len(options), [0.0] * len(options)
        self.frames, self._decoding, self._encoding = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        return self._decoding + self._encoding

    @property
    def decoding(self) -> float:
        """Seconds to decode a frame."""
        return self._decoding / self.frames

    @property
    def encoding(self) -> float:
        """Seconds to encode a frame."""
        return self._encoding / self.frames

    @property
    def ratios(self) -> list[float]:
        """How many times the bytes that headers promise the frames had."""
        return [a / b for a, b in zip(self._sizes, self._expected, strict=True)]

    def add(self, source: VideoFiles, row: int) -> None:
        """Measure the first frames of a video; one that cannot be decoded is skipped."""
        began = time.perf_counter()
        try:
            frames = list(_decode_some(source, row))
        except SourceError:
            return
        self._decoding += time.perf_counter() - began
        self.frames += len(frames)
        for k, options in enumerate(self._options):
            began = time.perf_counter()
            for frame in frames:
                self._sizes[k] += len(encode_frame(frame, options))
                self._expected[k] += options.estimate_frame(frame.width, frame.height)
            self._encoding += time.perf_counter() - began if k == 0 else 0.0


def _decode_some(source: VideoFiles, row: int) -> Iterator[VideoFrame]:
    with source.open_file(row) as fd, open_video(fd) as (container, stream):
        for shown in islice(decode_frames(fd, container, stream), _FRAMES):
            yield shown.frame
