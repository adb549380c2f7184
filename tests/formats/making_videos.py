"""Tiny video files, encoded by PyAV."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np


def draw_frames(
    count: int, width: int = 48, height: int = 32, *, seed: int = 0
) -> list[np.ndarray]:
    """RGB frames in which a square moves; the grey level of the background says the number of the frame."""
    rng = np.random.default_rng(seed)
    colour = rng.integers(0, 256, 3)
    frames = []
    for number in range(count):
        frame = np.full((height, width, 3), 16 + number * 7 % 224, np.uint8)
        left = number * 3 % (width - 8)
        frame[4:12, left : left + 8] = colour
        frames.append(frame)
    return frames


def write_video(
    path: Path,
    frames: Sequence[np.ndarray],
    *,
    fps: Fraction | int = 25,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    ticks: Sequence[int] | None = None,
    unit: Fraction | None = None,
    rotation: int = 0,
    audio: bool = False,
    options: dict[str, str] | None = None,
    colour: tuple[int, int] | None = None,
    muxing: dict[str, str] | None = None,
) -> Path:
    """Encode RGB frames. `ticks` are timestamps in units of `unit`; `colour` is (matrix, range) as FFmpeg numbers them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", options=muxing or {}) as container:
        stream: Any = container.add_stream(codec, rate=fps, options=options or {})
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = pix_fmt
        stream.codec_context.time_base = unit or 1 / Fraction(fps)
        if colour:
            stream.codec_context.colorspace, stream.codec_context.color_range = colour
        if rotation:
            stream.set_display_rotation(rotation)
        sound: Any = container.add_stream("aac", rate=8000) if audio else None
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            if colour:
                frame = frame.reformat(
                    format=pix_fmt, dst_colorspace=colour[0], dst_color_range=colour[1]
                )
                frame.colorspace, frame.color_range = colour
            frame.pts = number if ticks is None else ticks[number]
            frame.time_base = stream.codec_context.time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if sound:
            silence = av.AudioFrame.from_ndarray(
                np.zeros((1, 1024), np.float32), format="fltp", layout="mono"
            )
            silence.sample_rate = 8000
            container.mux(sound.encode(silence))
            container.mux(sound.encode(None))
    return path


def write_class_folders(root: Path, *, per_class: int = 3, frames: int = 10) -> Path:
    """Folders `cat` and `dog` of mp4 files."""
    for label, name in enumerate(("cat", "dog")):
        for number in range(per_class):
            count = frames + number
            pixels = draw_frames(count, 64 + 16 * number, 48, seed=label * 100 + number)
            write_video(root / name / f"{number:03d}.mp4", pixels)
    return root
