"""Writes fuzz/corpus: one small JPEG of each kind, framed as fuzz_jpeg.cpp reads it.

Usage: .venv/bin/python fuzz/make_corpus.py
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from headrace import _core
from images import encode
from jpegs import make_multiscan

WHOLE = bytes([0, 0, 255, 255])
INNER = bytes([90, 60, 128, 128])

PICTURES = {
    "444": encode(17, 25, subsampling="4:4:4"),
    "422": encode(17, 25, subsampling="4:2:2"),
    "420": encode(33, 40, subsampling="4:2:0", quality=95),
    "grey": encode(20, 30, mode="L"),
    "rgb": encode(12, 20, keep_rgb=True),
    "optimised": encode(24, 40, optimize=True, quality=98),
    "restart": encode(24, 40, restart_marker_blocks=2),
    "progressive": encode(16, 16, progressive=True),
    "440-scans": make_multiscan(19, 21, [(1, 2), (1, 1), (1, 1)]),
    "411-scans": make_multiscan(19, 37, [(4, 1), (1, 1), (1, 1)], restart=2),
    "seek": encode(64, 160, quality=98, subsampling="4:4:4"),
}


def main() -> None:
    corpus = HERE / "corpus"
    corpus.mkdir(exist_ok=True)
    for name, data in PICTURES.items():
        table = _core.build_seek(data)[1][:-4]
        frame = INNER if table or name == "restart" else WHOLE
        (corpus / name).write_bytes(frame + len(table).to_bytes(2, "little") + table + data)


if __name__ == "__main__":
    main()
