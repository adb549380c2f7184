"""Decodes a video file into JPEG frames: every frame, or those shown at a constant rate, of all of it or of a part.

Seconds count from the first frame that the file shows, whatever its timestamps begin with. Frames that the file says to
discard are not counted. A file that breaks is an error with the number of the frame, counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from headrace.errors import SourceError
from headrace.files.limits import check_size
from headrace.formats.codecs.container_length import find_missing
from headrace.formats.codecs.frame_times import (
    Shown,
    Taken,
    cut,
    find_rate,
    find_rounding,
    resample,
)
from headrace.formats.codecs.jpeg_frames import encode_frame
from headrace.formats.codecs.video_file import explain, import_av, open_video
from headrace.formats.video_options import VideoOptions
from headrace.work.cancellable import until_cancelled

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_DEFAULT_RATE = Fraction(25)  # of a stream that says neither a rate nor durations
_SEEKABLE = frozenset({"matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2"})
_WORTH_SEEKING = 2  # seconds


class Span(NamedTuple):
    """A part of a video in seconds; None means to its end."""

    start: float = 0.0
    end: float | None = None


class JpegVideo(NamedTuple):
    """The frames of a video, its rate if it is known, and their times if the rate varies."""

    frames: list[bytes]
    fps: float | None
    times: list[float] | None


def read_video(fd: int, options: VideoOptions, span: Span, limit: int) -> JpegVideo:
    """Return a video as JPEG frames.

    Args:
        fd: A descriptor of the open file.
        options: Rate, size and quality of the frames.
        span: The part to take.
        limit: The largest number of bytes that the frames may have.

    Raises:
        SourceError: The file is not a video, is damaged, or has more bytes than `limit` as frames.
    """
    frames: list[bytes] = []
    times: list[Fraction] = []
    size = 0
    with open_video(fd) as (container, stream):
        for time, count, frame in until_cancelled(
            _take_frames(fd, container, stream, options, span)
        ):
            encoded = encode_frame(frame, options)
            size += count * len(encoded)
            _check_frames(size, limit, len(frames))
            frames += [encoded] * count
            times.append(time)
        if not frames:
            raise SourceError(f"has no frames from {span.start:g} s on")
        if options.fps is not None:
            return JpegVideo(frames, options.fps, None)
        rounding = find_rounding(_unit(stream))
        return JpegVideo(frames, *find_rate(times, rounding, stream.average_rate))


def _check_frames(size: int, limit: int, done: int) -> None:
    try:
        check_size(size, limit)
    except SourceError as error:
        raise SourceError(
            f"its first {done + 1} frames are too large: {error}, or make them smaller with --fps, "
            "--resize-short or --quality"
        ) from None


def _take_frames(
    fd: int, container: InputContainer, stream: VideoStream, options: VideoOptions, span: Span
) -> Iterator[Taken[VideoFrame]]:
    """Yield the frames to pack, each with how often."""
    start, end = Fraction(str(span.start)), None if span.end is None else Fraction(str(span.end))
    shown, rounding = decode_frames(fd, container, stream, start), find_rounding(_unit(stream))
    if options.rate is None:
        return cut(shown, rounding, start, end)
    return resample(shown, options.rate, rounding, start, end)


def decode_frames(
    fd: int, container: InputContainer, stream: VideoStream, start: Fraction = Fraction(0)
) -> Iterator[Shown[VideoFrame]]:
    """Yield the frames of an open video with their times, beginning with one that is shown at `start` or earlier.

    Raises:
        SourceError: The file is damaged or incomplete; names the frame.
    """
    first, unit = stream.start_time, _unit(stream)
    if first is None or start < _WORTH_SEEKING or container.format.name not in _SEEKABLE:
        return _time_frames(_decode(fd, container, stream), stream, None)
    container.seek(int(start / unit) + first, stream=stream)
    frames = _decode(fd, container, stream)
    head = next(frames, None)
    if head is None or head.pts is None or (head.pts - first) * unit > start:
        container.seek(first, stream=stream)  # the index of the file was wrong
        return _time_frames(_decode(fd, container, stream), stream, first)
    return _time_frames(chain([head], frames), stream, first)


def _decode(fd: int, container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """Yield the frames of an open video; SourceError if they end before the video does."""
    number = 0
    try:
        for frame in container.decode(stream):
            if frame.is_corrupt:
                raise SourceError(f"broke at frame {number}: its data is damaged")
            yield frame
            number += 1
    except import_av().FFmpegError as error:
        raise SourceError(f"broke at frame {number}: {explain(error)}") from None
    if missing := find_missing(fd):
        raise SourceError(f"broke at frame {number}: the file lacks its last {missing} bytes")


def _time_frames(
    frames: Iterable[VideoFrame], stream: VideoStream, first: int | None
) -> Iterator[Shown[VideoFrame]]:
    """Yield the frames with their times, which grow from frame to frame also where timestamps do not.

    `first` is the timestamp of second zero; None: that of the first frame.
    """
    unit, usual = _unit(stream), 1 / (stream.average_rate or _DEFAULT_RATE)
    before: VideoFrame | None = None
    since, length = Fraction(0), usual
    for frame in frames:
        if first is None:
            first = frame.pts or 0
        if before is None:
            since = ((frame.pts or 0) - first) * unit
        else:
            until = since + length if frame.pts is None else (frame.pts - first) * unit
            until = until if until > since else since + length
            yield Shown(since, until, before)
            since = until
        before, length = frame, (frame.duration or 0) * unit or usual
    if before is not None:
        yield Shown(since, since + length, before)


def _unit(stream: VideoStream) -> Fraction:
    return stream.time_base or Fraction(1, 1000)
