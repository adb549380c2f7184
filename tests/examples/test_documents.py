"""The example of documents as users run it, and control points that hit what is drawn at them."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

import headrace
from stored import FIXTURES

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "documents.py"
EXAMPLE = runpy.run_path(str(SCRIPT))
EVERY, RADIUS = 10, 4
"""Of so many control points one has a dot, with this radius in pixels."""


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(SCRIPT), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_draws_documents_that_it_makes_itself(tmp_path: Path) -> None:
    pytest.importorskip("lmdb")
    output = run(tmp_path, "--count", "3", "-b", "2", "--size", "64")
    assert "packed 3 documents" in output and "d2.label  float32[2, 61, 61, 2]" in output
    with Image.open(tmp_path / "documents.png") as picture:
        assert picture.size == (4 * 64, 2 * 64)
        colours = np.asarray(picture)
    red = (colours == (220, 30, 30)).all(axis=2)
    assert red[:, :128].any() and not red[:, 128:].any()
    again = run(tmp_path, "documents-shards", "--count", "3", "-b", "2", "--size", "64")
    assert "packed" not in again


def test_several_databases_are_one_dataset(tmp_path: Path) -> None:
    for number, name in enumerate(("unified-doc/warp24", "unified-doc-merged/merged")):
        place = FIXTURES / f"{name}.lmdb"
        if not place.exists():
            pytest.skip(f"needs {name}.lmdb")
        shutil.copytree(place, tmp_path / f"warp{number}.lmdb")
    assert "packed 9 documents" in run(tmp_path, "*.lmdb", "--size", "32", "--out", "two.png")
    assert (tmp_path / "two.png").exists()


def make_dots(number: int) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield the records of a white page with a blue dot at every tenth control point; points of d1 and d2 differ."""
    rng = np.random.default_rng(number)
    for part in ("d1", "d2", "w1", "di"):
        ys, xs = np.linspace(10, 389, 61), np.linspace(10, 289, 61)
        points = np.stack(np.meshgrid(xs, ys), axis=2) + rng.uniform(-3, 3, 2)
        image = Image.new("RGB", (300, 400), "white")
        pen = ImageDraw.Draw(image)
        for x, y in points[::EVERY, ::EVERY].reshape(-1, 2).tolist():
            pen.ellipse((x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS), fill=(0, 0, 255))
        record = {"image": np.asarray(image)[..., ::-1]}
        yield (
            f"0_{number:04d}_{number}_{part}",
            record | ({"label": points} if part.startswith("d") and part != "di" else {}),
        )


@pytest.fixture
def dots(tmp_path: Path) -> headrace.Dataset:
    pytest.importorskip("lmdb")
    records = (record for number in range(6) for record in make_dots(number))
    source = EXAMPLE["write_database"](tmp_path / "dots.lmdb", records)
    headrace.pack_dataset(source, tmp_path / "packed")
    return headrace.open_dataset(tmp_path / "packed")


def read_hits(pixels: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return whether the pixels at the points inside of an image are blue and not white."""
    places = points.reshape(-1, 2).round().astype(int)
    height, width = pixels.shape[:2]
    inside = ((places >= 0) & (places < (width, height))).all(axis=1)
    x, y = places[inside].T
    colours: Any = pixels[y, x].astype(int)
    return colours[:, 2] - colours[:, 0] > 60


def test_control_points_hit_their_dots_after_the_transform(dots: headrace.Dataset) -> None:
    loader = EXAMPLE["make_loader"](dots, 3, 240, seed=1)
    on = between = 0
    for epoch in range(3):
        loader.set_epoch(epoch)
        for d1, first, d2, second, _, _ in loader:
            for pixels, points in zip((*d1, *d2), (*first, *second), strict=True):
                hits = read_hits(pixels, points[::EVERY, ::EVERY])
                misses = read_hits(pixels, points[EVERY // 2 :: EVERY, EVERY // 2 :: EVERY])
                assert hits.all() and not misses.any()
                on, between = on + len(hits), between + len(misses)
    assert on > 500 and between > 500


def test_dots_of_a_flipped_image_are_missed_by_points_that_were_not(dots: headrace.Dataset) -> None:
    """The test above can fail: points that a flip has left behind lie between the dots of most images."""
    loader = EXAMPLE["make_loader"](dots, 3, 240, seed=1)
    d1, first, *_ = next(iter(loader))
    found = [read_hits(p[:, ::-1], q[::EVERY, ::EVERY]) for p, q in zip(d1, first, strict=True)]
    assert not np.concatenate(found).all()
