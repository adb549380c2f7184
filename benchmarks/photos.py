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


def read_photos(path: Path, count: int) -> list[bytes]:
    """Return `count` photos, spread evenly over a tar."""
    with tarfile.open(path) as tar:
        members = [m for m in tar if m.isfile() and m.name.lower().endswith((".jpg", ".jpeg"))]
        chosen = members[:: max(1, len(members) // count)][:count]
        return [tar.extractfile(member).read() for member in chosen]  # type: ignore[union-attr]


def draw_box(
    rng: Any, width: int, height: int, scale: tuple[float, float] = (0.08, 1)
) -> tuple[int, int, int, int]:
    """Draw a RandomResizedCrop with torchvision's defaults; the whole image if ten tries fail.

    Returns:
        Left, top, width and height.
    """
    for _ in range(10):
        area = width * height * rng.uniform(*scale)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = rng.random() * (width - w + 1), rng.random() * (height - h + 1)
            return int(left), int(top), w, h
    return 0, 0, width, height
