"""Each move alone gives the floats of torchvision's v2 functions, for a ragged batch at once."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan import CropMove, FlipMove, Move, ResizeMove, move_boxes, move_points

torch = pytest.importorskip("torch")

SIDES = st.integers(1, 700)
Sizes = list[tuple[int, int]]


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.random.Generator, Sizes, np.ndarray]:
    """Sizes of images, and the sample that each of some points belongs to: some have none."""
    sizes = draw(st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=4))
    counts = draw(st.lists(st.integers(0, 5), min_size=len(sizes), max_size=len(sizes)))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return rng, sizes, np.repeat(np.arange(len(sizes)), counts)


def draw_targets(
    rng: np.random.Generator, sizes: Sizes, samples: np.ndarray, count: int
) -> np.ndarray:
    """`count` numbers per target, in and around its image; of boxes, some are degenerate or the wrong way round."""
    sides = np.array(sizes, np.float32)[samples, ::-1]
    targets = rng.uniform(-0.5, 1.5, (len(samples), count)) * np.tile(sides, count // 2)
    targets = np.where(rng.random(targets.shape) < 0.3, np.round(targets), targets)
    if count == 4:
        same = rng.random(len(samples)) < 0.2
        targets[same, 2:] = targets[same, :2]
    return targets.astype(np.float32)


def replay(
    torchvision: ModuleType,
    targets: np.ndarray,
    samples: np.ndarray,
    sizes: Sizes,
    do: Callable[[int, Any], Any],
) -> np.ndarray:
    """What torchvision makes of the targets, a sample at a time."""
    results = np.empty_like(targets)
    for i, size in enumerate(sizes):
        own = torch.from_numpy(targets[samples == i])
        if targets.shape[1] == 2:
            wrapped = torchvision.tv_tensors.KeyPoints(own, canvas_size=size)
        else:
            wrapped = torchvision.tv_tensors.BoundingBoxes(own, format="XYXY", canvas_size=size)
        results[samples == i] = do(i, wrapped).numpy()
    return results


def check(
    torchvision: ModuleType,
    batch: tuple[np.random.Generator, Sizes, np.ndarray],
    move: Move,
    do: Callable[[int, Any], Any],
) -> None:
    rng, sizes, samples = batch
    for count, function in ((2, move_points), (4, move_boxes)):
        targets = draw_targets(rng, sizes, samples, count)
        before = targets.copy()
        moved = function(targets, samples, [move])
        assert moved.dtype == np.float32 and moved.shape == targets.shape
        np.testing.assert_array_equal(moved, replay(torchvision, targets, samples, sizes, do))
        np.testing.assert_array_equal(targets, before)


@given(batches())
def test_a_crop(torchvision: ModuleType, batch: Any) -> None:
    rng, sizes, _ = batch
    left, top = rng.integers(-50, 300, (2, len(sizes)))
    height, width = rng.integers(1, 400, (2, len(sizes)))
    crop = torchvision.transforms.v2.functional.crop
    check(
        torchvision,
        batch,
        CropMove(left, top, height, width),
        lambda i, it: crop(it, *(int(v[i]) for v in (top, left, height, width))),
    )


@given(batches())
def test_a_crop_of_negative_offset_pads(torchvision: ModuleType, batch: Any) -> None:
    rng, sizes, _ = batch
    sides = rng.integers(0, 60, (4, len(sizes)))
    width = np.array(sizes)[:, 1] + sides[::2].sum(axis=0)
    height = np.array(sizes)[:, 0] + sides[1::2].sum(axis=0)
    pad = torchvision.transforms.v2.functional.pad
    move = CropMove(-sides[0], -sides[1], height, width)
    check(torchvision, batch, move, lambda i, it: pad(it, sides[:, i].tolist()))


@given(batches())
def test_a_resize(torchvision: ModuleType, batch: Any) -> None:
    rng, sizes, _ = batch
    old, new = np.array(sizes), rng.integers(1, 700, (len(sizes), 2))
    new[rng.random(len(sizes)) < 0.2] = old[0]
    resize = torchvision.transforms.v2.functional.resize
    move = ResizeMove(*old.T, *new.T)
    check(torchvision, batch, move, lambda i, it: resize(it, new[i].tolist()))


@given(batches(), st.sampled_from("xy"))
def test_a_flip(torchvision: ModuleType, batch: Any, axis: Any) -> None:
    rng, sizes, _ = batch
    flips = rng.random(len(sizes)) < 0.5
    F = torchvision.transforms.v2.functional
    flip = F.horizontal_flip if axis == "x" else F.vertical_flip
    move = FlipMove(axis, flips, np.array(sizes)[:, int(axis == "x")])
    check(torchvision, batch, move, lambda i, it: flip(it) if flips[i] else it)


def test_a_crop_that_does_not_clamp_leaves_boxes_as_they_are() -> None:
    sides = np.array([10, 10])
    move = CropMove(0 * sides, 0 * sides, sides, sides, np.array([True, False]))
    boxes = np.array([[-5, 3, 20, 9]] * 2, np.float32)
    moved = move_boxes(boxes, np.arange(2), [move])
    assert moved.tolist() == [[0, 3, 10, 9], [-5, 3, 20, 9]]


def test_no_moves_leave_targets_as_they_are_and_empty_lists_stay_empty() -> None:
    points, none = np.array([[1.5, -2]], np.float32), np.empty(0, np.int64)
    assert move_points(points, np.zeros(1, np.int64), []).tolist() == points.tolist()
    move = ResizeMove(*np.ones((4, 3), np.int64))
    assert move_points(np.empty((0, 2), np.float32), none, [move]).shape == (0, 2)
    assert move_boxes(np.empty((0, 4), np.float32), none, [move]).shape == (0, 4)


def test_infinite_and_undefined_numbers_and_damaged_images_raise_no_warning() -> None:
    boxes = np.array([[np.nan, np.inf, -np.inf, 3e38]], np.float32)
    zero, side = np.array([0]), np.array([9])
    moves = [CropMove(zero, zero, side, side), ResizeMove(zero, zero, side, side)]
    moved = move_boxes(boxes, np.zeros(1, np.int64), moves)
    assert np.isnan(moved[0, 0]) and moved[0, 1:].tolist() == [81, 0, 81]
