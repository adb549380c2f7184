"""The real photos that the benchmarks run on, and the boxes that they are cropped to."""

from __future__ import annotations

import math
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).resolve().parents[2] / "shared" / "data" / "imagenet-sample.tar"


def unpack_photos(folder: Path, repeats: int = 1) -> Path:
    """An image folder below `folder` with the 600 photos, each `repeats` times as a file of its own."""
    if not ARCHIVE.exists():
        sys.exit(f"needs {ARCHIVE.name} in ../shared/data")
    root = folder / "photos"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    (folder / "imagenet-sample").rename(root)
    for photo in [path for path in root.rglob("*") if path.is_file()]:
        for copy in range(1, repeats):
            shutil.copyfile(photo, photo.with_name(f"{photo.stem}_{copy}{photo.suffix}"))
    return root


def draw_box(rng: Any, width: int, height: int) -> tuple[int, int, int, int]:
    """RandomResizedCrop with torchvision's defaults, as left, top, width, height; all of it if ten tries fail."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = rng.random() * (width - w + 1), rng.random() * (height - h + 1)
            return int(left), int(top), w, h
    return 0, 0, width, height
