"""The real photos that the benchmarks run on: the sample archive in ../shared/data, unpacked and repeated."""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

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
