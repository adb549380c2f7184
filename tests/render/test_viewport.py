"""Parts of resized pictures are what Pillow gives for the whole picture, cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from headrace import _core
from headrace.render import Viewport, build_seek, decode_jpeg, render_batch
from images import encode, make_pixels

PICTURE = encode(61, 83, seed=1, subsampling=2)
PIXELS = decode_jpeg(PICTURE)
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def cut_resized(
    box: tuple[int, int, int, int],
    full: tuple[int, int],
    offset: tuple[int, int],
    size: tuple[int, int],
    resample: str,
) -> np.ndarray:
    left, top, width, height = box
    crop = Image.fromarray(PIXELS).crop((left, top, left + width, top + height))
    resized = np.asarray(crop.resize(full[::-1], FILTERS[resample]))
    out = np.zeros((*size, 3), np.uint8)
    for y in range(size[0]):
        for x in range(size[1]):
            row, column = y + offset[1], x + offset[0]
            if 0 <= row < full[0] and 0 <= column < full[1]:
                out[y, x] = resized[row, column]
    return out


@given(
    st.data(),
    st.tuples(st.integers(1, 90), st.integers(1, 90)),
    st.tuples(st.integers(-20, 90), st.integers(-20, 90)),
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.booleans(),
    st.sampled_from(sorted(FILTERS)),
    st.sampled_from(["auto", "portable"]),
)
def test_a_viewport_shows_a_part_of_what_pillow_resizes(
    data: st.DataObject,
    full: tuple[int, int],
    offset: tuple[int, int],
    size: tuple[int, int],
    flip: bool,
    resample: str,
    simd: str,
) -> None:
    left, top = data.draw(st.integers(0, 82)), data.draw(st.integers(0, 60))
    box = (left, top, data.draw(st.integers(1, 83 - left)), data.draw(st.integers(1, 61 - top)))
    expected = cut_resized(box, full, offset, size, resample)
    expected = expected[:, ::-1] if flip else expected
    viewport = Viewport(np.array([full, full]), np.array([offset, offset]))
    _core.set_simd(simd)
    try:
        out, status = render_batch(
            [PICTURE, np.ascontiguousarray(PIXELS)],
            [box, box],
            size,
            viewport=viewport,
            flips=[flip, flip],
            seeks=[build_seek(PICTURE), b""],
            resample=resample,
        )
    finally:
        _core.set_simd("auto")
    assert status.tolist() == [0, 0]
    assert np.array_equal(out[0], expected)
    assert np.array_equal(out[1], expected)


def test_viewports_of_a_wrong_shape_or_size_are_named() -> None:
    image = make_pixels(8, 8)
    for sizes, offsets, reason in (
        (np.ones((2, 2), int), np.zeros((1, 2), int), "viewport.sizes"),
        (np.ones((1, 2), int), np.zeros((1, 3), int), "viewport.offsets"),
        (np.full((1, 2), 4.5), np.zeros((1, 2), int), "viewport.sizes"),
        (np.ones((1, 2), int), np.full((1, 2), np.nan), "viewport.offsets"),
        (np.zeros((1, 2), int), np.zeros((1, 2), int), "from 1 to"),
    ):
        with pytest.raises(ValueError, match=reason):
            render_batch([image], [[0, 0, 8, 8]], (4, 4), viewport=Viewport(sizes, offsets))
