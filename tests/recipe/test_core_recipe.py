"""A recipe is a value that says what to draw and what to render."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from headrace.recipe.core_or_python import divide_transform
from headrace.recipe.core_recipe import Randomness, Recipe, compile_recipe
from headrace.transforms import (
    CenterCrop,
    ColorJitter,
    Lighting,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)

COLOURS = [ColorJitter(0.4, 0.3, 0.2), Lighting(), Normalize()]
LISTS: list[list[Any]] = [
    [RandomResizedCrop(24), RandomHorizontalFlip(), *COLOURS],
    [Resize(30), CenterCrop((20, 22)), Normalize(dtype="bfloat16")],
    [Resize((11, 12), "bicubic")],
]


@pytest.mark.parametrize("steps", LISTS)
@pytest.mark.parametrize("function", [[], [np.asarray]])
def test_workers_get_a_pipeline_as_it_is(steps: list[Any], function: list[Any]) -> None:
    at = len(steps) - isinstance(steps[-1], Normalize)
    pipeline = divide_transform([*steps[:at], *function, *steps[at:]], None)
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline
    assert len(pipeline.steps) == len(function)


@pytest.mark.parametrize("steps", LISTS)
def test_a_sample_is_drawn_the_same_in_any_batch(steps: list[Any]) -> None:
    recipe = compile_recipe(steps, None)
    heights, widths = np.arange(40, 48), np.arange(70, 62, -1)
    whole = recipe.draw(Randomness(3, 1, np.arange(8)), heights, widths)
    part = recipe.draw(Randomness(3, 1, np.arange(2, 5)), heights[2:5], widths[2:5])
    expected = whole.take(slice(2, 5))
    assert np.array_equal(part.boxes, expected.boxes)
    for name in ("flips", "viewport", "color"):
        ours, theirs = getattr(part, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if name == "flips":
            assert np.array_equal(ours, theirs)
        elif ours is not None:
            for a, b in zip(vars(ours).values(), vars(theirs).values(), strict=True):
                assert np.array_equal(a, b)


def test_images_that_keep_their_size_say_so_in_the_target() -> None:
    recipe = Recipe().fit(None, any_size=True)
    draws = recipe.draw(Randomness(0, 0, np.arange(2)), np.array([40, 50]), np.array([60, 70]))
    targets = [recipe.make_target(draws.take(slice(row, row + 1))) for row in range(2)]
    assert [target.size for target in targets] == [(40, 60), (50, 70)]


@pytest.mark.parametrize("sides", [(1 << 27, 1), (1 << 14, 1 << 14)])
def test_an_image_too_large_to_keep_its_size_gets_no_box(sides: tuple[int, int]) -> None:
    recipe = Recipe().fit(None, any_size=True)
    draws = recipe.draw(Randomness(0, 0, np.arange(1)), *(np.array([side]) for side in sides))
    assert draws.boxes.tolist() == [[0, 0, 0, 0]]
    assert recipe.make_target(draws).size == (1, 1)
