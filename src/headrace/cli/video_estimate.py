"""Prints on stderr how large and how long a pack of video files becomes, before it begins."""

from __future__ import annotations

from headrace.cli.terminal import format_size, say
from headrace.pack.estimate_videos import VideoEstimate
from headrace.work.cores import count_cores


def print_estimate(estimate: VideoEstimate | None, workers: int | None) -> None:
    """Print an estimate, and what other options would make of it; nothing without one."""
    if estimate is None:
        return
    ratio = estimate.bytes / max(1, estimate.source_bytes)
    seconds = estimate.seconds / (workers or count_cores())
    say(
        f"estimate: {estimate.videos} videos, {estimate.frames} frames, about {format_size(estimate.bytes)} "
        f"({ratio:.1f} times their files), {_format_time(seconds)}"
    )
    for option, size in estimate.other.items():
        say(f"  with {option}: about {format_size(size)}")


def _format_time(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 120 else f"about {minutes / 60:.1f} h"
