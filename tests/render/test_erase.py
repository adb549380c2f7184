"""Boxes of finished outputs: values in units of the output, and noise that is a pure function."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.render import Op, Output, Program, render_batch
from headrace.render.options import round_to_bfloat16
from images import make_pixels

OUTPUTS = [
    Output(dtype, layout=layout)
    for dtype in ("uint8", "float32", "float16", "bfloat16")
    for layout in ("channels_last", "channels_first")
]
each_output = pytest.mark.parametrize(
    "output", OUTPUTS, ids=lambda output: f"{output.dtype}-{output.layout}"
)


def render(steps, output, size=(20, 30)):
    """Return [H, W, 3] of the pixels after the steps, in the elements of the output."""
    pixels = make_pixels(*size)
    box = (0, 0, size[1], size[0])
    out, _ = render_batch([pixels], [box], size, program=Program.of([steps]), output=output)
    return out[0].transpose(1, 2, 0) if output.planar else out[0]


def as_elements(values, output):
    values = np.float32(values)
    if output.dtype == "uint8":
        return np.rint(values).clip(0, 255).astype(np.uint8)
    if output.dtype == "bfloat16":
        return round_to_bfloat16(values)
    with np.errstate(over="ignore"):
        return values.astype(output.element)


values = st.one_of(
    st.floats(-4, 4, width=32), st.floats(-300, 300, width=32), st.floats(-1e5, 1e5, width=32),
    st.floats(-(2**-12), 2**-12, width=32),
)  # fmt: skip


@each_output
@settings(max_examples=40)
@given(box=st.tuples(*[st.integers(-9, 35)] * 2, *[st.integers(0, 40)] * 2),
       values=st.tuples(values, values, values))  # fmt: skip
def test_values_are_written_as_elements_of_the_output(output, box, values):
    expected = render([], output).copy()
    left, top, width, height = box
    rows, columns = (
        slice(max(at, 0), max(at + size, 0)) for at, size in ((top, height), (left, width))
    )
    expected[rows, columns] = as_elements(values, output)
    erased = render([(Op.ERASE_OUTPUT, *box, *values)], output)
    np.testing.assert_array_equal(erased, expected)


@each_output
def test_erasing_outputs_comes_after_all_else(output):
    step = (Op.ERASE_OUTPUT, 3, 4, 5, 6, 1.0, 2.0, 3.0)
    first = render([step, (Op.FLIP,), (Op.INVERT,)], output)
    np.testing.assert_array_equal(first, render([(Op.FLIP,), (Op.INVERT,), step], output))


@each_output
def test_noise_fills_the_box_and_nothing_else(output):
    plain, noisy = render([], output), render([(Op.ERASE_NOISE, 5, 6, 9, 8, 1, 2)], output)
    changed = (plain != noisy).any(axis=2)
    assert changed[6:14, 5:14].mean() > 0.9
    changed[6:14, 5:14] = False
    assert not changed.any()


def test_noise_is_normal_and_has_no_pattern():
    size = (300, 400)
    noise = render([(Op.ERASE_NOISE, 0, 0, 400, 300, 7, 9)], Output("float32"), size)
    count = noise.size
    assert abs(noise.mean()) < 4 / count**0.5
    assert abs(noise.var() - 1) < 4 * (2 / count) ** 0.5
    assert abs((noise**3).mean()) < 4 * (15 / count) ** 0.5
    assert abs((noise**4).mean() - 3) < 4 * (96 / count) ** 0.5
    assert 4 < np.abs(noise).max() < 6.5
    for near in (
        noise[1:] * noise[:-1],
        noise[:, 1:] * noise[:, :-1],
        noise[..., 0] * noise[..., 1],
    ):
        assert abs(near.mean()) < 4 / near.size**0.5


def test_noise_for_bytes_is_uniform():
    size = (300, 400)
    noise = render([(Op.ERASE_NOISE, 0, 0, 400, 300, 7, 9)], Output(), size)
    counts = np.bincount(noise.ravel(), minlength=256)
    assert ((counts - noise.size / 256) ** 2).sum() / (noise.size / 256) < 255 + 5 * 510**0.5


def test_noise_depends_on_both_words_of_the_seed_only():
    draws = [
        render([(Op.ERASE_NOISE, 0, 0, 30, 20, *seed)], Output("float32")).tobytes()
        for seed in ((1, 0), (0, 1), (2**32 - 1, 5), (5, 2**32 - 1), (1, 0))
    ]
    assert len(set(draws)) == 4
    assert draws[0] == draws[4]


def test_noise_moves_with_its_box():
    whole = render([(Op.ERASE_NOISE, 2, 3, 9, 9, 4, 4)], Output("float32"))
    moved = render([(Op.ERASE_NOISE, -3, -2, 9, 9, 4, 4)], Output("float32"))
    np.testing.assert_array_equal(moved[:7, :6], whole[5:12, 5:11])


def test_noise_has_known_values():
    """Philox4x32-10 with counter and key 0 gives 6627e8d5 e169c58d bc57ac4c."""
    bytes_out = render([(Op.ERASE_NOISE, 0, 0, 1, 1, 0, 0)], Output())
    assert bytes_out[0, 0].tolist() == [0x66, 0xE1, 0xBC]
    words = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C])
    floats = render([(Op.ERASE_NOISE, 0, 0, 1, 1, 0, 0)], Output("float32"))[0, 0]
    # The share of a normal variable that lies below, from the error function.
    below = [0.5 * (1 + np.vectorize(math.erf)(x / 2**0.5)) for x in floats]
    np.testing.assert_allclose(below, (words + 0.5) / 2**32, atol=1e-6)
