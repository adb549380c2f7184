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
_FPS, _SHORT, _QUALITY = 12, 256, 75


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
    expected, options = source.estimate_sizes(), source.options
    frames = [source.count_frames(row) for row in range(len(source.files))]
    other = _other_options(options)
    tried = _Measured()
    for row in _spread_rows(len(source.files)):
        if tried.seconds < _SECONDS:
            tried.add(source, row, [options, *other.values()])
    if not tried.expected:
        return None
    total = int(expected.sum())
    sizes = [int(total * size / tried.expected) for size in tried.sizes]
    decoded = sum(_count_decoded(source, row) for row in range(len(source.files)))
    seconds = decoded * tried.decoding + sum(frames) * tried.encoding
    return VideoEstimate(
        videos=len(source.files),
        frames=round(sum(frames)),
        source_bytes=int(source.sizes.sum()),
        bytes=sizes[0],
        seconds=seconds,
        other=_list_smaller(source, sizes, list(other)),
    )


def _other_options(options: VideoOptions) -> dict[str, VideoOptions]:
    """Return options to compare with, by their name on the command line."""
    other = {}
    if options.short is None or options.short > _SHORT:
        other[f"--resize-short {_SHORT}"] = replace(options, short=_SHORT)
    if options.quality > _QUALITY:
        other[f"--quality {_QUALITY}"] = replace(options, quality=_QUALITY)
    return other


def _list_smaller(source: VideoFiles, sizes: list[int], names: list[str]) -> dict[str, int]:
    now = sum(source.count_frames(row) for row in range(len(source.files)))
    slower = replace(source, options=replace(source.options, fps=_FPS))
    slower.__dict__["headers"] = source.headers
    then = sum(slower.count_frames(row) for row in range(len(source.files)))
    other = {
        f"--fps {_FPS}": int(sizes[0] * then / now),
        **dict(zip(names, sizes[1:], strict=True)),
    }
    return {name: size for name, size in other.items() if size < 0.98 * sizes[0]}


def _count_decoded(source: VideoFiles, row: int) -> float:
    """Return how many frames are decoded for a sample, whether they are taken or not."""
    header, taken = source.headers[row], source.count_frames(row)
    return taken * max(1.0, (header.fps or 0) / source.options.fps) if source.options.fps else taken


def _spread_rows(count: int) -> list[int]:
    return sorted({k * count // _VIDEOS for k in range(_VIDEOS)})


class _Measured:
    """Adds up what was measured on some videos."""

    def __init__(self) -> None:
        self.expected = 0.0
        """What the headers promise for the frames that were encoded, in bytes."""
        self.sizes: list[float] = []
        """Bytes of the same frames, for each of the options."""
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
        """Seconds to encode a frame with the first options."""
        return self._encoding / self.frames

    def add(self, source: VideoFiles, row: int, options: list[VideoOptions]) -> None:
        """Measure the first frames of a video; one that cannot be decoded is skipped."""
        began = time.perf_counter()
        try:
            frames = list(_decode_some(source, row))
        except SourceError:
            return
        decoded = time.perf_counter()
        sizes = [sum(len(encode_frame(frame, o)) for frame in frames) for o in options[:1]]
        self._encoding += time.perf_counter() - decoded
        self._decoding += decoded - began
        sizes += [sum(len(encode_frame(frame, o)) for frame in frames) for o in options[1:]]
        self.sizes = [a + b for a, b in zip(self.sizes or [0.0] * len(sizes), sizes, strict=True)]
        for frame in frames:
            self.expected += options[0].estimate_frame(frame.width, frame.height)
        self.frames += len(frames)


def _decode_some(source: VideoFiles, row: int) -> Iterator[VideoFrame]:
    with source.open_file(row) as fd, open_video(fd) as (container, stream):
        for shown in islice(decode_frames(fd, container, stream), _FRAMES):
            yield shown.frame
