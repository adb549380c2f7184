"""Boxes are torchvision's: the same arithmetic for the same numbers, the same distribution."""

from __future__ import annotations

import hashlib
import math
import timeit
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan import (
    CROP_UNIFORMS,
    Stream,
    center_crop_offsets,
    draw_uniforms,
    random_flip,
    random_resized_crop,
    resize_shorter,
)

SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
sides = st.integers(1, 600)


def draw(count: int, epoch: int = 0) -> np.ndarray:
    return draw_uniforms(0, epoch, Stream.CROP, np.arange(count), CROP_UNIFORMS)


def crop_slowly(
    height: int, width: int, u: np.ndarray, scale: tuple[float, float], ratio: tuple[float, float]
) -> list[int]:
    """torchvision's loop, with numbers from `u` where it draws."""
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for i in range(10):
        area = height * width * (scale[0] + (scale[1] - scale[0]) * u[i])
        aspect = math.exp(low + (high - low) * u[10 + i])
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return [int(u[20] * (width - w + 1)), int(u[21] * (height - h + 1)), w, h]
    w, h = width, height
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    return [(width - w) // 2, (height - h) // 2, w, h]


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=20), st.integers(0, 999))
def test_vectorised_crops_equal_those_of_the_loop(sizes: list[tuple[int, int]], epoch: int) -> None:
    heights, widths = np.array(sizes).T
    uniforms = draw(len(sizes), epoch)
    for scale, ratio in [(SCALE, RATIO), ((0.5, 0.9), (1.0, 1.0)), ((0.9, 1.2), (0.2, 1.5))]:
        boxes = random_resized_crop(heights, widths, uniforms, scale=scale, ratio=ratio)
        slow = [crop_slowly(*size, u, scale, ratio) for size, u in zip(sizes, uniforms)]
        assert boxes.tolist() == slow


def test_the_area_of_a_huge_image_does_not_overflow() -> None:
    sides = np.full(50, 60_000, np.int32)
    boxes = random_resized_crop(sides, sides, draw(50))
    assert boxes.tolist() == random_resized_crop(*[sides.astype(np.int64)] * 2, draw(50)).tolist()


@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=20), st.integers(0, 999))
def test_boxes_lie_in_their_images(sizes: list[tuple[int, int]], epoch: int) -> None:
    heights, widths = np.array(sizes).T
    left, top, w, h = random_resized_crop(heights, widths, draw(len(sizes), epoch)).T
    assert (left >= 0).all() and (top >= 0).all() and (w > 0).all() and (h > 0).all()
    assert (left + w <= widths).all() and (top + h <= heights).all()


def measure(boxes: np.ndarray) -> dict[str, np.ndarray]:
    left, top, w, h = boxes.T.astype(float)
    return {"left": left, "top": top, "w": w, "h": h, "area": w * h, "aspect": w / h, "x": left + w}


def ks_distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference between two empirical distribution functions."""
    points = np.unique(np.concatenate([a, b]))
    share_a = np.searchsorted(np.sort(a), points, side="right") / len(a)
    share_b = np.searchsorted(np.sort(b), points, side="right") / len(b)
    return float(abs(share_a - share_b).max())


@pytest.mark.parametrize("size", [(375, 500), (500, 375), (64, 64), (60, 400)])
def test_crops_are_distributed_as_torchvisions(
    torchvision: ModuleType, size: tuple[int, int]
) -> None:
    import torch
    from torchvision.transforms import RandomResizedCrop

    torch.manual_seed(0)
    image = torch.empty(3, *size)
    theirs = [RandomResizedCrop.get_params(image, list(SCALE), list(RATIO)) for _ in range(8000)]
    theirs = np.array(theirs)[:, [1, 0, 3, 2]]
    count = 100_000
    ours = random_resized_crop(np.full(count, size[0]), np.full(count, size[1]), draw(count))
    limit = 2.2 * math.sqrt(1 / len(theirs) + 1 / count)  # once in ten thousand
    for name, values in measure(ours).items():
        assert ks_distance(values, measure(theirs)[name]) < limit, name


def test_boxes_never_change() -> None:
    """A change here changes the images of every training in progress."""
    heights, widths = np.arange(2000) % 487 + 50, np.arange(2000) * 7 % 491 + 50
    boxes = random_resized_crop(heights, widths, draw(2000))
    assert hashlib.sha256(boxes.astype("<i4").tobytes()).hexdigest()[:16] == "bd6195dff77523e5"


def test_a_batch_of_boxes_takes_less_than_half_a_millisecond() -> None:
    heights, widths, uniforms = np.full(256, 375), np.full(256, 500), draw(256)
    times = timeit.repeat(
        lambda: random_resized_crop(heights, widths, uniforms), number=10, repeat=20
    )
    assert min(times) < 10 * 0.5e-3


def test_a_scale_may_begin_at_nothing() -> None:
    sides = np.full(1000, 64)
    boxes = random_resized_crop(sides, sides, draw(1000), scale=(0.0, 1.0))
    assert (boxes[:, 2:] > 0).all()


@pytest.mark.parametrize("bad", [(-0.1, 1.0), (1.0, 0.5), (0.0, 0.0)])
def test_impossible_ranges_are_refused(bad: tuple[float, float]) -> None:
    sides = np.array([10])
    with pytest.raises(ValueError, match="scale is"):
        random_resized_crop(sides, sides, draw(1), scale=bad)
    with pytest.raises(ValueError, match="ratio is"):
        random_resized_crop(sides, sides, draw(1), ratio=bad)


def test_flips_have_their_probability() -> None:
    uniforms = draw_uniforms(0, 0, Stream.FLIP, np.arange(100_000), 1)[:, 0]
    assert abs(random_flip(uniforms, 0.3).mean() - 0.3) < 0.006
    assert not random_flip(uniforms, 0.0).any() and random_flip(uniforms, 1.0).all()


@given(sides, sides, st.integers(1, 300), st.one_of(st.none(), st.integers(1, 300)))
def test_resized_sizes_are_torchvisions(
    torchvision: ModuleType, height: int, width: int, size: int, extra: int | None
) -> None:
    from torchvision.transforms.functional import _compute_resized_output_size

    max_size = None if extra is None else size + extra
    expected = _compute_resized_output_size((height, width), [size], max_size)
    got = resize_shorter(np.array([height]), np.array([width]), size, max_size)
    assert [int(side[0]) for side in got] == list(expected)


def test_a_longer_side_below_the_shorter_is_refused() -> None:
    with pytest.raises(ValueError, match="max_size is 10"):
        resize_shorter(np.array([5]), np.array([5]), 10, 10)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_centre_crops_are_torchvisions(
    torchvision: ModuleType, height: int, width: int, crop_height: int, crop_width: int
) -> None:
    import torch
    from torchvision.transforms.functional import center_crop

    image = 1 + torch.arange(height * width).reshape(1, height, width)
    expected = center_crop(image, [crop_height, crop_width])[0].numpy()
    left, top = center_crop_offsets(np.array([height]), np.array([width]), crop_height, crop_width)
    y = top[0] + np.arange(crop_height)[:, None]
    x = left[0] + np.arange(crop_width)[None, :]
    inside = (0 <= y) & (y < height) & (0 <= x) & (x < width)
    np.testing.assert_array_equal(expected, np.where(inside, 1 + y * width + x, 0))
