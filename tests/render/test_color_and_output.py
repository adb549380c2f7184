"""Colours and float output equal Pillow and torchvision to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from headrace import _core
from headrace.render import Color, Output, render_batch
from headrace.render.options import BYTES
from images import make_pixels
from render import reference

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DTYPES = ["float32", "float16", "bfloat16"]


def render(pixels, color=None, output=BYTES):
    """Render the pixels unscaled, so that only colours and output change them."""
    height, width, _ = pixels.shape
    out, status = render_batch(
        [pixels], [(0, 0, width, height)], (height, width), color=color, output=output
    )
    assert status[0] == 0
    return out[0]


def all_levels():
    levels = np.arange(256, dtype=np.uint8)
    return np.stack([levels, levels[::-1], np.roll(levels, 99)], -1).reshape(16, 16, 3)


factors = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0, 3, width=32))


@settings(max_examples=150, deadline=None)
@given(st.tuples(factors, factors, factors), st.permutations([0, 1, 2]), st.integers(0, 99))
def test_jitter_equals_pillow(values, order, seed):
    pixels = make_pixels(17, 23, seed)
    color = Color(jitter=np.float32([values]), order=np.uint8([order]))
    expected = reference.jitter_color(pixels, np.float32(values), np.uint8(order))
    for simd in ("auto", "portable"):
        _core.set_simd(simd)
        try:
            np.testing.assert_array_equal(render(pixels, color), expected, simd)
        finally:
            _core.set_simd("auto")


def test_jitter_equals_torchvision(torchvision):
    functional = torchvision.transforms.functional
    adjust = (
        functional.adjust_brightness,
        functional.adjust_contrast,
        functional.adjust_saturation,
    )
    rng = np.random.default_rng(0)
    for _ in range(20):
        pixels, values, order = make_pixels(40, 50), rng.uniform(0.2, 1.8, 3), rng.permutation(3)
        image = Image.fromarray(pixels)
        for step in order:
            image = adjust[step](image, float(values[step]))
        color = Color(jitter=np.float32([values]), order=np.uint8([order]))
        np.testing.assert_array_equal(render(pixels, color), np.asarray(image))


def test_jitter_without_an_order_is_brightness_contrast_saturation():
    pixels, values = make_pixels(20, 20), np.float32([[1.5, 0.6, 1.9]])
    np.testing.assert_array_equal(
        render(pixels, Color(jitter=values)), reference.jitter_color(pixels, values[0])
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-300, 300, width=32), min_size=3, max_size=3))
def test_lighting_equals_its_reference(offset):
    color = Color(lighting=np.float32([offset]))
    expected = reference.add_lighting(all_levels(), np.float32(offset))
    np.testing.assert_array_equal(render(all_levels(), color), expected)


def test_lighting_rounds_halves_to_even():
    color = Color(lighting=np.float32([[0.5, 0.5, -300]]))
    assert render(np.uint8([[[10, 11, 200]]]), color).tolist() == [[[10, 12, 0]]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_normalised_floats_equal_torchvision(torchvision, dtype):
    torch = pytest.importorskip("torch")
    transforms = torchvision.transforms
    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    expected = steps(Image.fromarray(all_levels())).to(getattr(torch, dtype))
    output = Output(dtype, MEAN, STD, "channels_first")
    out = torch.from_numpy(render(all_levels(), output=output)).view(getattr(torch, dtype))
    assert torch.equal(out, expected)


@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
@pytest.mark.parametrize("dtype", ["uint8", *DTYPES])
def test_every_output_is_the_bytes_converted(dtype, layout):
    rng = np.random.default_rng(0)
    pixels = [make_pixels(30, 40, seed) for seed in range(5)]
    boxes = [(seed, 2 * seed, 20, 19) for seed in range(5)]
    color = Color(
        jitter=rng.uniform(0.5, 1.5, (5, 3)).astype(np.float32),
        lighting=rng.normal(0, 9, (5, 3)).astype(np.float32),
    )
    output = Output(dtype, layout=layout) if dtype == "uint8" else Output(dtype, MEAN, STD, layout)
    plain, _ = render_batch(pixels, boxes, (11, 13), flips=np.arange(5) % 2, color=color)
    out, _ = render_batch(
        pixels, boxes, (11, 13), flips=np.arange(5) % 2, color=color, output=output
    )
    assert out.shape == ((5, 3, 11, 13) if layout == "channels_first" else (5, 11, 13, 3))
    for row in range(5):
        expected = reference.render(
            pixels[row],
            boxes[row],
            (11, 13),
            flip=bool(row % 2),
            jitter=color.jitter[row],
            lighting=color.lighting[row],
            output=output,
        )
        np.testing.assert_array_equal(out[row], expected)
        np.testing.assert_array_equal(out[row], reference.convert(plain[row], output))


def test_floats_without_mean_and_std_equal_to_tensor():
    expected = all_levels().astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(render(all_levels(), output=Output("float32")), expected)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("dtype", {"dtype": "int8"}),
        ("layout", {"layout": "NCHW"}),
        ("mean", {"dtype": "float32", "mean": (1, 2)}),
        ("std", {"dtype": "float32", "std": (1, 1, 0)}),
        ("std", {"dtype": "float32", "std": (1, 1, float("nan"))}),
        ("mean", {"dtype": "uint8", "mean": MEAN}),
    ],
)
def test_an_invalid_output_names_the_argument(name, arguments):
    with pytest.raises(ValueError, match=name):
        Output(**arguments)


@pytest.mark.parametrize(
    ("name", "color"),
    [
        ("jitter", Color(jitter=np.ones((2, 3), np.float32))),
        ("jitter", Color(jitter=np.float32([[1, np.nan, 1]]))),
        ("order", Color(jitter=np.ones((1, 3), np.float32), order=np.uint8([[0, 1, 1]]))),
        ("lighting", Color(lighting=np.zeros(3, np.float32))),
    ],
)
def test_invalid_colours_name_the_argument(name, color):
    with pytest.raises(ValueError, match=name):
        render(make_pixels(4, 4), color)
