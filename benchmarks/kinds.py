"""How fast crops of every kind of file are rendered, beside Pillow and OpenCV.

    pip install -r benchmarks/requirements.txt
    python benchmarks/kinds.py [--photos TAR] [--count N] [--rounds N] [--only KIND ...]

The same photos, saved as each kind, are cropped and resized to 224x224 pixels, one contender after the other in every round, so
that whatever else the machine does hits all alike. Figures are CPU time of one thread, the median of the rounds; a
ratio is the median of the ratios within a round. Baseline JPEGs have their seek tables, as in a packed dataset.
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

from headrace.render import build_seek, render_batch
from render import measure, ratio, read_photos

SIZE = (224, 224)


@dataclass(frozen=True)
class Kind:
    """How Pillow saves a photo as this kind, and how many times as fast as Pillow a crop should be."""

    save: Callable[[Image.Image, io.BytesIO], None]
    bar: float


KINDS = {
    "baseline": Kind(lambda image, out: image.save(out, "JPEG", quality="keep"), 6.0),
    "progressive": Kind(
        lambda image, out: image.save(out, "JPEG", quality="keep", progressive=True), 2.5
    ),
}


class Work:
    """Photos of one kind with their boxes, and every contender as a method."""

    def __init__(self, photos: list[bytes], kind: Kind) -> None:
        rng = np.random.default_rng(0)
        self.files = [save(photo, kind) for photo in photos]
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


def save(photo: bytes, kind: Kind) -> bytes:
    out = io.BytesIO()
    kind.save(Image.open(io.BytesIO(photo)), out)
    return out.getvalue()


def compare(name: str, work: Work, rounds: int) -> float:
    """Print the row of a kind. Return how many times as fast as Pillow it is."""
    contenders = {
        "headrace": work.render,
        "Pillow": work.render_pillow,
        "OpenCV": work.render_opencv,
    }
    times = measure(contenders, rounds, len(work.files), time.process_time)
    ms = {contender: statistics.median(values) for contender, values in times.items()}
    kilobytes = statistics.mean(map(len, work.files)) / 1000
    pillow, opencv = (ratio(times, slow, "headrace") for slow in ("Pillow", "OpenCV"))
    figures = "".join(f"{ms[contender]:>10.3f}" for contender in contenders)
    print(f"{name:<14}{kilobytes:>8.0f}{figures}{pillow:>11.2f}{opencv:>11.2f}")
    return pillow


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
