"""How fast PNG photos are rendered and masks are read, beside Pillow and OpenCV.

    python benchmarks/png.py [--data TAR] [--count N] [--rounds N]

The files are those of CamVid in ../shared/data: photos, and masks of the same scenes. Every contender gets
the same boxes of RandomResizedCrop(224). A photo is cropped and resized; a mask is cropped, its labels
unchanged. Figures are CPU time of one thread, the median of the rounds, in turns; a ratio is the median of
the ratios within a round. Below is what the libraries that inflate take for whole files; those that are not
installed are left out.
"""

from __future__ import annotations

import argparse
import importlib
import io
import platform
import statistics
import sys
import tarfile
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL
from claims import print_claim
from photos import ARCHIVE, draw_box
from PIL import Image

from headrace.render import png, render_batch
from headrace.render.decode import decode_labels

CAMVID = ARCHIVE.with_name("camvid.tar")
SIZE = (224, 224)
PHOTO_BAR, MASK_BAR = 1.8, 3.0

Box = tuple[int, int, int, int]
Contenders = dict[str, Callable[[], object]]
Times = dict[str, list[float]]


def read_files(path: Path, folder: str, count: int) -> list[bytes]:
    """Return the first `count` PNGs of a folder of the archive."""
    if not path.exists():
        sys.exit(f"needs {path.name} in ../shared/data")
    with tarfile.open(path) as tar:
        members = [m for m in tar if f"/{folder}/" in m.name and m.name.endswith(".png")]
        return [tar.extractfile(member).read() for member in members[:count]]  # type: ignore[union-attr]


def draw_boxes(files: list[bytes]) -> list[Box]:
    rng = np.random.default_rng(0)
    return [draw_box(rng, *Image.open(io.BytesIO(data)).size) for data in files]


def compare_photos(files: list[bytes]) -> Contenders:
    boxes = draw_boxes(files)
    out = np.empty((len(files), *SIZE, 3), np.uint8)

    def ours() -> None:
        assert not render_batch(files, boxes, SIZE, out=out, threads=1)[1].any()

    def pillow() -> None:
        for row, (left, top, width, height) in enumerate(boxes):
            image = Image.open(io.BytesIO(files[row]))
            crop = image.crop((left, top, left + width, top + height)).convert("RGB")
            out[row] = crop.resize(SIZE[::-1], Image.Resampling.BILINEAR)

    def opencv() -> None:
        for row, (left, top, width, height) in enumerate(boxes):
            image = cv2.imdecode(np.frombuffer(files[row], np.uint8), cv2.IMREAD_COLOR_RGB)
            crop = image[top : top + height, left : left + width]
            cv2.resize(crop, SIZE[::-1], out[row], interpolation=cv2.INTER_AREA)

    return {"Headrace": ours, "Pillow": pillow, "OpenCV": opencv}


def compare_masks(files: list[bytes]) -> Contenders:
    boxes = draw_boxes(files)

    def ours() -> None:
        for data, box in zip(files, boxes, strict=True):
            decode_labels(data, box)

    def pillow() -> None:
        for data, (left, top, width, height) in zip(files, boxes, strict=True):
            image = Image.open(io.BytesIO(data))
            np.array(image.crop((left, top, left + width, top + height)))

    def opencv() -> None:
        for data, (left, top, width, height) in zip(files, boxes, strict=True):
            image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
            image[top : top + height, left : left + width].copy()

    return {"Headrace": ours, "Pillow": pillow, "OpenCV": opencv}


def measure(contenders: Contenders, rounds: int, images: int) -> Times:
    """Return milliseconds per image of every contender and round, after one warm-up round."""
    times: Times = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            start = time.process_time()
            run()
            if number:
                times[name].append((time.process_time() - start) * 1e3 / images)
    return times


def ratio(times: Times, slow: str) -> float:
    return statistics.median(a / b for a, b in zip(times[slow], times["Headrace"], strict=True))


def print_png_table(data: Path, count: int, rounds: int) -> None:
    """Measure, and print a table and the claims."""
    cv2.setNumThreads(1)
    print(f"inflated by {png.decompressobj.__module__}; {count} photos and {count} masks")
    print(f"{'CPU ms per image':<24}{'Headrace':>10}{'Pillow':>10}{'OpenCV':>10}")
    measured = {}
    for name, folder, compare in (
        ("photo, crop, resized", "images", compare_photos),
        ("mask, crop of labels", "masks", compare_masks),
    ):
        files = read_files(data, folder, count)
        times = measured[name] = measure(compare(files), rounds, len(files))
        print(
            f"{name:<24}" + "".join(f"{statistics.median(each):10.3f}" for each in times.values())
        )
    print()
    photo, mask = measured.values()
    print_claim("PNG photo vs Pillow", ratio(photo, "Pillow"), PHOTO_BAR)
    print_claim("PNG photo vs OpenCV", ratio(photo, "OpenCV"), None)
    print_claim("PNG mask vs Pillow", ratio(mask, "Pillow"), MASK_BAR)
    print_claim("PNG mask vs OpenCV", ratio(mask, "OpenCV"), None)


def read_streams(files: list[bytes]) -> list[tuple[bytes, int]]:
    """Return the compressed data of each file, and its size when inflated."""
    streams = []
    for data in files:
        with png.borrow_reader() as reader:
            opened = reader.open(data)
            assert opened is not None
            stream = b"".join(data[start : start + size] for start, size in opened.spans)
        streams.append((stream, len(zlib.decompress(stream))))
    return streams


def find_inflaters() -> dict[str, Callable[[bytes, int], object]]:
    found: dict[str, Callable[[bytes, int], object]] = {}
    for name in ("isal.isal_zlib", "zlib_ng.zlib_ng", "zlib"):
        with suppress(ImportError):
            make = importlib.import_module(name).decompressobj
            found[name] = lambda data, size, make=make: make().decompress(data, size)
    with suppress(ImportError):  # inflates whole streams only
        found["deflate"] = importlib.import_module("deflate").zlib_decompress
    return found


def print_inflate_table(data: Path, count: int, rounds: int) -> None:
    """Measure the libraries that inflate, and print a table."""
    inflaters = find_inflaters()
    print(f"\n{'CPU ms per whole file':<24}" + "".join(f"{name:>17}" for name in inflaters))
    for name, folder in (("photo, inflated", "images"), ("mask, inflated", "masks")):
        streams = read_streams(read_files(data, folder, count))

        def run(inflate: Callable[[bytes, int], object], streams: Any = streams) -> None:
            for stream, size in streams:
                inflate(stream, size)

        jobs: Contenders = {key: partial(run, inflate) for key, inflate in inflaters.items()}
        times = measure(jobs, rounds, len(streams))
        print(
            f"{name:<24}" + "".join(f"{statistics.median(each):17.3f}" for each in times.values())
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=CAMVID)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    versions = f"Pillow {PIL.__version__}, OpenCV {cv2.__version__}, NumPy {np.__version__}"
    print(f"{platform.machine()}, Python {platform.python_version()}, {versions}")
    print_png_table(arguments.data, arguments.count, arguments.rounds)
    print_inflate_table(arguments.data, arguments.count, arguments.rounds)


if __name__ == "__main__":
    main()
