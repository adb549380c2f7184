"""Writes fuzz/corpus and fuzz/corpus_png: a small image of each kind, framed as fuzz_jpeg.cpp and fuzz_png.cpp read it.

Usage: .venv/bin/python fuzz/make_corpus.py   (needs jpegtran)
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import numpy as np

from headrace import _core
from images import encode
from jpegs import make_multiscan
from png_files import KINDS, PALETTE, draw_file
from progressive import draw_coefficients, draw_script, encode_progressive

WHOLE = bytes([0, 0, 255, 255])
INNER = bytes([90, 60, 128, 128])


def make_progressive(
    seed: int, sampling: list[tuple[int, int]], interleaved: bool, **options: int
) -> bytes:
    script = draw_script(random.Random(seed), len(sampling), interleaved)
    return encode_progressive(draw_coefficients(19, 37, sampling, seed), script, **options)


def make_arithmetic(data: bytes, *options: str) -> bytes:
    command = ["jpegtran", "-arithmetic", *options]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


PICTURES = {
    "444": encode(17, 25, subsampling="4:4:4"),
    "422": encode(17, 25, subsampling="4:2:2"),
    "420": encode(33, 40, subsampling="4:2:0", quality=95),
    "grey": encode(20, 30, mode="L"),
    "rgb": encode(12, 20, keep_rgb=True),
    "optimised": encode(24, 40, optimize=True, quality=98),
    "restart": encode(24, 40, restart_marker_blocks=2),
    "progressive": encode(16, 16, progressive=True),
    "progressive-420": encode(33, 40, progressive=True, subsampling="4:2:0", quality=95),
    "progressive-grey": encode(20, 30, mode="L", progressive=True),
    "progressive-restart": make_progressive(1, [(2, 1), (1, 1), (1, 1)], True, restart=2),
    "progressive-scripts": make_progressive(2, [(1, 2), (1, 1), (1, 1)], False, max_run=3),
    "progressive-steep": make_progressive(3, [(1, 1)] * 3, True, steep=True),
    "440-scans": make_multiscan(19, 21, [(1, 2), (1, 1), (1, 1)]),
    "411-scans": make_multiscan(19, 37, [(4, 1), (1, 1), (1, 1)], restart=2),
    "arithmetic": make_arithmetic(encode(33, 40, subsampling="4:2:0", quality=95)),
    "arithmetic-progressive": make_arithmetic(encode(20, 30), "-progressive", "-restart", "2B"),
    "seek": encode(64, 160, quality=98, subsampling="4:4:4"),
}


def main() -> None:
    corpus = HERE / "corpus"
    corpus.mkdir(exist_ok=True)
    for name, data in PICTURES.items():
        table = _core.build_seek(data)[1][:-4]
        frame = INNER if table or "restart" in name or "steep" in name else WHOLE
        (corpus / name).write_bytes(frame + len(table).to_bytes(2, "little") + table + data)
    make_png_corpus(HERE / "corpus_png")


def make_png_corpus(corpus: Path) -> None:
    corpus.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for number, (color, depth) in enumerate(KINDS):
        for interlaced in (False, True):
            size = (5, 80) if (color, depth) == (PALETTE, 8) else (7, 9)
            file = draw_file(rng, size, color, depth, interlaced)
            file.before = [each for each in file.before if each[0] != b"iCCP"]
            png = file.encode()
            how = bytes([number % 3, 50]) + len(png).to_bytes(2, "little")
            name = f"{color}-{depth}" + "-adam7" * interlaced
            frame = INNER if number % 2 else WHOLE
            (corpus / name).write_bytes(frame + how + png + file.raw())


if __name__ == "__main__":
    main()
