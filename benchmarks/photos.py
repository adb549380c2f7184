"""The photos of the benchmarks, and the boxes that they are cropped to."""

from __future__ import annotations

import math
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).resolve().parents[2] / "shared" / "data" / "imagenet-sample.tar"


def unpack_photos(folder: Path, repeats: int = 1) -> Path:
    """Return an image folder below `folder` with the 600 photos, each in `repeats` files."""
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
    """Draw a RandomResizedCrop with torchvision's defaults; the whole image if ten tries fail.

    Returns:
        Left, top, width and height.
    """
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = rng.random() * (width - w + 1), rng.random() * (height - h + 1)
            return int(left), int(top), w, h
    return 0, 0, width, height
