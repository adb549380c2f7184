"""How fast Headrace renders, beside the fastest decoders that pip installs.

    pip install -r benchmarks/requirements.txt
    python benchmarks/render.py [--photos TAR] [--count N] [--rounds N] [--json]

Every contender renders the same photos, one round after the other, so that whatever else the machine
does hits all alike. Figures are CPU time of one thread, the median of the rounds; a ratio is the
median of the ratios within a round. Only "two threads" is wall-clock time, over four times as many rounds.
"small" are whole images of 32x32 pixels, where the headers and tables take most of the time.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import statistics
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import PIL
import simplejpeg
from claims import print_claim
from photos import ARCHIVE, draw_box, read_photos
from PIL import Image

from headrace.render import build_seek, decode_jpeg, render_batch

SIZE = (224, 224)
SMALL = ARCHIVE.with_name("cifar10.tar.gz")
REPEATS = 8  # of a resize

Contender = Callable[[], object]
Times = dict[str, list[float]]


def read_first(path: Path, count: int) -> list[bytes]:
    """Return the first `count` images of a tar."""
    if not path.exists():
        sys.exit(f"needs {path.name} in ../shared/data")
    images: list[bytes] = []
    with tarfile.open(path) as tar:
        while len(images) < count and (member := tar.next()) is not None:
            if member.isfile():
                images.append(tar.extractfile(member).read())  # type: ignore[union-attr]
    return images


class Work:
    """The photos with their boxes and seek tables, and every contender as a method."""

    def __init__(self, photos: list[bytes]) -> None:
        rng = np.random.default_rng(0)
        self.photos = photos
        self.sizes = [Image.open(io.BytesIO(photo)).size for photo in photos]
        self.boxes = np.array([draw_box(rng, *size) for size in self.sizes])
        self.seeks = [build_seek(photo) for photo in photos]
        self.flips = rng.random(len(photos)) < 0.5
        self.crops = [self._crop(row) for row in range(len(photos))]
        self.out = np.empty((len(photos), *SIZE, 3), np.uint8)
        self.small = read_first(SMALL, len(photos))

    def decode(self, images: list[bytes]) -> None:
        for image in images:
            decode_jpeg(image)

    def decode_simplejpeg(self, images: list[bytes]) -> None:
        for image in images:
            simplejpeg.decode_jpeg(image)

    def build_seek(self) -> None:
        for photo in self.photos:
            build_seek(photo)

    def render(self, threads: int = 1) -> None:
        self._render(self.photos, self.seeks, threads)

    def render_without_seek(self) -> None:
        self._render(self.photos, None, 1)

    def resize(self) -> None:
        """Resize each crop several times: its pixels are in the cache, as after decoding."""
        for crop in self.crops:
            box = (0, 0, crop.shape[1], crop.shape[0])
            render_batch([crop] * REPEATS, [box] * REPEATS, SIZE, out=self.out[:REPEATS], threads=1)

    def resize_opencv(self) -> None:
        for crop in self.crops:
            for row in range(REPEATS):
                cv2.resize(crop, SIZE[::-1], self.out[row], interpolation=cv2.INTER_AREA)

    def _crop(self, row: int) -> np.ndarray:
        left, top, width, height = self.boxes[row]
        return decode_jpeg(self.photos[row])[top : top + height, left : left + width].copy()

    def _render(self, images: list[bytes], seeks: list[bytes] | None, threads: int) -> None:
        _, status = render_batch(
            images,
            self.boxes,
            SIZE,
            flips=self.flips,
            seeks=seeks,
            out=self.out,
            threads=threads,
        )
        assert not status.any()

    def decode_entropy(self) -> None:
        """All entropy-coded data and next to nothing else: the last pixel of every photo."""
        boxes = [(width - 1, height - 1, 1, 1) for width, height in self.sizes]
        _, status = render_batch(self.photos, boxes, (1, 1), threads=1)
        assert not status.any()

    def render_simplejpeg_opencv(self) -> None:
        for row, photo in enumerate(self.photos):
            left, top, width, height = self.boxes[row]
            crop = simplejpeg.decode_jpeg(photo)[top : top + height, left : left + width]
            cv2.resize(crop, SIZE[::-1], self.out[row], interpolation=cv2.INTER_AREA)
            if self.flips[row]:
                cv2.flip(self.out[row], 1, self.out[row])

    def render_pillow(self) -> None:
        for row, photo in enumerate(self.photos):
            left, top, width, height = self.boxes[row]
            crop = Image.open(io.BytesIO(photo)).crop((left, top, left + width, top + height))
            image = crop.convert("RGB").resize(SIZE[::-1], Image.Resampling.BILINEAR)
            if self.flips[row]:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            self.out[row] = image


def measure(
    contenders: dict[str, Contender], rounds: int, images: int, clock: Callable[[], float]
) -> Times:
    """Return milliseconds per image of every contender and round, after one warm-up round."""
    times: Times = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            start = clock()
            run()
            if number:
                times[name].append((clock() - start) * 1e3 / images)
    return times


def ratio(times: Times, slow: str, fast: str) -> float:
    pairs = zip(times[slow], times[fast], strict=True)
    return statistics.median(a / b for a, b in pairs)


def run(work: Work, rounds: int) -> dict[str, object]:
    cv2.setNumThreads(1)
    count = len(work.photos)
    cpu = measure(
        {
            "decode": lambda: work.decode(work.photos),
            "decode, simplejpeg": lambda: work.decode_simplejpeg(work.photos),
            "decode, small": lambda: work.decode(work.small),
            "decode, small, simplejpeg": lambda: work.decode_simplejpeg(work.small),
            "entropy decoding, whole image": work.decode_entropy,
            "build_seek": work.build_seek,
            "crop with seek tables": work.render,
            "crop without seek tables": work.render_without_seek,
            "crop, simplejpeg + OpenCV INTER_AREA": work.render_simplejpeg_opencv,
            "crop, Pillow": work.render_pillow,
            "resize alone": work.resize,
            "resize alone, OpenCV INTER_AREA": work.resize_opencv,
        },
        rounds,
        count,
        time.process_time,
    )
    wall = measure(
        {"one thread": work.render, "two threads": lambda: work.render(2)},
        4 * rounds,
        count,
        time.perf_counter,
    )
    ms = {name: statistics.median(values) for name, values in cpu.items()}
    for name in ("resize alone", "resize alone, OpenCV INTER_AREA"):
        ms[name] /= REPEATS
    ratios = {
        "whole image vs simplejpeg": (ratio(cpu, "decode, simplejpeg", "decode"), 1.8),
        "small image vs simplejpeg": (
            ratio(cpu, "decode, small, simplejpeg", "decode, small"),
            None,
        ),
        "crop vs simplejpeg + OpenCV": (
            ratio(cpu, "crop, simplejpeg + OpenCV INTER_AREA", "crop with seek tables"),
            4.0,
        ),
        "crop vs Pillow": (ratio(cpu, "crop, Pillow", "crop with seek tables"), 6.0),
        "two threads vs one, wall clock": (ratio(wall, "one thread", "two threads"), 1.9),
        "build_seek vs simplejpeg decode": (ratio(cpu, "decode, simplejpeg", "build_seek"), 1.0),
    }
    seek_bytes = sum(map(len, work.seeks)) / sum(map(len, work.photos))
    return {"ms_per_image": ms, "ratios": ratios, "seek_bytes": seek_bytes}


def describe(work: Work) -> str:
    width, height = np.mean(work.sizes, axis=0)
    kilobytes = statistics.mean(map(len, work.photos)) / 1000
    return (
        f"{len(work.photos)} photos, mean {width:.0f}x{height:.0f}, {kilobytes:.0f} kB; "
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"simplejpeg {simplejpeg.__version__}, OpenCV {cv2.__version__}, Pillow {PIL.__version__}"
    )


def print_tables(work: Work, result: dict) -> None:
    print(f"$ python {' '.join(sys.argv)}")
    print(describe(work), "\n")
    print(f"{'CPU time of one thread':<42}{'ms/image':>10}{'images/s':>10}")
    for name, ms in result["ms_per_image"].items():
        print(f"{name:<42}{ms:>10.3f}{1e3 / ms:>10.0f}")
    print()
    for name, (measured, aim) in result["ratios"].items():
        print_claim(name, measured, aim)
    print_claim("seek tables, of the image bytes", result["seek_bytes"], 0.015, "%", at_most=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--photos", type=Path, default=ARCHIVE, help="a tar of JPEGs")
    parser.add_argument("--count", type=int, default=200, help="how many of them")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    options = parser.parse_args()
    work = Work(read_photos(options.photos, options.count))
    result = run(work, options.rounds)
    if options.json:
        print(json.dumps({"setting": describe(work), **result}, indent=1))
    else:
        print_tables(work, result)


if __name__ == "__main__":
    main()
