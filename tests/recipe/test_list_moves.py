"""The moves of a geometry take points and boxes where torchvision's v2 transforms take them, with the same draws."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan import move_boxes, move_points
from headrace.recipe.core_recipe import compile_recipe
from headrace.recipe.randomness import Randomness
from headrace.render import Draws
from headrace.transforms import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)

torch = pytest.importorskip("torch")

SIDES = st.integers(1, 60)
PADDINGS = st.one_of(st.integers(0, 6), st.tuples(*[st.integers(0, 6)] * 4))
RESIZES = st.sampled_from(
    [
        Resize(17),
        Resize((9, 30)),
        Resize(20, max_size=31),
        RandomResize(0.5, 2.0),
        RandomResize(5, 40),
    ]
)
CROPS = st.one_of(
    st.builds(CenterCrop, SIDES | st.tuples(SIDES, SIDES)),
    st.builds(RandomCrop, SIDES | st.tuples(SIDES, SIDES), PADDINGS, st.just(True)),
)
GEOMETRIES = st.one_of(
    st.tuples(st.builds(RandomResizedCrop, SIDES | st.tuples(SIDES, SIDES))),
    st.tuples(st.none() | RESIZES, st.none() | st.builds(Pad, PADDINGS), CROPS),
)


def make_targets(rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Points and boxes in and around an image, or none."""
    scale = np.tile(np.array(size[::-1]), 2)
    boxes = rng.uniform(-0.4, 1.4, (int(rng.integers(0, 6)), 4)) * scale
    boxes[::3] = np.round(boxes[::3])
    boxes[1::4, 2:] = boxes[1::4, :2]
    return boxes[:, :2].astype(np.float32), boxes.astype(np.float32)


def replay(torchvision: ModuleType, target: Any, steps: list[Any], draws: Draws, i: int) -> Any:
    """Do what torchvision's own transforms do to a target of sample i, with the numbers that were drawn."""
    V = torchvision.transforms.v2
    F, added = V.functional, np.zeros(2, int)
    viewport = draws.viewport
    for step in steps:
        if isinstance(step, RandomResizedCrop):
            left, top, width, height = draws.boxes[i].tolist()
            size = step.size if isinstance(step.size, tuple) else (step.size, step.size)
            target = F.resized_crop(target, top, left, height, width, list(size))
        elif isinstance(step, (Resize, RandomResize)):
            size = viewport.sizes[i].tolist() if viewport is not None else list(step.size)
            target = F.resize(target, size)
        elif isinstance(step, Pad):
            target = V.Pad(list(step.sides))(target)
            added += step.sides[:2]
        elif isinstance(step, CenterCrop):
            target = V.CenterCrop(step.size)(target)
        elif isinstance(step, RandomCrop):
            crop = V.RandomCrop(step.size, list(step.sides), pad_if_needed=step.pad_if_needed)
            params = crop.make_params([target])
            left, top = viewport.offsets[i] + added + params["padding"][:2]
            target = crop.transform(target, {**params, "left": int(left), "top": int(top)})
        elif isinstance(step, RandomHorizontalFlip):
            target = F.horizontal_flip(target) if draws.flips[i] else target
        elif isinstance(step, RandomVerticalFlip):
            target = F.vertical_flip(target) if draws.vertical_flips[i] else target
    return target


def check(
    torchvision: ModuleType,
    steps: list[Any],
    sizes: list[tuple[int, int]],
    seed: int,
    **options: Any,
) -> None:
    rng = np.random.default_rng(seed)
    recipe = compile_recipe(steps, **{"common_size": None, **options})
    heights, widths = np.array(sizes).T
    draws = recipe.draw(Randomness(seed, 0, np.arange(len(sizes))), heights, widths)
    moves = recipe.geometry.list_moves(draws, heights, widths)
    targets = [make_targets(rng, size) for size in sizes]
    samples = np.repeat(np.arange(len(sizes)), [len(points) for points, _ in targets])
    points = move_points(np.concatenate([one for one, _ in targets]), samples, moves)
    boxes = move_boxes(np.concatenate([one for _, one in targets]), samples, moves)
    tv = torchvision.tv_tensors
    for i, (size, (old_points, old_boxes)) in enumerate(zip(sizes, targets, strict=True)):
        marks = tv.KeyPoints(torch.from_numpy(old_points), canvas_size=size)
        frames = tv.BoundingBoxes(torch.from_numpy(old_boxes), format="XYXY", canvas_size=size)
        for moved, target in ((points, marks), (boxes, frames)):
            result = replay(torchvision, target, steps, draws, i)
            np.testing.assert_array_equal(moved[samples == i], result.numpy())
            assert result.canvas_size == recipe.geometry.find_size(draws.take(slice(i, i + 1)))


@given(st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=4), GEOMETRIES, st.integers(0, 10**6))
def test_compositions_equal_torchvision(
    torchvision: ModuleType, sizes: list[tuple[int, int]], geometry: tuple[Any, ...], seed: int
) -> None:
    steps = [step for step in geometry if step is not None]
    check(torchvision, [*steps, RandomHorizontalFlip(), RandomVerticalFlip()], sizes, seed)


@pytest.mark.parametrize(
    "step",
    [
        RandomResizedCrop(24),
        Resize((20, 30)),
        CenterCrop(16),
        CenterCrop((60, 11)),
        RandomCrop(16),
        RandomCrop((21, 40)),
        RandomCrop(48, pad_if_needed=True),
    ],
)
def test_200_draws_of_each_step_alone_equal_torchvision(torchvision: ModuleType, step: Any) -> None:
    sizes = [(21 + i % 40, 40 + i % 23) for i in range(200)]
    check(torchvision, [step], sizes, 5)


@pytest.mark.parametrize(
    "steps", [[RandomHorizontalFlip()], [RandomVerticalFlip()], [Pad((1, 2, 3, 4))], [Pad(0)]]
)
def test_200_draws_in_images_of_one_size_equal_torchvision(
    torchvision: ModuleType, steps: list[Any]
) -> None:
    check(torchvision, steps, [(20, 30)] * 200, 6, common_size=(20, 30))


@pytest.mark.parametrize(
    "steps", [[RandomResize(0.5, 2.0)], [Pad((1, 2, 3, 4))], [Resize(11), Pad(2)], []]
)
def test_images_that_keep_their_own_sizes_have_moves_too(
    torchvision: ModuleType, steps: list[Any]
) -> None:
    sizes = [(10 + i, 40 - i) for i in range(25)]
    flips = [RandomHorizontalFlip(), RandomVerticalFlip()]
    check(torchvision, [*steps, *flips], sizes, 7, any_size=True)


def test_a_refused_image_has_moves_and_does_no_harm_to_others() -> None:
    recipe = compile_recipe([Resize(16), RandomCrop(8), RandomHorizontalFlip(0)], None)
    heights, widths = np.array([0, 32]), np.array([0, 32])
    draws = recipe.draw(Randomness(0, 0, np.arange(2)), np.maximum(heights, 1), widths + 1)
    moves = recipe.geometry.list_moves(draws, heights, widths)
    points = move_points(np.ones((2, 2), np.float32), np.arange(2), moves)
    assert np.isfinite(points).all()


def test_a_random_crop_leaves_boxes_alone_in_images_that_have_its_size(
    torchvision: ModuleType,
) -> None:
    check(torchvision, [RandomCrop(20, pad_if_needed=True)], [(20, 20), (10, 10)] * 20, 8)
