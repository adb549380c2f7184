"""What policies draw comes out of the core with the bytes that Pillow gives for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.recipe import policies as ours
from headrace.recipe.program_step import ProgramStep
from headrace.recipe.timm_config import read_timm_policy
from headrace.render import render_batch
from recipe.programs import make_image, make_randomness
from render.pillow_program import apply_program

FILTERS: tuple[Any, ...] = ("nearest", "bilinear", "bicubic")
COLORS = ours.RandomOrder(
    (
        ours.RandomGrayscale(0.3),
        ours.RandomFlip(),
        ours.RandomFlip(rows=True),
        ours.PillowBlur(),
        ours.RandomSolarize(128, 0.3),
        ours.RandomPosterize(3),
        ours.RandomAdjustSharpness(2.0),
        ours.RandomAutocontrast(),
        ours.RandomEqualize(),
        ours.RandomInvert(),
        ours.RandomErasing(0.5, value=(1, 2, 3), pixels=True),
    )
)
STEPS: list[Any] = [
    "rand-m9-mstd0.5-inc1",
    "rand-m20-mmax30-n3-tweights",
    "rand-n3-t3aw",
    "v0-mstd1",
    "originalr",
    "3a",
    ours.ColorJitter(0.4, 0.4, 0.2, 0.5),
    COLORS,
    *(ours.RandAugment(interpolation=name, fill=(9, 8, 7)) for name in FILTERS),
    *(ours.TrivialAugmentWide(interpolation=name, version=2) for name in FILTERS),
    *(ours.AutoAugment("svhn", interpolation=name) for name in FILTERS),
    *(ours.RandomRotation(180, name) for name in FILTERS),
    *(ours.RandomAffine(40, (0.3, 0.3), (0.3, 3.0), 20, name) for name in FILTERS),
    *(ours.RandomPerspective(0.9, 1.0, name, 3) for name in FILTERS),
]


@pytest.mark.parametrize("size", [(56, 40), (64, 64)])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: str(step)[:60])
def test_the_core_gives_pillows_bytes(step: str | ProgramStep, size: tuple[int, int]) -> None:
    program = pytest.importorskip("headrace.render.program")
    step = read_timm_policy(step) if isinstance(step, str) else step
    assert isinstance(step, ProgramStep)
    (width, height), count = size, 100
    image = make_image(width, height)
    arrays = step.draw(make_randomness(count), height, width).arrays()
    options: Any = {"program": program.Program(*arrays)}
    box = [0, 0, width, height]
    pixels, _ = render_batch([np.asarray(image)] * count, [box] * count, (height, width), **options)
    expected = apply_program([image] * count, *arrays)
    assert np.array_equal(pixels, np.stack([np.asarray(result) for result in expected]))
