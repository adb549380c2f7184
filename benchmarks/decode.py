"""Decoding alone, one thread, CPU time: Penstock against libjpeg-turbo (simplejpeg) and OpenCV.

    pip install -r benchmarks/requirements.txt
    python benchmarks/decode.py [FOLDER_OR_TAR] [--rounds 5]

Every round runs all candidates one after the other over all photos; the best round counts, so that
what else the machine does hits all alike. Boxes are those of RandomResizedCrop(scale=(0.08, 1)).
"""

from __future__ import annotations

import argparse
import math
import platform
import random
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import simplejpeg
from photos import ARCHIVE, draw_box

from penstock import _core

Box = tuple[int, int, int, int]


def load_photos(path: Path) -> list[bytes]:
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if f.suffix.lower() in (".jpg", ".jpeg"))
        return [f.read_bytes() for f in files]
    with tarfile.open(path) as tar:
        return [tar.extractfile(m).read() for m in tar if m.isfile()]  # type: ignore[union-attr]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("photos", nargs="?", type=Path, default=ARCHIVE)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    photos = load_photos(arguments.photos)
    sizes = [simplejpeg.decode_jpeg_header(data)[:2] for data in photos]
    whole: list[Box] = [(0, 0, width, height) for height, width in sizes]
    rng = random.Random(0)
    crops = [draw_box(rng, width, height) for height, width in sizes]
    seeks = [_core.build_seek(data)[1] for data in photos]
    none = [b""] * len(photos)
    canvas = np.empty(max(h * w for h, w in sizes) * 3, np.uint8)
    stages: dict[str, list[tuple[int, int]]] = {}

    def turbo() -> None:
        for data, (h, w) in zip(photos, sizes, strict=True):
            simplejpeg.decode_jpeg(data, "RGB", buffer=canvas[: h * w * 3])

    def opencv() -> None:
        for data in photos:
            cv2.imdecode(
                np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
            )

    def penstock(name: str, boxes: list[Box], tables: list[bytes]) -> Callable[[], None]:
        def run() -> None:
            stages.setdefault(name, []).append(_core.profile_jpeg(photos, boxes, tables))

        return run

    def build() -> None:
        for data in photos:
            _core.build_seek(data)

    candidates = {
        "libjpeg-turbo, whole": turbo,
        "OpenCV, whole": opencv,
        "build_seek": build,
    }
    for name, boxes, tables in [
        ("whole", whole, none),
        ("whole, seek table", whole, seeks),
        ("crop", crops, none),
        ("crop, seek table", crops, seeks),
    ]:
        candidates[f"penstock, {name}"] = penstock(f"penstock, {name}", boxes, tables)

    cv2.setNumThreads(1)
    best = dict.fromkeys(candidates, math.inf)
    for _ in range(arguments.rounds):
        for name, run in candidates.items():
            begin = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - begin)

    scale = 1000 / len(photos)
    share = sum(w * h for _, _, w, h in crops) / sum(w * h for _, _, w, h in whole)
    table_share = sum(map(len, seeks)) / sum(map(len, photos))
    print(
        f"{len(photos)} photos, {platform.processor() or platform.machine()}, one thread, CPU time"
    )
    print(
        f"crops cover {share:.0%} of the pixels, seek tables take {table_share:.2%} of the bytes\n"
    )
    print(f"{'ms an image':28}{'total':>8}{'entropy':>9}{'pixels':>8}{'speed':>8}")
    for name, seconds in best.items():
        row = f"{name:28}{seconds * scale:8.3f}"
        if name in stages:
            # Measured by the wall clock, so only their shares count.
            entropy, pixels = (min(column) for column in zip(*stages[name], strict=True))
            part = seconds * scale / (entropy + pixels)
            row += f"{entropy * part:9.3f}{pixels * part:8.3f}"
        else:
            row += " " * 17
        print(row + f"{best['libjpeg-turbo, whole'] / seconds:7.2f}x")


if __name__ == "__main__":
    main()
