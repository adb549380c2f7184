"""Describes the videos of a dataset or a source: frames, seconds, rates and sizes, for `headrace info` and `pack`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.video_files import VideoFiles
from headrace.sample import is_video_field
from headrace.store.index_schema import field_names


def describe_videos(index: pa.Table) -> dict[str, Any]:
    """Return the entry `videos` of the first video field of an index; nothing if there is none."""
    field = next(filter(is_video_field, field_names(index.schema)), None)
    if field is None or index[f"{field}.frames"].null_count == len(index):
        return {}
    frames = pc.list_value_length(index[f"{field}.frames"])
    rates = index[f"{field}.fps"]
    seconds = pc.sum(pc.divide(pc.cast(frames, pa.float64()), rates)).as_py()
    varying = len(index) - index[f"{field}.times"].null_count
    return {
        "videos": _describe(
            pc.sum(frames).as_py(),
            seconds,
            rates.drop_null().to_pylist(),
            index[f"{field}.width"].drop_null().to_pylist(),
            index[f"{field}.height"].drop_null().to_pylist(),
            varying,
        )
    }


def describe_video_files(source: VideoFiles, rows: Sequence[int]) -> dict[str, Any]:
    """Return the entry `videos` of the files in these rows, by their headers."""
    headers = [source.read_header(row) for row in rows]
    known = [header for header in headers if header.width]
    seconds = sum(header.seconds for header in known)
    return {
        "videos": _describe(
            round(sum(header.seconds * (header.fps or 0) for header in known)),
            seconds,
            [header.fps for header in known if header.fps],
            [header.width for header in known],
            [header.height for header in known],
            None,
        )
    }


def _describe(
    frames: int,
    seconds: float | None,
    rates: list[float],
    widths: list[int],
    heights: list[int],
    varying: int | None,
) -> dict[str, Any]:
    content: dict[str, Any] = {
        "frames": frames,
        "seconds": None if seconds is None else round(seconds, 3),
        "fps": [min(rates), max(rates)] if rates else None,
        "width": [min(widths), max(widths)] if widths else None,
        "height": [min(heights), max(heights)] if heights else None,
    }
    return content if varying is None else {**content, "varying_rate": varying}


def format_videos(content: dict[str, Any] | None) -> str:
    """Return `3541 frames, 133.2 s, 20 to 30 fps, 480 x 288 to 1920 x 1080`; nothing for no videos."""
    if content is None:
        return ""
    parts = [f"{content['frames']} frames"]
    if content["seconds"] is not None:
        parts.append(f"{content['seconds']:.1f} s")
    if content["fps"] is not None:
        low, high = (f"{rate:.4g}" for rate in content["fps"])
        parts.append(f"{low} fps" if low == high else f"{low} to {high} fps")
    if content["width"] is not None:
        small, large = zip(content["width"], content["height"], strict=True)
        sizes = [f"{width} x {height}" for width, height in (small, large)]
        parts.append(sizes[0] if sizes[0] == sizes[1] else " to ".join(sizes))
    if content.get("varying_rate"):
        parts.append(f"{content['varying_rate']} with a varying rate")
    return ", ".join(parts)
