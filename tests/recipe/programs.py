"""What steps draw, as lists that tests can read and compare."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from PIL import Image

from headrace.plan.operations import Op
from headrace.plan.steps import Steps
from headrace.recipe.program_step import ProgramStep
from headrace.recipe.randomness import Randomness
from render.pillow_program import apply_program

COUNT = 10_000
Program = list[tuple[Op, tuple[float, ...]]]


def make_randomness(count: int = COUNT, seed: int = 1) -> Randomness:
    return Randomness(seed, 0, np.arange(count))


def list_programs(steps: Steps) -> list[Program]:
    starts, codes, params = steps.arrays()
    rows = [(Op(code), tuple(row)) for code, row in zip(codes, params.tolist(), strict=True)]
    return [rows[a:b] for a, b in pairwise(starts.tolist())]


def draw_programs(
    step: ProgramStep, count: int = COUNT, size: tuple[int, int] = (40, 56)
) -> list[Program]:
    return list_programs(step.draw(make_randomness(count), *size))


def make_image(width: int = 56, height: int = 40) -> Image.Image:
    """A picture with edges, ramps and noise, and not all levels."""
    rng = np.random.default_rng(5)
    ramp = np.add.outer(np.arange(height) * 3, np.arange(width) * 2)[..., None] % 200 + 20
    noise = rng.integers(-20, 20, (height, width, 3))
    return Image.fromarray((ramp + noise).clip(10, 240).astype(np.uint8))


def assert_same_pixels(
    image: Image.Image, steps: Steps, originals: list[Callable[[Image.Image], Any]]
) -> None:
    """Compare steps, run in Pillow, with a function for each of them."""
    results = apply_program([image] * len(originals), *steps.arrays())
    for row, (result, original) in enumerate(zip(results, originals, strict=True)):
        assert np.array_equal(np.asarray(result), np.asarray(original(image))), row
