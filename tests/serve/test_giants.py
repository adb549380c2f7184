"""Samples that take far longer than others do not stall these, and change no batch."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace import Loader
from headrace.read.columns import Columns
from headrace.recipe.clip import IMAGES
from headrace.recipe.core_recipe import Recipe
from headrace.recipe.geometry import Geometry
from headrace.render import Rendering
from headrace.serve import producer
from headrace.serve.renderer import Begun, Prepared, Renderer
from headrace.serve.steps_in_flight import count_steps
from headrace.transforms import RandomResizedCrop
from images import encode
from trees import make_folder

CROP = [RandomResizedCrop(24)]


def test_all_threads_have_work_while_the_first_step_waits_for_a_slow_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = Loader(make_folder(tmp_path, per_class=20), 2, transform=CROP, threads=2)
    all_prepared = threading.Event()
    begun: list[int] = []
    begun_before: list[int] = []

    def prepare(renderer: Renderer, number: int, *args: Any) -> Prepared:
        prepared = originals[0](renderer, number, *args)
        if number == len(loader) - 1:
            all_prepared.set()
        return prepared

    def begin(renderer: Renderer, prepared: Prepared) -> Begun:
        begun.append(prepared.number)
        return originals[1](renderer, prepared)

    def finish(rendering: Rendering) -> Any:
        if not begun_before:
            assert all_prepared.wait(60), "the steps behind a slow one are not even read"
        begun_before.append(len(begun))
        return originals[2](rendering)

    originals = Renderer.prepare, Renderer.begin, Rendering.finish_all
    monkeypatch.setattr(Renderer, "prepare", prepare)
    monkeypatch.setattr(Renderer, "begin", begin)
    monkeypatch.setattr(Rendering, "finish_all", finish)
    assert [batch.step for batch in loader] == list(range(30)) == begun
    assert begun_before[1] >= 29  # of 30: the last may still be on its way


@pytest.fixture(scope="module")
def giants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_folder(tmp_path_factory.mktemp("giants") / "in", per_class=25)
    for name in ("class0/003.jpg", "class1/011.jpg"):
        (root / name).write_bytes(encode(1100, 900, progressive=True))
    (root / "class2/024.png").write_bytes(encode(500, 600, format="PNG"))
    headrace.pack_dataset(root, root.parent / "out")
    return root.parent / "out"


def load(path: Path, batch_size: int, threads: int) -> list[tuple[list[int], bytes]]:
    loader = Loader(path, batch_size, shuffle=True, transform=CROP, threads=threads, seed=3)
    return [(batch.rows.tolist(), batch[0].tobytes()) for batch in loader]


@pytest.mark.parametrize("batch_size", [1, 6, 64])
def test_order_and_pixels_do_not_depend_on_the_steps_in_flight(
    giants: Path, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [load(giants, batch_size, threads) for threads in (1, 2, 7)]
    monkeypatch.setattr(producer, "count_steps", lambda *_: 2)
    assert found == [load(giants, batch_size, 1)] * 3


@cache
def read_columns(path: Path) -> Columns:
    return Loader(path, 1)._epochs.layout.columns


@pytest.mark.parametrize(
    ("threads", "batch_size", "steps"), [(2, 256, 2), (2, 64, 2), (2, 8, 12), (16, 64, 12)]
)
def test_small_batches_for_many_threads_have_more_steps_in_flight(
    giants: Path, threads: int, batch_size: int, steps: int
) -> None:
    recipe = Recipe(geometry=Geometry(size=(224, 224)))
    assert count_steps(threads, batch_size, recipe, IMAGES, read_columns(giants)) == steps


@given(st.integers(1, 64), st.integers(1, 512), st.integers(1, 4000) | st.none())
def test_memory_of_more_than_two_steps_is_bounded(
    giants: Path, threads: int, batch_size: int, side: int | None
) -> None:
    columns = read_columns(giants)
    size = None if side is None else (side, side)
    steps = count_steps(threads, batch_size, Recipe(geometry=Geometry(size=size)), IMAGES, columns)
    pixels = (columns.height * columns.width).mean() if side is None else side**2
    assert steps == 2 or steps * batch_size * int(3 * pixels) <= threads * 64 << 20
