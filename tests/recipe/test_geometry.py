"""Resizing, padding, cropping and flipping: torchvision's pixels for the same numbers, and torchvision's numbers on average."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from headrace.plan import Stream
from headrace.recipe.core_or_python import divide_transform
from headrace.recipe.core_recipe import Recipe, compile_recipe
from headrace.recipe.randomness import Randomness
from headrace.render import Jobs, RenderRequest
from headrace.transforms import (
    CenterCrop,
    ColorJitter,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)
from images import make_pixels

pytest.importorskip("torch")

SIDES = st.integers(1, 40)
COLORS = st.sampled_from([0, 255, (10, 20, 30)])
PADDINGS = st.one_of(
    st.integers(0, 6),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.tuples(*[st.integers(0, 6)] * 4),
)


def draw_and_render(recipe: Recipe, pixels: np.ndarray, seed: int) -> tuple[Any, np.ndarray]:
    height, width = pixels.shape[:2]
    draws = recipe.draw(Randomness(seed, 0, np.arange(1)), np.array([height]), np.array([width]))
    out, status = RenderRequest(Jobs([pixels], draws), recipe.make_target(draws)).render()
    assert not status.any()
    return draws, out[0]


def replay(F: ModuleType, pixels: np.ndarray, steps: list[Any], draws: Any) -> np.ndarray:
    """Do what torchvision's functions do, one step after the other, with the sizes, places and flips that were drawn."""
    image = Image.fromarray(pixels)
    added = np.zeros(2, int)
    for step in steps:
        if isinstance(step, (Resize, RandomResize)):
            image = F.resize(image, draws.viewport.sizes[0].tolist())
        elif isinstance(step, Pad):
            image = F.pad(image, list(step.sides), fill=step.color)
            added += step.sides[:2]
        elif isinstance(step, CenterCrop):
            image = F.center_crop(image, [step.size, step.size])
        elif isinstance(step, RandomCrop):
            sides = np.array(step.sides)
            if step.pad_if_needed:
                lacks = np.array(image.size) + sides[:2] + sides[2:]
                sides += np.tile(np.maximum(step.size - lacks, 0), 2)
            image = F.pad(image, sides.tolist(), fill=step.color)
            left, top = draws.viewport.offsets[0] + added + sides[:2]
            assert 0 <= left <= image.width - step.size and 0 <= top <= image.height - step.size
            image = F.crop(image, top, left, step.size, step.size)
        elif isinstance(step, RandomHorizontalFlip):
            image = F.hflip(image) if draws.flips[0] else image
        elif isinstance(step, RandomVerticalFlip):
            image = F.vflip(image) if draws.vertical_flips[0] else image
    return np.asarray(image)


@given(
    size=st.tuples(SIDES, SIDES),
    resize=st.sampled_from(
        [None, Resize(17), Resize((9, 30)), RandomResize(0.5, 2.0), RandomResize(5, 30)]
    ),
    pad=st.one_of(st.none(), st.builds(Pad, PADDINGS, COLORS)),
    crop=st.one_of(
        st.builds(CenterCrop, SIDES),
        st.builds(RandomCrop, SIDES, PADDINGS, st.just(True), COLORS),
    ),
    seed=st.integers(0, 10**6),
)
def test_compositions_equal_torchvision(
    torchvision: ModuleType, size: tuple[int, int], resize: Any, pad: Any, crop: Any, seed: int
) -> None:
    if pad is not None:
        assume(pad.color == getattr(crop, "color", (0, 0, 0)))
    steps = [step for step in (resize, pad, crop) if step is not None]
    steps += [RandomHorizontalFlip(), RandomVerticalFlip()]
    pixels = make_pixels(*size, seed=seed)
    draws, out = draw_and_render(compile_recipe(steps, None), pixels, seed)
    F = torchvision.transforms.v2.functional
    np.testing.assert_array_equal(out, replay(F, pixels, steps, draws))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_composes_of_torchvision_are_compiled(torchvision: ModuleType, version: str) -> None:
    T = torchvision.transforms if version == "v1" else torchvision.transforms.v2

    def label(fill: int) -> int | None:
        """Return what masks are padded with: v1 has no masks."""
        return fill if version == "v2" else None

    cifar = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip()])
    assert divide_transform(cifar, None).recipe == compile_recipe(
        [
            RandomCrop((32, 32), (4, 4, 4, 4), fill=(0, 0, 0), mask_fill=label(0)),
            RandomHorizontalFlip(),
        ],
        None,
    )
    padded = T.Compose([T.Pad([1, 2, 3, 4], 7), T.RandomVerticalFlip(0.2)])
    assert divide_transform(padded, (8, 9)).recipe == compile_recipe(
        [Pad((1, 2, 3, 4), (7, 7, 7), label(7)), RandomVerticalFlip(0.2)], (8, 9)
    )
    odd = T.Compose(
        [T.RandomCrop((5, 6), padding=[1, 2, 3, 4], pad_if_needed=True, fill=(1, 2, 3))]
    )
    assert divide_transform(odd, None).recipe == compile_recipe(
        [RandomCrop((5, 6), (1, 2, 3, 4), True, (1, 2, 3))], None
    )


def test_flips_before_a_random_crop_are_compiled(torchvision: ModuleType) -> None:
    V = torchvision.transforms.v2
    flip = V.RandomHorizontalFlip()
    segmentation = [V.RandomResize(20, 40), flip, V.RandomCrop(16, pad_if_needed=True, fill=3)]
    pipeline = divide_transform(V.Compose(segmentation), None)
    assert pipeline.recipe is not None and not pipeline.steps
    assert pipeline.recipe.geometry.resize == RandomResize(20, 40)
    lopsided = V.Compose([flip, V.RandomCrop(16, padding=[1, 0, 2, 0])])
    assert divide_transform(lopsided, (20, 20)).steps


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda T: [T.RandomCrop(8, padding=2, padding_mode="reflect")], "padding_mode='reflect'"),
        (lambda T: [T.Pad(2, padding_mode="edge")], "padding_mode='edge'"),
        (lambda T: [T.ColorJitter(0.4), T.RandomCrop(8)], "crops once and first"),
        (lambda T: [T.RandomCrop(8), T.RandomCrop(4)], "crops once and first"),
        (lambda T: [T.Pad(2, 1), T.RandomCrop(8, fill=2)], "crops once and first"),
        (lambda T: [T.Pad(2, 1), T.CenterCrop(8)], "crops once and first"),
        (lambda T: [T.RandomResizedCrop(8), T.Pad(2)], "crops once and first"),
        (lambda T: [T.ToTensor(), T.Pad(2, fill=1)], "its fill is for floats"),
        (lambda T: [T.ToTensor(), T.RandomCrop(8, padding=2, fill=1)], "its fill is for floats"),
    ],
)
def test_what_the_core_cannot_do_says_why(torchvision: ModuleType, make: Any, why: str) -> None:
    steps = make(torchvision.transforms)
    pipeline = divide_transform(torchvision.transforms.Compose(steps), (20, 20))
    assert pipeline.steps and why in next(line.why for line in pipeline.lines if line.why)


def test_places_and_sizes_are_uniform_and_reach_both_ends() -> None:
    count = 6000
    heights, widths = np.full(count, 12), np.full(count, 9)
    recipe = compile_recipe([RandomCrop(8, padding=1)], None)
    offsets = recipe.draw(Randomness(1, 0, np.arange(count)), heights, widths).viewport.offsets
    for column, places in zip(offsets.T, ([-1, 0, 1, 2], [-1, 0, 1, 2, 3, 4, 5]), strict=True):
        found, numbers = np.unique(column, return_counts=True)
        assert found.tolist() == places
        expected = count / len(places)
        assert (
            (numbers - expected) ** 2 / expected
        ).sum() < 25  # chi-square, 6 degrees: 1 in 3,000
    recipe = compile_recipe([RandomResize(10, 14), RandomCrop(8)], None)
    sizes = recipe.draw(Randomness(1, 0, np.arange(count)), heights, widths).viewport.sizes
    found, numbers = np.unique(sizes.min(axis=1), return_counts=True)
    assert found.tolist() == [10, 11, 12, 13] and numbers.min() > 0.9 * count / 4


def test_an_image_smaller_than_the_crop_is_refused_alone() -> None:
    recipe = compile_recipe([RandomCrop(8)], None)
    sizes = np.array([8, 7, 20]), np.array([8, 20, 20])
    draws = recipe.draw(Randomness(0, 0, np.arange(3)), *sizes)
    images = [make_pixels(h, w) for h, w in zip(*sizes, strict=True)]
    _, status = RenderRequest(Jobs(images, draws), recipe.make_target(draws)).render()
    assert (status != 0).tolist() == [False, True, False]


def test_streams_of_the_new_steps_are_their_own() -> None:
    assert len({Stream.CROP, Stream.FLIP, Stream.RESIZE, Stream.VERTICAL_FLIP}) == 4
    recipe = compile_recipe([RandomCrop(4), RandomHorizontalFlip(), RandomVerticalFlip()], None)
    sizes = np.full(1000, 9), np.full(1000, 9)
    draws = recipe.draw(Randomness(0, 0, np.arange(1000)), *sizes)
    assert abs(np.corrcoef(draws.flips, draws.vertical_flips)[0, 1]) < 0.15


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pad(-1), "no negative"),
        (lambda: Pad((1, 2, 3)), "padding is"),
        (lambda: Pad(1, 256), "from 0 to 255"),
        (lambda: RandomResize(0.5, 2), "two factors"),
        (lambda: RandomResize(2.0, 0.5), "smaller first"),
        (lambda: RandomCrop(0), "number of pixels"),
        (lambda: RandomVerticalFlip(2), "probability"),
        (lambda: compile_recipe([RandomResize(0.5, 2.0)], (8, 8)), "needs a crop"),
        (lambda: compile_recipe([Pad(1, 2), RandomCrop(8, fill=3)], None), "another colour"),
        (lambda: compile_recipe([Pad(1, 2), CenterCrop(8)], None), "give Pad the fill 0"),
        (lambda: compile_recipe([CenterCrop(8), RandomCrop(8)], None), "leave one of them out"),
        (lambda: compile_recipe([RandomResizedCrop(8), Pad(8)], None), "gives the size"),
        (lambda: compile_recipe([RandomCrop(8), ColorJitter(), Pad(8)], None), "in this order"),
    ],
)
def test_mistakes_are_explained(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize("common_size", [None, (20, 30)])
def test_a_random_size_that_a_step_in_python_follows_goes_to_python(
    torchvision: ModuleType, common_size: tuple[int, int] | None
) -> None:
    V = torchvision.transforms.v2
    steps = [V.RandomResize(32, 64), V.RandomRotation(3), V.RandomCrop(32)]
    pipeline = divide_transform(V.Compose(steps), common_size)
    assert pipeline.recipe is None and len(pipeline.steps) == 3


@pytest.mark.parametrize("common_size", [None, (20, 30)])
@pytest.mark.parametrize(
    "steps", [[RandomResize(0.5, 2.0)], [Pad((1, 2, 3, 4), 9)], [Resize(11), Pad(2)]]
)
def test_batches_of_one_may_have_any_size(
    torchvision: ModuleType, steps: list[Any], common_size: tuple[int, int] | None
) -> None:
    pixels = make_pixels(20, 30)
    recipe = compile_recipe(steps, common_size, any_size=True)
    draws, out = draw_and_render(recipe, pixels, 3)
    if draws.viewport is None:
        assert common_size is not None
    else:
        F = torchvision.transforms.v2.functional
        np.testing.assert_array_equal(out, replay(F, pixels, steps, draws))
