"""Maps: resized as torch resizes floats, with the rules for their values."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from headrace.render import Draws, Viewport
from headrace.render.maps import MapRequest
from images import encode, encode_deep

torch: Any = pytest.importorskip("torch")

BIG = np.random.default_rng(0).normal(0, 50, (90, 120, 3)).astype(np.float32)


def save(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def resize(array: np.ndarray, size: tuple[int, int], mode: str = "bilinear") -> np.ndarray:
    """Return [H, W, C] as torch resizes it.

    Results with one column are resized with the axes swapped: torch 2.13 repeats their first row.
    """
    if size[1] == 1 < size[0]:
        return resize(array.swapaxes(0, 1), (1, size[0]), mode).swapaxes(0, 1)
    tensor = torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))[None]
    options = {"antialias": True, "align_corners": False} if mode == "bilinear" else {}
    out = torch.nn.functional.interpolate(tensor, size=size, mode=mode, **options)
    return np.ascontiguousarray(out[0].numpy().transpose(1, 2, 0))


def assert_near(out: np.ndarray, expected: np.ndarray, values: np.ndarray) -> None:
    """Compare within a millionth of the range of the values."""
    room = 1e-6 * max(float(np.ptp(values)), float(np.abs(values).max()))
    assert out.shape == expected.shape and out.dtype == np.float32
    assert np.abs(out - expected).max(initial=0) <= room


@st.composite
def draw_box(draw: st.DrawFn) -> tuple[int, int, int, int]:
    left, top = draw(st.integers(0, 119)), draw(st.integers(0, 89))
    return left, top, draw(st.integers(1, 120 - left)), draw(st.integers(1, 90 - top))


@given(
    draw_box(),
    st.tuples(st.integers(1, 130), st.integers(1, 130)),
    st.integers(1, 3),
    st.sampled_from(["bilinear", "nearest"]),
    st.booleans(),
    st.booleans(),
)
def test_maps_are_resized_as_torch_does(
    box: tuple[int, int, int, int],
    size: tuple[int, int],
    channels: int,
    mode: Any,
    flip: bool,
    upside_down: bool,
) -> None:
    left, top, width, height = box
    values = BIG[..., :channels]
    crop = values[top : top + height, left : left + width]
    expected = resize(crop, size, mode)
    expected = expected[:, ::-1] if flip else expected
    expected = expected[::-1] if upside_down else expected
    draws = Draws([box], flips=[flip], vertical_flips=[upside_down])
    out, failed = MapRequest([save(values)], draws, size, channels, interpolation=mode).render()
    assert not failed
    if mode == "nearest":
        assert np.array_equal(out[0], expected)
    else:
        assert_near(out[0], expected, crop)


@given(st.integers(1, 3000), st.integers(1, 700), st.booleans())
def test_long_axes_have_torchs_weights(size: int, full: int, high: bool) -> None:
    values = np.random.default_rng(size).normal(0, 1, (1, size, 1)).astype(np.float32)
    expected = resize(values, (1, full))
    draws, result = Draws([(0, 0, size, 1)]), (1, full)
    if high:
        values, expected = values.swapaxes(0, 1), expected.swapaxes(0, 1)
        draws, result = Draws([(0, 0, 1, size)]), (full, 1)
    out, _ = MapRequest([save(values)], draws, result, 1).render()
    assert_near(out[0], expected, values)


@given(draw_box(), st.booleans())
def test_values_stay_where_sizes_are_equal(box: tuple[int, int, int, int], flip: bool) -> None:
    left, top, width, height = box
    values = BIG.copy()
    values[::7, ::5] = np.nan
    values[3::7, ::5] = np.inf
    crop = values[top : top + height, left : left + width]
    draws = Draws([box], flips=[flip])
    out, _ = MapRequest([save(values)], draws, (height, width), 3).render()
    assert np.array_equal(out[0], crop[:, ::-1] if flip else crop, equal_nan=True)


@given(st.data(), st.sampled_from(["bilinear", "nearest"]))
def test_a_viewport_shows_a_part_of_the_resized_map(data: st.DataObject, mode: Any) -> None:
    box = data.draw(draw_box())
    full = data.draw(st.integers(1, 150)), data.draw(st.integers(1, 150))
    x, y = data.draw(st.integers(-40, 150)), data.draw(st.integers(-40, 150))
    flips = [data.draw(st.booleans())], [data.draw(st.booleans())]
    map = save(BIG[..., 0])
    whole, _ = MapRequest([map], Draws([box]), full, interpolation=mode).render()
    resized = np.full((400, 400), -7, np.float32)
    resized[100 : 100 + full[0], 100 : 100 + full[1]] = whole[0]
    expected = resized[100 + y : 130 + y, 100 + x : 135 + x]
    expected = expected[:, ::-1] if flips[0][0] else expected
    expected = expected[::-1] if flips[1][0] else expected
    draws = Draws([box], Viewport(np.array([full]), np.array([[x, y]])), flips[0], None, flips[1])
    out, _ = MapRequest([map], draws, (30, 35), interpolation=mode, fill=-7).render()
    assert np.array_equal(out[0], expected)


def test_disparity_is_multiplied_by_the_ratio_of_the_widths() -> None:
    draws = Draws([(0, 0, 120, 90)], flips=[True])
    plain, _ = MapRequest([save(BIG)], draws, (30, 90), 3).render()
    scaled, _ = MapRequest([save(BIG)], draws, (30, 90), 3, "x").render()
    assert np.array_equal(scaled, plain * np.float32(0.75))


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("upside_down", [False, True])
def test_flow_is_multiplied_on_each_axis_and_negated_by_flips(
    flip: bool, upside_down: bool
) -> None:
    viewport = Viewport(np.array([[45, 180]]), np.array([[-5, -4]]))
    draws = Draws([(20, 0, 90, 60)], viewport, [flip], None, [upside_down])
    plain, _ = MapRequest([save(BIG)], draws, (60, 60), 3, fill=9).render()
    scaled, _ = MapRequest([save(BIG)], draws, (60, 60), 3, "xy", fill=9).render()
    factors = np.array([-2 if flip else 2, -0.75 if upside_down else 0.75, 1], np.float32)
    outside = np.all(plain == 9, axis=-1, keepdims=True)
    assert outside.any()
    assert np.array_equal(scaled, np.where(outside, 9, plain * factors))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", ">u2", "int32", "uint64", "float16", ">f4", "float64"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_all_real_numbers_are_maps(dtype: str, order: Any) -> None:
    values = np.asarray(np.arange(20).reshape(4, 5) % 7, dtype, order=order)
    map = b"?" + save(values)  # at an odd address
    out, failed = MapRequest([memoryview(map)[1:]], Draws([(1, 0, 4, 4)]), (4, 4)).render()
    assert not failed
    assert out.dtype == np.float32 and np.array_equal(out[0], values[:, 1:].astype(np.float32))


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_levels_of_grey_images_are_divided(format: str) -> None:
    levels = np.random.default_rng(0).integers(0, 65536, (6, 7))
    small = io.BytesIO()
    Image.fromarray((levels % 256).astype(np.uint8)).save(small, format)
    maps = [encode_deep(levels, format), small.getvalue(), save(levels)]
    draws = Draws([(1, 2, 6, 4)] * 3)
    out, failed = MapRequest(maps, draws, (4, 6), divisor=256, threads=2).render()
    assert not failed
    part = levels[2:6, 1:7].astype(np.float32)
    assert np.array_equal(out, [part / 256, part % 256 / 256, part])


def test_one_channel_may_have_an_axis_or_none() -> None:
    draws = Draws([(0, 0, 120, 90)] * 2)
    maps = [save(BIG[..., 0]), save(BIG[..., :1])]
    out, failed = MapRequest(maps, draws, (90, 120)).render()
    assert not failed and np.array_equal(out, [BIG[..., 0]] * 2)
    out, failed = MapRequest(maps, draws, (90, 120), 1).render()
    assert not failed and np.array_equal(out, [BIG[..., :1]] * 2)


def test_a_map_that_fails_is_filled_and_spoils_no_other() -> None:
    good = save(BIG)
    maps = [
        good,
        b"",
        good[:-1],
        save(BIG[..., :2]),
        save(BIG + 1j),
        save(np.zeros((0, 4, 3))),
        encode(90, 120, format="PNG"),
        encode(90, 120, format="PNG", mode="P"),
        good,
    ]
    boxes = [(0, 0, 120, 90)] * 8 + [(0, 0, 121, 90)]
    out, failed = MapRequest(maps, Draws(boxes), (90, 120), 3, fill=-1, threads=2).render()
    assert sorted(failed) == list(range(1, 9))
    assert np.array_equal(out[0], BIG) and np.all(out[1:] == -1)
    assert failed[3] == "the map is float32[90, 120, 2]; give real numbers [H, W, 3]"
    assert "mode RGB; levels need one channel of grey" in failed[6]
    assert "mode P; levels need one channel of grey" in failed[7]
    assert "box: (0, 0, 121, 90)" in failed[8]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"scale": "y"}, "scale must be one of none, x, xy"),
        ({"scale": "xy"}, "scale is 'xy' and channels is None; give at least 2 channels"),
        ({"channels": 0}, "channels is 0; give at least 1"),
        ({"divisor": 0}, "divisor is 0; give a positive number"),
        ({"interpolation": "bicubic"}, "interpolation must be one of bilinear, nearest"),
    ],
)
def test_options_of_maps_are_checked(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        MapRequest([], Draws(np.zeros((0, 4), int)), (4, 4), **options)
