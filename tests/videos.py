"""Small packed datasets of generated videos, and the slow twin of what a loader makes of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from headrace import Flow, Sample
from images import encode

KINDS: tuple[dict[str, Any], ...] = (
    {"subsampling": "4:2:0"},
    {"subsampling": "4:2:2"},
    {"subsampling": "4:4:4"},
    {"mode": "L"},
)


def make_video(number: int, frames: int, size: tuple[int, int] = (60, 80), **more: Any) -> Sample:
    """A video of generated JPEG frames; `more` goes to Sample."""
    kind = dict(KINDS[number % len(KINDS)])
    pictures = [encode(*size, seed=1000 * number + k, **dict(kind)) for k in range(frames)]
    return join_frames(f"video{number:03}", pictures, number % 3, **more)


def join_frames(key: str, frames: Sequence[bytes], label: int | None, **more: Any) -> Sample:
    """A video of these encoded frames."""
    return Sample(
        key, {"mjpg": b"".join(frames)}, label, frames={"mjpg": [len(f) for f in frames]}, **more
    )


def save_videos(path: Path, samples: Sequence[Sample], **options: Any) -> Path:
    Flow.of(samples).save(path, **options)
    return path


def decode_frame(sample: Sample, frame: int) -> Image.Image:
    """A frame as Pillow decodes it."""
    return Image.open(io.BytesIO(sample.split_frames()[frame])).convert("RGB")


def render_frame(
    sample: Sample, frame: int, box: Sequence[int], size: tuple[int, int], flip: bool
) -> np.ndarray:
    """A frame as Pillow crops it to (left, top, width, height), resizes it to (height, width), and mirrors it."""
    left, top, width, height = (int(n) for n in box)
    image = decode_frame(sample, frame).crop((left, top, left + width, top + height))
    pixels = np.asarray(image.resize((size[1], size[0]), Image.Resampling.BILINEAR))
    return pixels[:, ::-1] if flip else pixels
