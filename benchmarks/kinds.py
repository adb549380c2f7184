"""How fast crops of every kind of file are rendered, beside Pillow and OpenCV.

    pip install -r benchmarks/requirements.txt
    python benchmarks/kinds.py [--photos TAR] [--count N] [--rounds N] [--only KIND ...]

The same photos, saved as each kind, are cropped and resized to 224x224 pixels, one contender after the other in every round, so
that whatever else the machine does hits all alike. Figures are CPU time of one thread, the median of the rounds; a
ratio is the median of the ratios within a round. Baseline JPEGs have their seek tables, as in a packed dataset; `recoded` are
the progressive ones after `pack --recode`. Kinds without a bar are decoded by Pillow in either case.
"""

from __future__ import annotations

import argparse
import io
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import PIL
from claims import print_claim
from photos import ARCHIVE, draw_box
from PIL import Image, ImageFile

from headrace.pack.recode_images import recode_image
from headrace.render import build_seek, render_batch
from render import measure, ratio, read_photos

SIZE = (224, 224)


@dataclass(frozen=True)
class Kind:
    """How a photo is saved as this kind, and how many times as fast as Pillow a crop should be."""

    save: Callable[[bytes], bytes]
    bar: float | None = None


def by_pillow(format: str, **options: object) -> Callable[[bytes], bytes]:
    """Return how Pillow saves a photo."""

    def save(photo: bytes) -> bytes:
        out = io.BytesIO()
        image = Image.open(io.BytesIO(photo))
        if format != "JPEG":
            image = image.convert("RGB")
        image.save(out, format, **options)
        return out.getvalue()

    return save


save_progressive = by_pillow("JPEG", quality="keep", progressive=True)


def save_recoded(photo: bytes) -> bytes:
    recoded = recode_image(save_progressive(photo))
    assert recoded is not None
    return recoded[1]


KINDS = {
    "baseline": Kind(by_pillow("JPEG", quality="keep"), 6.0),
    "progressive": Kind(save_progressive, 2.5),
    "recoded": Kind(save_recoded, 6.0),
    "png": Kind(by_pillow("PNG"), 1.8),
    "webp": Kind(by_pillow("WEBP", quality=90)),
    "avif": Kind(by_pillow("AVIF", speed=9)),
    "tiff": Kind(by_pillow("TIFF", compression="tiff_lzw")),
    "bmp": Kind(by_pillow("BMP")),
}


class Work:
    """Photos of one kind with their boxes, and every contender as a method."""

    def __init__(self, photos: list[bytes], kind: Kind) -> None:
        rng = np.random.default_rng(0)
        self.files = [kind.save(photo) for photo in photos]
        sizes = [Image.open(io.BytesIO(file)).size for file in self.files]
        self.boxes = np.array([draw_box(rng, *size) for size in sizes])
        self.seeks = [build_seek(file) for file in self.files]
        self.out = np.empty((len(photos), *SIZE, 3), np.uint8)

    def render(self) -> None:
        _, status = render_batch(
            self.files, self.boxes, SIZE, seeks=self.seeks, out=self.out, threads=1
        )
        assert not status.any()

    def render_pillow(self) -> None:
        for row, (left, top, width, height) in enumerate(self.boxes):
            image = Image.open(io.BytesIO(self.files[row])).convert("RGB")
            crop = image.crop((left, top, left + width, top + height))
            self.out[row] = crop.resize(SIZE[::-1], Image.Resampling.BILINEAR)

    def render_opencv(self) -> None:
        for row, (left, top, width, height) in enumerate(self.boxes):
            pixels = cv2.imdecode(np.frombuffer(self.files[row], np.uint8), cv2.IMREAD_COLOR_RGB)
            crop = pixels[top : top + height, left : left + width]
            cv2.resize(crop, SIZE[::-1], self.out[row], interpolation=cv2.INTER_AREA)


def compare(name: str, work: Work, rounds: int) -> float:
    """Print the row of a kind. Return how many times as fast as Pillow it is."""
    contenders = {
        "headrace": work.render,
        "Pillow": work.render_pillow,
    }
    if can_read(work.files[0]):
        contenders["OpenCV"] = work.render_opencv
    times = measure(contenders, rounds, len(work.files), time.process_time)
    ms = {contender: statistics.median(values) for contender, values in times.items()}
    kilobytes = statistics.mean(map(len, work.files)) / 1000
    ratios = {slow: ratio(times, slow, "headrace") for slow in contenders if slow != "headrace"}
    figures = "".join(f"{ms[contender]:>10.3f}" for contender in contenders)
    if "OpenCV" not in contenders:
        figures += f"{'-':>10}"
    print(f"{name:<14}{kilobytes:>8.0f}{figures}" + "".join(f"{r:>11.2f}" for r in ratios.values()))
    return ratios["Pillow"]


def can_read(file: bytes) -> bool:
    """Return whether OpenCV decodes a file."""
    return cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR_RGB) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--photos", type=Path, default=ARCHIVE, help="a tar of JPEGs")
    parser.add_argument("--count", type=int, default=100, help="how many of them")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND")
    options = parser.parse_args()
    if not options.photos.exists():
        sys.exit(f"needs {options.photos.name} in ../shared/data")
    cv2.setNumThreads(1)
    ImageFile.MAXBLOCK = 1 << 24  # Pillow fails to write files that need more than its buffer
    photos = read_photos(options.photos, options.count)
    print(f"$ python {' '.join(sys.argv)}")
    print(
        f"{len(photos)} photos; {platform.machine()}, Python {platform.python_version()}, "
        f"Pillow {PIL.__version__}, OpenCV {cv2.__version__}\n"
    )
    print(
        f"{'CPU ms/image':<14}{'kB':>8}{'headrace':>10}{'Pillow':>10}{'OpenCV':>10}"
        f"{'vs Pillow':>11}{'vs OpenCV':>11}"
    )
    ratios = {
        name: compare(name, Work(photos, KINDS[name]), options.rounds) for name in options.only
    }
    print()
    for name, measured in ratios.items():
        print_claim(f"crop of {name} files vs Pillow", measured, KINDS[name].bar)


if __name__ == "__main__":
    main()
