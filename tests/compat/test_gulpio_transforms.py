"""GulpIO's transforms: what they do to frames, and that a clip is treated alike."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest

from headrace.compat.gulpio.transforms import (
    CenterCrop,
    Compose,
    ComposeVideo,
    JitterCrop,
    JitterCropVideo,
    Normalize,
    RandHorFlipVideo,
    RandomCrop,
    RandomCropVideo,
    RandVerFlipVideo,
    Scale,
    UnitNorm,
)
from headrace.errors import MissingExtraError
from images import make_pixels


@pytest.fixture
def clip() -> list[np.ndarray]:
    """Three frames of 40×30 that differ by a constant; each pixel's colour says where it is."""
    y, x = np.mgrid[0:30, 0:40]
    return [np.stack([y, x, np.full_like(x, k)], -1).astype(np.uint8) for k in range(3)]


def find_box(frame: np.ndarray) -> tuple[int, int, int, int]:
    """(left, top, width, height) of a crop of a frame of `clip`."""
    return int(frame[0, 0, 1]), int(frame[0, 0, 0]), frame.shape[1], frame.shape[0]


def test_frame_transforms_come_before_clip_transforms(clip: list[np.ndarray]) -> None:
    calls: list[Any] = []

    def note(name: str) -> Any:
        return lambda value: calls.append((name, type(value) is list)) or value

    before = list(clip)
    out = ComposeVideo([note("a"), note("b")], [note("c"), note("d")])(clip)
    assert calls[:2] == [("a", False), ("b", False)] and len(calls) == 8
    assert calls[-2:] == [("c", True), ("d", True)]
    assert all(one is other for one, other in zip(clip, before)) and len(out) == 3
    assert ComposeVideo()(clip) == clip
    assert Compose([lambda v: v + 1, lambda v: v * 2])(3) == 8


@pytest.mark.parametrize(("flip", "axis"), [(RandHorFlipVideo(), 1), (RandVerFlipVideo(), 0)])
def test_flips_take_all_frames_or_none_as_often(
    clip: list[np.ndarray], flip: Any, axis: int
) -> None:
    flipped = 0
    for seed in range(200):
        random.seed(seed)
        out = flip(clip)
        random.seed(seed)
        expected = [np.flip(f, axis) for f in clip] if random.random() < 0.5 else clip
        assert all(map(np.array_equal, out, expected))
        assert all(frame.flags.c_contiguous for frame in out)
        flipped += expected is not clip
    assert 70 < flipped < 130


def test_a_random_crop_is_the_same_of_all_frames(clip: list[np.ndarray]) -> None:
    boxes = set()
    for _ in range(2000):
        out = RandomCropVideo((20, 36))(clip)
        assert len({find_box(frame) for frame in out}) == 1
        assert [int(frame[0, 0, 2]) for frame in out] == [0, 1, 2]
        boxes.add(find_box(out[0]))
    assert boxes == {(left, top, 36, 20) for left in range(5) for top in range(11)}


def test_the_same_seed_crops_as_gulpio(clip: list[np.ndarray]) -> None:
    for seed in range(20):
        random.seed(seed)
        left, top = random.randint(0, 40 - 12), random.randint(0, 30 - 12)
        random.seed(seed)
        assert find_box(RandomCropVideo(12)(clip)[0]) == (left, top, 12, 12)
        random.seed(seed)
        width, height = random.choice([8, 12, 16]), random.choice([8, 12, 16])
        left, top = random.randint(0, 40 - width), random.randint(0, 30 - height)
        random.seed(seed)
        assert find_box(JitterCropVideo([8, 12, 16])(clip)[0]) == (left, top, width, height)


def test_padding_can_be_reached_on_all_sides() -> None:
    frames = [np.full((4, 4, 3), 255, np.uint8)]
    black = set()
    for _ in range(300):
        (frame,) = RandomCropVideo(4, padding=2)(frames)
        assert frame.shape == (4, 4, 3)
        empty = frame[..., 0] == 0
        black |= {
            n
            for n, part in enumerate((empty[:, 0], empty[0], empty[:, -1], empty[-1]))
            if part.all()
        }
    assert black == {0, 1, 2, 3}


def test_padding_may_differ_by_side_and_repeat_the_border() -> None:
    frame = np.arange(12, dtype=np.uint8).reshape(3, 4)
    out = RandomCrop((6, 7), padding=(1, 2, 2, 1), pad_method=1)(frame)
    assert np.array_equal(out, np.pad(frame, ((2, 1), (1, 2)), "edge"))


@pytest.mark.parametrize("method", range(5))
def test_borders_are_opencvs(method: int) -> None:
    cv2 = pytest.importorskip("cv2")
    frame = make_pixels(9, 7)
    out = RandomCrop((15, 13), 3, method)(frame)
    assert np.array_equal(out, cv2.copyMakeBorder(frame, 3, 3, 3, 3, method, value=0))


def test_a_crop_that_does_not_fit_is_an_error(clip: list[np.ndarray]) -> None:
    with pytest.raises(ValueError, match="12×31 does not fit into frames of 40×30"):
        RandomCropVideo((31, 12))(clip)
    with pytest.raises(ValueError, match="does not fit"):
        JitterCropVideo()(clip)


def test_jitter_draws_width_and_height_independently(clip: list[np.ndarray]) -> None:
    sizes = set()
    for _ in range(300):
        out = JitterCropVideo([8, 12, 16], padding=1)(clip)
        assert len({frame.shape for frame in out}) == 1
        sizes.add(out[0].shape[:2])
    assert sizes == {(h, w) for h in (8, 12, 16) for w in (8, 12, 16)}


def test_single_frames_are_cropped_too(clip: list[np.ndarray]) -> None:
    assert RandomCrop(7)(clip[0]).shape == (7, 7, 3)
    assert JitterCrop([5])(clip[0]).shape == (5, 5, 3)


@pytest.mark.parametrize(("size", "box"), [(10, (15, 10, 10, 10)), ((8, 21), (10, 11, 21, 8))])
def test_center_crop_takes_the_middle(clip: list[np.ndarray], size: Any, box: Any) -> None:
    assert find_box(CenterCrop(size)(clip[0])) == box


@pytest.mark.parametrize("size", [35, 41, (35, 20), (20, 50), (100, 3)])
def test_center_crop_enlarges_a_small_frame_first(clip: list[np.ndarray], size: Any) -> None:
    pytest.importorskip("cv2")
    height, width = (size, size) if isinstance(size, int) else size
    assert CenterCrop(size)(clip[0]).shape == (height, width, 3)


@pytest.mark.parametrize(
    ("size", "shape"), [(15, (15, 20)), (60, (60, 80)), (30, (30, 40)), ((50, 20), (20, 50))]
)
def test_scale_resizes_as_opencv_does(size: Any, shape: tuple[int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    for frame in (make_pixels(30, 40), make_pixels(30, 40)[..., 0]):
        out = Scale(size)(frame)
        assert out.shape[:2] == shape
        assert np.array_equal(out, cv2.resize(frame, shape[::-1]))
    if isinstance(size, int):
        assert Scale(size)(make_pixels(40, 30)).shape[:2] == shape[::-1]


def test_scale_takes_opencvs_interpolation() -> None:
    cv2 = pytest.importorskip("cv2")
    frame = make_pixels(30, 40)
    wanted = cv2.resize(frame, (20, 15), interpolation=cv2.INTER_AREA)
    assert np.array_equal(Scale(15, cv2.INTER_AREA)(frame), wanted)


def test_without_opencv_the_error_names_the_extra(
    clip: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert Scale(30)(clip[0]) is clip[0]
    with pytest.raises(MissingExtraError, match="'gulpio'"):
        Scale(15)(clip[0])


def test_normalize_and_unit_norm_work_on_raw_levels(clip: list[np.ndarray]) -> None:
    mean, std = [10.0, 20.0, 1.0], [3.0, 4.0, 0.0]
    out = Normalize(mean, std)(clip[2])
    assert np.array_equal(out, (clip[2] - np.array(mean)) / (np.array(std) + 1e-8))
    frame = UnitNorm()(clip[2])
    assert abs(frame.mean()) < 1e-9 and abs(frame.std() - 1) < 1e-6
    assert not UnitNorm()(np.full((4, 4), 7)).any()
