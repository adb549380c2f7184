"""Opens video files with PyAV, which the extra `video` installs and which is imported on the first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.errors import MissingExtraError, SourceError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

# A file may be anything that FFmpeg reads, also a playlist that names other files: only containers of video are opened.
_OPTIONS = {
    "protocol_whitelist": "file",
    "format_whitelist": "mov,matroska,webm,avi,mpeg,mpegts,mpegvideo,h264,hevc,m4v",
}


class VideoHeader(NamedTuple):
    """What the header of a video file says, without decoding it. Zero and None: it does not say so."""

    codec: str
    width: int
    height: int
    seconds: float
    fps: float | None
    has_audio: bool


def import_av() -> Any:
    """Return the module `av`. Raise MissingExtraError if it is not installed."""
    try:
        import av
    except ImportError:
        raise MissingExtraError("av (PyAV), which decodes videos,", "video") from None
    return av


def list_versions() -> dict[str, str]:
    """Return the versions of what decides the bytes of decoded frames."""
    av = import_av()
    return {
        "av": av.__version__,
        "libavcodec": ".".join(map(str, av.library_versions["libavcodec"])),
    }


@contextmanager
def open_video(fd: int) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open the video in an open file, with its best video stream. Decoding uses one thread.

    Raises:
        SourceError: It is not a video, or its codec is not known.
    """
    av = import_av()
    # By descriptor: it is the file that was checked, and its name may be any bytes.
    try:
        container = av.open(f"/proc/self/fd/{fd}", metadata_errors="ignore", options=_OPTIONS)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise SourceError(f"not a video that can be opened: {explain(error)}") from None
    with container:
        stream = container.streams.best("video")
        if stream is None:
            raise SourceError("has no video stream")
        if stream.codec_context is None:
            raise SourceError("its codec is not known")
        stream.codec_context.thread_count = 1  # the packer is parallel over files
        yield container, stream


def explain(error: Exception) -> str:
    """Return the reason that FFmpeg gives, without the name of the file or function."""
    return str(getattr(error, "strerror", None) or error)


def read_video_header(fd: int) -> VideoHeader:
    """Return what the header of a video file says. SourceError if it is not a video."""
    with open_video(fd) as (container, stream):
        rate = stream.average_rate
        return VideoHeader(
            codec=stream.codec_context.name,
            width=stream.codec_context.width,
            height=stream.codec_context.height,
            seconds=_find_seconds(container, stream),
            fps=float(rate) if rate else None,
            has_audio=len(container.streams.audio) > 0,
        )


def _find_seconds(container: InputContainer, stream: VideoStream) -> float:
    if stream.duration is not None and stream.time_base is not None:
        return float(max(0, stream.duration) * stream.time_base)
    if container.duration is not None:
        return max(0, container.duration) / 1_000_000
    if stream.frames and stream.average_rate:
        return float(Fraction(stream.frames) / stream.average_rate)
    return 0.0
