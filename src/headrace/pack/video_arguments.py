"""The arguments of a pack that are for video files: what they mean together, and where they do not apply."""

from __future__ import annotations

from headrace.formats.source import Source
from headrace.formats.video_files import VideoFiles
from headrace.formats.video_options import DEFAULT_QUALITY, VideoOptions
from headrace.pack.shrink_images import Shrink


def choose_video_options(
    fps: float | None, shrink: Shrink | None, quality: int | None
) -> VideoOptions:
    """Return how frames are made. ValueError if an argument is out of range."""
    if quality is None:
        quality = DEFAULT_QUALITY if shrink is None else shrink.quality
    if shrink is None:
        return VideoOptions(fps, quality=quality)
    return VideoOptions(fps, shrink.short, shrink.longest, quality)


def check_video_options(source: Source, fps: float | None, quality: int | None) -> None:
    """Raise ValueError if an argument for video files is given for something else."""
    if isinstance(source, VideoFiles):
        expected = (fps or source.options.fps, quality or source.options.quality)
        if expected != (source.options.fps, source.options.quality):
            raise ValueError(
                "fps and quality belong to a source that is not open yet; pass its path instead"
            )
        return
    for name, value in (("fps", fps), ("quality", quality)):
        if value is not None:
            raise ValueError(
                f"{name} is {value!r}, which applies to video files (format 'videos'), and the source has none; omit it"
            )
