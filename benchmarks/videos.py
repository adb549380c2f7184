"""The videos of the benchmarks: 60 mp4 of about two seconds, the same as JPEG frames, and small ones like Jester's."""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from PIL import Image

import headrace

ARCHIVE = Path(__file__).resolve().parents[2] / "shared" / "data" / "videos.tar"
JESTER_SIZE, JESTER_QUALITY = (176, 100), 75

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


def shrink_video(short: int, video: Path, target: Path) -> None:
    """Encode a video again as H.264 with the defaults of x264, with so many pixels on the shorter side."""
    import av

    target.parent.mkdir(parents=True, exist_ok=True)
    with av.open(video) as source, av.open(target, "w") as container:
        stream = source.streams.video[0]
        scale = min(1.0, short / min(stream.width, stream.height))
        width, height = (2 * round(side * scale / 2) for side in (stream.width, stream.height))
        encoder = container.add_stream("libx264", rate=stream.average_rate)
        encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
        for number, frame in enumerate(source.decode(stream)):
            small = frame.reformat(width, height, "yuv420p")
            small.pts, small.time_base = number, 1 / stream.average_rate
            container.mux(encoder.encode(small))
        container.mux(encoder.encode(None))


def shrink_videos(videos: Path, folder: Path, short: int) -> Path:
    """Return `folder` with all videos as `shrink_video` makes them."""
    files = sorted(videos.rglob("*.mp4"))
    targets = [folder / path.relative_to(videos) for path in files]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(partial(shrink_video, short), files, targets))
    return folder


def imitate_jester(frames: Frames, number: int) -> Frames:
    """Take 36 to 40 frames, spread over the video, of 176 x 100 pixels."""
    places = np.linspace(0, len(frames) - 1, 36 + number % 5).round().astype(int)
    return [frames[i].resize(JESTER_SIZE, Image.Resampling.BILINEAR) for i in places]


def imitate_jesters(videos: Path, folder: Path, repeats: int) -> Path:
    """Write videos like Jester's, each in `repeats` copies, as 20BN publishes them; return the listing."""
    files = sorted(videos.rglob("*.mp4"))
    with ProcessPoolExecutor(2) as pool:
        found = pool.map(_encode_jester, files, range(len(files)))
        labelled = [(path.parent.name, frames) for path, frames in zip(files, found, strict=True)]
    return write_frames(labelled, folder, repeats)


def _encode_jester(video: Path, number: int) -> list[bytes]:
    return [encode(frame) for frame in imitate_jester(decode(video), number)]


def encode(frame: Image.Image) -> bytes:
    file = io.BytesIO()
    frame.save(file, "jpeg", quality=JESTER_QUALITY)
    return file.getvalue()


def copy_packed(packed: Path, folder: Path, repeats: int, least: int = 0) -> Path:
    """Write the frames of packed videos as files, each video in `repeats` copies; return the listing.

    A video is played forwards and backwards until it has at least so many frames.
    """
    source = headrace.open_source(packed)
    samples = [source.read(number) for number in range(len(source.names))]
    labelled = [(f"class {sample.label}", split_frames(sample, least)) for sample in samples]
    return write_frames(labelled, folder, repeats)


def split_frames(sample: headrace.Sample, least: int) -> list[bytes]:
    data, sizes = bytes(sample["mjpg"]), sample.frames["mjpg"]
    ends = np.cumsum(sizes).tolist()
    frames = [data[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    return list(islice(cycle([*frames, *frames[-2:0:-1]]), max(least, len(frames))))


def write_frames(videos: list[tuple[str, list[bytes]]], folder: Path, repeats: int) -> Path:
    """Write (label, frames) as folders of JPEG frames with a listing `id;label`; return the listing."""
    rows = []
    for number, (label, frames) in enumerate(videos):
        for copy in range(repeats):
            name = str(number * repeats + copy)
            (folder / "frames" / name).mkdir(parents=True)
            for place, frame in enumerate(frames, 1):
                (folder / "frames" / name / f"{place:05}.jpg").write_bytes(frame)
            rows.append(f"{name};{label}\n")
    labels = sorted({label for label, _ in videos})
    (folder / "labels.csv").write_text("".join(f"{label}\n" for label in labels))
    listing = folder / "videos.csv"
    listing.write_text("".join(rows))
    return listing


def list_files(path: Path) -> Iterator[Path]:
    return (found for found in sorted(path.rglob("*")) if found.is_file())


def measure_bytes(path: Path) -> int:
    return sum(found.stat().st_size for found in list_files(path))
