"""The videos of the benchmarks: 60 mp4 of about two seconds, the same as JPEG frames, and small ones like Jester's."""

from __future__ import annotations

import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from PIL import Image

ARCHIVE = Path(__file__).resolve().parents[2] / "shared" / "data" / "videos.tar"
JESTER_SIZE, JESTER_QUALITY = (176, 100), 75
LONG_FRAMES = 300

Frames = list[Image.Image]


def unpack_videos(folder: Path) -> Path:
    """Return a folder of classes below `folder` with the 60 mp4."""
    if not ARCHIVE.exists():
        sys.exit(f"needs {ARCHIVE.name} in ../shared/data")
    root = folder / "videos"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    for extra in ("LICENSE", "README.txt"):
        (root / extra).unlink()
    return root


def copy_videos(videos: Path, folder: Path, repeats: int) -> Path:
    """Return `folder`, in which each of `videos` is in `repeats` files."""
    for video in sorted(videos.rglob("*.mp4")):
        for copy in range(repeats):
            place = folder / video.parent.name / f"{video.stem}_{copy}.mp4"
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(video, place)
    return folder


def decode(video: Path) -> Frames:
    import av

    with av.open(video) as container:
        return [frame.to_image() for frame in container.decode(video=0)]


def keep_size(frames: Frames, _number: int) -> Frames:
    return frames


def resize_short(frames: Frames, _number: int, side: int = 256) -> Frames:
    """Resize so that the shorter side has 256 pixels, as datasets of frames usually have."""
    width, height = frames[0].size
    scale = side / min(width, height)
    size = round(width * scale), round(height * scale)
    return [frame.resize(size, Image.Resampling.BILINEAR) for frame in frames]


def lengthen(frames: Frames, number: int) -> Frames:
    """Play a video forwards and backwards until it has as many frames as ten seconds at 30 fps."""
    small = resize_short(frames, number)
    return list(islice(cycle([*small, *small[-2:0:-1]]), LONG_FRAMES))


def imitate_jester(frames: Frames, number: int) -> Frames:
    """Take 36 to 40 frames, spread over the video, of 176 x 100 pixels."""
    places = np.linspace(0, len(frames) - 1, 36 + number % 5).round().astype(int)
    return [frames[i].resize(JESTER_SIZE, Image.Resampling.BILINEAR) for i in places]


def write_frames(
    videos: Path,
    folder: Path,
    change: Callable[[Frames, int], Frames],
    quality: int,
    repeats: int = 1,
    count: int | None = None,
) -> Path:
    """Write videos as folders of JPEG frames with a listing `id;label`, as 20BN publishes them; return the listing.

    Args:
        videos: A folder of classes with mp4 files.
        folder: What to create.
        change: Returns the frames to write, of all frames of a video and its number.
        quality: Quality of the JPEGs.
        repeats: Copies of each video.
        count: Videos to write before repeats. Default: all.
    """
    root = folder / "frames"
    files = sorted(videos.rglob("*.mp4"))[:count]
    write = partial(_write_video, root, change, quality, repeats)
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(write, files, range(len(files))))
    names = [path.parent.name for path in files]
    rows = [
        f"{number * repeats + copy};{name}\n"
        for number, name in enumerate(names)
        for copy in range(repeats)
    ]
    (folder / "labels.csv").write_text("".join(f"{name}\n" for name in sorted(set(names))))
    listing = folder / "videos.csv"
    listing.write_text("".join(rows))
    return listing


def _write_video(
    root: Path,
    change: Callable[[Frames, int], Frames],
    quality: int,
    repeats: int,
    video: Path,
    number: int,
) -> None:
    first = root / str(number * repeats)
    first.mkdir(parents=True)
    for place, frame in enumerate(change(decode(video), number), 1):
        frame.save(first / f"{place:05}.jpg", quality=quality)
    for copy in range(1, repeats):
        shutil.copytree(first, root / str(number * repeats + copy))


def list_files(path: Path) -> Iterator[Path]:
    return (found for found in sorted(path.rglob("*")) if found.is_file())


def measure_bytes(path: Path) -> int:
    return sum(found.stat().st_size for found in list_files(path))
