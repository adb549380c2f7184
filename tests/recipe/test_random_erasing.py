"""Random erasing: the boxes of torchvision and timm, and what is written into them."""

from __future__ import annotations

import random
from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributions import assert_same_distribution
from headrace.plan.erasing import ERASING_UNIFORMS, erasing_boxes
from headrace.plan.operations import Op
from headrace.recipe.policies import RandomErasing
from recipe.programs import COUNT, draw_programs, list_programs, make_randomness

Box = tuple[float, ...]


def describe(boxes: list[Box]) -> list[list[Any]]:
    """Statistics of boxes (left, top, width, height), each of which must be distributed alike."""
    return [
        [int(width) for _, _, width, _ in boxes],
        [int(height) for _, _, _, height in boxes],
        [int(left) for left, _, _, _ in boxes],
        [int(top) for _, top, _, _ in boxes],
        [(int(width) // 5, int(height) // 5) for _, _, width, height in boxes],
    ]


@pytest.mark.parametrize(
    ("scale", "ratio", "size"),
    [
        ((0.02, 0.33), (0.3, 3.3), (40, 56)),
        ((0.1, 0.9), (0.1, 10.0), (30, 30)),
        ((0.2, 0.9), (0.5, 1.0), (20, 60)),
    ],
)
def test_boxes_are_drawn_as_by_torchvision(
    torchvision: ModuleType,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    size: tuple[int, int],
) -> None:
    import torch
    from torchvision.transforms import RandomErasing as Original

    torch.manual_seed(0)
    image = torch.zeros(3, *size)
    theirs: list[Box] = []
    for _ in range(COUNT):
        top, left, height, width, value = Original.get_params(image, scale, ratio, [0.0])
        if value is not image:
            theirs.append((left, top, width, height))
    lines = draw_programs(RandomErasing(1.0, scale, ratio), size=size)
    ours = [line[0][1][:4] for line in lines if line]
    for first, second in zip(describe(ours), describe(theirs), strict=True):
        assert_same_distribution(first, second)
    assert abs(len(ours) - len(theirs)) < 200


@pytest.mark.parametrize("mode", ["const", "rand", "pixel"])
def test_boxes_and_their_number_are_drawn_as_by_timm(torchvision: ModuleType, mode: str) -> None:
    import torch

    timm = pytest.importorskip("timm.data.random_erasing", reason="pip install --no-deps timm")
    original = timm.RandomErasing(0.6, mode=mode, min_count=1, max_count=3, device="cpu")
    random.seed(4)
    counts, theirs = [], []
    for _ in range(COUNT // 2):
        image = NotedTensor((3, 40, 56))
        original._erase(image, 3, 40, 56, torch.float32)
        counts.append(len(image.boxes))
        theirs += image.boxes
    value: Any = {"const": 0.0, "rand": "color", "pixel": "random"}[mode]
    step = RandomErasing(0.6, (0.02, 1 / 3), (0.3, 1 / 0.3), value, (1, 3))
    lines = draw_programs(step, COUNT // 2)
    assert_same_distribution(map(len, lines), counts)
    ours = [params[:4] for line in lines for _, params in line]
    for first, second in zip(describe(ours), describe(theirs), strict=True):
        assert_same_distribution(first, second)


class NotedTensor:
    """What timm takes for an image: it notes the boxes that are written."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.boxes: list[Box] = []

    def __setitem__(self, key: tuple[slice, slice, slice], value: Any) -> None:
        rows, columns = key[1:]
        size = columns.stop - columns.start, rows.stop - rows.start
        self.boxes.append((columns.start, rows.start, *size))


@given(
    height=st.integers(1, 600),
    width=st.integers(1, 600),
    seed=st.integers(0, 2**32),
    parts=st.integers(1, 4),
)
def test_boxes_lie_inside_and_are_smaller_than_the_image(
    height: int, width: int, seed: int, parts: int
) -> None:
    uniforms = np.random.default_rng(seed).random((20, ERASING_UNIFORMS))
    sides = np.full(20, height), np.full(20, width)
    options: Any = {"scale": (0.02, 0.9), "ratio": (0.2, 5.0), "parts": parts}
    boxes, found = erasing_boxes(uniforms, *sides, **options)
    left, top, w, h = boxes[found].T
    assert (left >= 0).all() and (top >= 0).all() and (w < width).all() and (h < height).all()
    assert (left + w <= width).all() and (top + h <= height).all()


def test_images_of_one_pixel_have_no_box() -> None:
    assert draw_programs(RandomErasing(1.0, scale=(1.0, 1.0)), 5, (1, 1)) == [[]] * 5


def test_one_value_is_written_into_all_channels() -> None:
    line = draw_programs(RandomErasing(1.0, value=0.25), 1)[0]
    assert line[0][0] is Op.ERASE_OUTPUT and line[0][1][4:] == (0.25, 0.25, 0.25, 0, 0, 0, 0, 0)


def test_each_channel_may_have_its_value() -> None:
    line = draw_programs(RandomErasing(1.0, value=[1, 2, 3]), 1)[0]  # type: ignore[arg-type]
    assert line[0][0] is Op.ERASE_OUTPUT and line[0][1][4:7] == (1, 2, 3)


def test_pixels_are_erased_before_they_are_normalised() -> None:
    line = draw_programs(RandomErasing(1.0, value=(1, 2, 255), pixels=True), 1)[0]
    assert line[0][0] is Op.ERASE and line[0][1][4:7] == (1, 2, 255)


def test_noise_has_a_seed_of_its_own_for_each_box() -> None:
    lines = draw_programs(RandomErasing(1.0, value="random", count=2), 1000)
    assert {op for line in lines for op, _ in line} == {Op.ERASE_NOISE}
    seeds = [params[4:6] for line in lines for _, params in line]
    assert len(set(seeds)) == len(seeds)
    values = np.array(seeds)
    assert (values == np.floor(values)).all() and values.min() >= 0 and values.max() < 2**32
    assert values.std(axis=0).min() > 2**30


def test_colors_are_normal_and_their_channels_independent() -> None:
    lines = draw_programs(RandomErasing(1.0, value="color"))
    colors = np.array([line[0][1][4:7] for line in lines if line])
    assert abs(colors.mean(axis=0)).max() < 0.05 and abs(colors.std(axis=0) - 1).max() < 0.05
    assert abs(np.corrcoef(colors.T) - np.eye(3)).max() < 0.05


def test_erasing_comes_with_its_probability() -> None:
    lines = draw_programs(RandomErasing(0.25))
    assert abs(sum(map(len, lines)) - 0.25 * COUNT) < 200


def test_the_number_of_boxes_is_drawn_from_its_range() -> None:
    steps = RandomErasing(1.0, count=(2, 4)).draw(make_randomness(3000), 100, 100)
    counts = Counter(map(len, list_programs(steps)))
    assert set(counts) == {2, 3, 4} and all(abs(count - 1000) < 120 for count in counts.values())
