"""The references are Pillow and NumPy in the plainest form, and nothing else."""

from __future__ import annotations

import io

import numpy as np
import PIL
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from headrace.render import Output
from headrace.render.options import round_to_bfloat16
from images import encode, make_pixels
from render import reference

sizes = st.integers(1, 60)


@pytest.mark.skipif(
    int(PIL.__version__.split(".")[0]) < 13, reason="older versions order the passes differently"
)
@given(sizes, sizes, sizes, sizes)
def test_two_resizes_of_an_axis_are_one_of_both(height, width, new_height, new_width):
    pixels = make_pixels(height, width)
    for name, filter in (("bilinear", 2), ("bicubic", 3)):
        expected = Image.fromarray(pixels).resize((new_width, new_height), filter)
        np.testing.assert_array_equal(
            reference.resize(pixels, (new_height, new_width), name), np.asarray(expected)
        )


def test_decode_is_open_and_convert():
    image = encode(20, 30, format="PNG", mode="RGBA")
    expected = np.asarray(Image.open(io.BytesIO(image)).convert("RGB"))
    np.testing.assert_array_equal(reference.decode(image), expected)


def test_render_without_options_is_crop_resize_and_mirror():
    pixels = make_pixels(30, 40)
    expected = Image.fromarray(pixels).crop((3, 4, 23, 19)).resize((9, 8), 2)
    out = reference.render(pixels, (3, 4, 20, 15), (8, 9), flip=True)
    np.testing.assert_array_equal(out[:, ::-1], np.asarray(expected))


def test_convert_moves_the_channels_first():
    pixels = make_pixels(4, 5)
    out = reference.convert(pixels, Output("float32", layout="channels_first"))
    assert out.shape == (3, 4, 5)
    assert out[2, 3, 4] == np.float32(pixels[3, 4, 2]) / np.float32(255)


def test_bfloat16_is_rounded_as_torch_rounds():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    ties = (rng.integers(0, 2**15, 500, dtype=np.uint32) << 16) | 0x8000
    values = np.concatenate([rng.normal(0, 3, 500).astype(np.float32), ties.view(np.float32)])
    values = values[np.isfinite(values)]
    expected = torch.from_numpy(values).to(torch.bfloat16).view(torch.uint16).numpy()
    np.testing.assert_array_equal(round_to_bfloat16(values), expected)
