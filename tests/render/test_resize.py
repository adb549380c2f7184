"""The resize equals Pillow's to the last bit, on every path of the core."""

from __future__ import annotations

import numpy as np
import PIL
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from headrace import _core
from headrace.render import render_batch
from images import make_pixels
from render import reference

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}

pillow_13 = pytest.mark.skipif(
    int(PIL.__version__.split(".")[0]) < 13, reason="older versions order the passes differently"
)


def resize(pixels, box, size, flip=False, resample="bilinear", simd="auto"):
    _core.set_simd(simd)
    try:
        out, status = render_batch([pixels], [box], size, flips=[flip], resample=resample)
    finally:
        _core.set_simd("auto")
    assert status[0] == 0
    return out[0]


def resize_with_pillow(pixels, box, size, flip=False, resample="bilinear"):
    left, top, width, height = box
    image = Image.fromarray(pixels).crop((left, top, left + width, top + height))
    image = image.resize(size[::-1], FILTERS[resample])
    return np.asarray(ImageOps.mirror(image) if flip else image)


def make_extreme(height, width, seed=0):
    """Make black and white noise, for which sums of bicubic weights leave 0..255 on both sides."""
    bits = np.random.default_rng(seed).integers(0, 2, (height, width, 3), dtype=np.uint8)
    return bits * np.uint8(255)


sizes = st.integers(1, 90)


@pillow_13
@settings(max_examples=250, deadline=None)
@given(st.data())
def test_any_box_to_any_size_equals_pillow(data):
    height, width = data.draw(sizes), data.draw(sizes)
    left, top = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    box_width = data.draw(st.integers(1, width - left))
    box_height = data.draw(st.integers(1, height - top))
    box, size = (left, top, box_width, box_height), (data.draw(sizes), data.draw(sizes))
    flip, resample = data.draw(st.booleans()), data.draw(st.sampled_from(sorted(FILTERS)))
    make = data.draw(st.sampled_from([make_pixels, make_extreme]))
    pixels = make(height, width)
    expected = resize_with_pillow(pixels, box, size, flip, resample)
    for simd in ("auto", "portable"):
        np.testing.assert_array_equal(
            resize(pixels, box, size, flip, resample, simd), expected, simd
        )


@pillow_13
@pytest.mark.parametrize("simd", ["auto", "portable"])
@pytest.mark.parametrize("resample", sorted(FILTERS))
@pytest.mark.parametrize(
    ("source", "size"),
    [
        ((1, 1), (1, 1)),
        ((1, 1), (224, 224)),
        ((1, 700), (5, 3)),
        ((700, 1), (3, 5)),
        ((7, 9), (224, 224)),
        ((2000, 3), (1, 1)),
        ((3, 2000), (2, 2)),
        ((1000, 1200), (9, 7)),
        ((224, 224), (224, 224)),
        ((224, 300), (224, 224)),
        ((300, 224), (224, 224)),
        ((100, 224), (224, 224)),
        ((333, 500), (224, 224)),
        ((401, 468), (223, 225)),
        # About so many taps an output.
        *[((6, taps * 19), (5, 38)) for taps in (2, 3, 5, 7, 8, 15, 16, 23, 33, 50, 70)],
    ],
)
def test_odd_and_usual_sizes_equal_pillow(source, size, resample, simd):
    pixels = make_pixels(*source)
    box = (0, 0, source[1], source[0])
    for flip in (False, True):
        np.testing.assert_array_equal(
            resize(pixels, box, size, flip, resample, simd),
            resize_with_pillow(pixels, box, size, flip, resample),
        )


@pillow_13
@pytest.mark.parametrize("difference", [-1, 0, 1])
def test_the_passes_have_the_order_of_pillow_13(difference):
    pixels = make_extreme(160, 120)
    size = (100, 90 + difference)  # 60 rows are lost, and about 30 columns
    expected = resize_with_pillow(pixels, (0, 0, 120, 160), size)
    np.testing.assert_array_equal(resize(pixels, (0, 0, 120, 160), size), expected)
    np.testing.assert_array_equal(reference.resize(pixels, size), expected)


def test_nothing_is_written_outside_the_slot():
    for width in (1, 2, 3, 5, 10, 11, 64, 75):
        out = np.full((3, 4, width, 3), 77, np.uint8)
        pixels = np.zeros((30, 20, 3), np.uint8)
        render_batch([pixels], [(0, 0, 20, 30)], (4, width), out=out[1:2])
        assert not out[1].any()
        assert (out[[0, 2]] == 77).all()
