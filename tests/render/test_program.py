"""Programs: every operation equals Pillow to the last bit, in any order, with any output and view."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from headrace import _core
from headrace.render import (
    Draws,
    Jobs,
    Op,
    Output,
    Program,
    RenderRequest,
    Target,
    View,
    decode_jpeg,
    render_batch,
)
from images import encode, make_pixels
from render import pillow_program, reference
from stored import read_photos

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
sides = st.integers(1, 64)
levels = st.integers(0, 255)
fills = st.tuples(levels, levels, levels)
filters = st.sampled_from([0, 2, 3])
factors = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 2.0, 100.0]), st.floats(-1, 3))
thresholds = st.one_of(st.sampled_from([0, 128, 255, 256]), st.floats(-10, 300))


def whole(least, most):
    return st.integers(least, most).map(float)


@st.composite
def affine(draw):
    """Matrices that turn, shear, scale and move, and some that reach beyond fixed point."""
    move = st.one_of(whole(-70, 70), st.floats(-70, 70))
    kind = draw(st.sampled_from(["move", "scale", "turn", "any", "far"]))
    a, b, d, e = 1.0, 0.0, 0.0, 1.0
    if kind == "scale":
        a, e = draw(st.floats(-3, 3)), draw(st.floats(-3, 3))
    elif kind == "turn":
        angle = draw(st.floats(-7, 7))
        a, b, d, e = np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)
    elif kind == "any":
        a, b, d, e = (draw(st.floats(-2, 2)) for _ in range(4))
    elif kind == "far":
        b, d = draw(st.floats(2_000, 90_000)), draw(st.floats(-0.5, 0.5))
    matrix = (a, b, draw(move), d, e, draw(move))
    return (*map(float, matrix), draw(filters), *draw(fills))


@st.composite
def perspective(draw):
    near, small, move = st.floats(0.3, 2), st.floats(-0.5, 0.5), st.floats(-20, 20)
    matrix = [near, small, move, small, near, move, st.floats(-0.004, 0.004)]
    values = [draw(value) for value in (*matrix, st.floats(-0.004, 0.004))]
    return (*values, draw(filters), *draw(fills))


PARAMETERS = {
    Op.BRIGHTNESS: st.tuples(factors),
    Op.CONTRAST: st.tuples(factors),
    Op.COLOR: st.tuples(factors),
    Op.SHARPNESS: st.tuples(factors),
    Op.HUE: st.tuples(st.floats(-0.5, 0.5)),
    Op.GRAYSCALE: st.just(()),
    Op.INVERT: st.just(()),
    Op.POSTERIZE: st.tuples(st.integers(0, 8)),
    Op.SOLARIZE: st.tuples(thresholds),
    Op.SOLARIZE_ADD: st.tuples(st.integers(-255, 255), thresholds),
    Op.AUTOCONTRAST: st.just(()),
    Op.EQUALIZE: st.just(()),
    Op.AFFINE: affine(),
    Op.PERSPECTIVE: perspective(),
    Op.GAUSSIAN_BLUR: st.tuples(st.one_of(st.floats(0, 4), st.floats(0, 200))),
    Op.FLIP: st.just(()),
    Op.FLIP_ROWS: st.just(()),
    Op.LIGHTING: st.tuples(*[st.floats(-300, 300, width=32)] * 3),
    Op.ERASE: st.tuples(whole(-70, 70), whole(-70, 70), whole(0, 99), whole(0, 99)).flatmap(
        lambda box: fills.map(lambda fill: (*box, *fill))
    ),
}


def steps_of(op):
    return PARAMETERS[op].map(lambda parameters: (op, *parameters))


any_step = st.sampled_from(sorted(PARAMETERS)).flatmap(steps_of)


@st.composite
def pictures(draw):
    """Pixels with structure, with noise, of two levels, or of one."""
    height, width, seed = draw(sides), draw(sides), draw(st.integers(0, 99))
    kind = draw(st.sampled_from(["waves", "noise", "two", "flat"]))
    if kind == "waves":
        return make_pixels(height, width, seed)
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    if kind == "flat":
        return np.broadcast_to(noise[:1, :1], noise.shape).copy()
    return noise if kind == "noise" else noise // 128 * 255


def cut(photo):
    return np.ascontiguousarray(decode_jpeg(photo)[:200, :224])


def render(pixels, steps, **options):
    """Render the pixels unscaled, so that only the steps change them."""
    height, width, _ = pixels.shape
    out, status = render_batch(
        [pixels],
        [(0, 0, width, height)],
        (height, width),
        program=Program.of([steps]),
        threads=1,
        **options,
    )
    assert status[0] == 0
    return out[0]


def check(pixels, steps):
    expected = pillow_program.run(pixels, steps)
    for simd in ("auto", "portable"):
        _core.set_simd(simd)
        try:
            np.testing.assert_array_equal(render(pixels, steps), expected, f"{simd} {steps}")
        finally:
            _core.set_simd("auto")


@pytest.mark.parametrize("op", sorted(PARAMETERS), ids=lambda op: op.name.lower())
@settings(max_examples=40)
@given(data=st.data())
def test_every_operation_equals_pillow(op, data):
    check(data.draw(pictures()), [data.draw(steps_of(op))])


@settings(max_examples=40)
@given(pictures(), st.lists(any_step, min_size=2, max_size=5))
def test_operations_follow_each_other(pixels, steps):
    check(pixels, steps)


@pytest.mark.parametrize("op", sorted(PARAMETERS), ids=lambda op: op.name.lower())
@settings(max_examples=3)
@given(data=st.data())
def test_photos_equal_pillow(op, data):
    photos = read_photos()
    photo = photos[data.draw(st.integers(0, len(photos) - 1))]
    check(cut(photo), [data.draw(steps_of(op))])


@pytest.mark.parametrize("levels", [2, 3, 16, 256])
@pytest.mark.parametrize("angle", [0.0, 0.001, 3.0, 29.0, 45.0, 90.0])
def test_bicubic_warps_equal_pillow_where_levels_are_close_to_integers(levels, angle):
    rng = np.random.default_rng(levels)
    pixels = rng.integers(0, levels, (150, 300, 3)) * (255 // (levels - 1))
    pixels[40:90, 100:250] = pixels[0, 0]
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    for matrix in (
        (cos, sin, -20.0, -sin, cos, 30.5),
        (1.0, sin, 0.25, 0.0, 1.0, 0.0),
        (1.0, 0.0, 0.0, sin, 1.0, 0.25),
        (0.5, 0.0, 10.25, 0.0, 0.5, 20.25),
    ):
        check(pixels.astype(np.uint8), [(Op.AFFINE, *matrix, 3, 9, 8, 7)])


def test_hue_equals_torchvision_for_every_colour(torchvision):
    colors = np.arange(2**24, dtype=np.uint32).view(np.uint8).reshape(4096, 4096, 4)[..., :3]
    colors = np.ascontiguousarray(colors)
    adjust_hue = torchvision.transforms.functional.adjust_hue
    for turn in (-0.2, 0.004):
        expected = np.asarray(adjust_hue(Image.fromarray(colors), turn))
        assert np.array_equal(render(colors, [(Op.HUE, turn)]), expected)


@pytest.mark.parametrize("turn", np.linspace(-0.5, 0.5, 21).tolist())
def test_hue_equals_torchvision_for_every_turn(torchvision, turn):
    grid = np.stack(np.meshgrid(*[np.arange(0, 256, 5, np.uint8)] * 3), -1).reshape(-1, 52, 3)
    expected = torchvision.transforms.functional.adjust_hue(Image.fromarray(grid), turn)
    np.testing.assert_array_equal(render(grid, [(Op.HUE, turn)]), np.asarray(expected))


def test_grayscale_equals_torchvision(torchvision):
    pixels = make_pixels(50, 60)
    gray = torchvision.transforms.functional.rgb_to_grayscale(Image.fromarray(pixels), 3)
    np.testing.assert_array_equal(render(pixels, [(Op.GRAYSCALE,)]), np.asarray(gray))


@pytest.mark.parametrize(("size", "sigma"), [(1, 1.0), (3, 0.1), (9, 0.7), (9, 2.0), (23, 1.5)])
@pytest.mark.parametrize("simd", ["auto", "portable"])
def test_torch_blur_is_torchvisions_but_for_a_level_in_a_thousand_pixels(
    torchvision, size, sigma, simd
):
    blur = torchvision.transforms.functional.gaussian_blur
    photos = [cut(photo) for photo in read_photos()[:4]]
    _core.set_simd(simd)
    try:
        for pixels in [*photos, make_pixels(40, 13), np.full((30, 30, 3), 77, np.uint8)]:
            expected = np.asarray(blur(Image.fromarray(pixels), [size, size], [sigma, sigma]))
            off = np.abs(render(pixels, [(Op.TORCH_BLUR, sigma, size)]).astype(int) - expected)
            assert off.max() <= 1
            assert off.any(axis=2).mean() <= 1e-3
    finally:
        _core.set_simd("auto")


@settings(max_examples=50)
@given(sides, sides, st.integers(0, 30), st.floats(0.01, 50))
def test_torch_blur_of_any_size_keeps_a_flat_picture(height, width, half, sigma):
    pixels = np.full((height, width, 3), (0, 99, 255), np.uint8)
    out = render(pixels, [(Op.TORCH_BLUR, sigma, 2 * half + 1)])
    np.testing.assert_array_equal(out, pixels)


def make_batch(count=9):
    rng = np.random.default_rng(5)
    images = [encode(90 + row, 70, row) for row in range(count)]
    boxes = [(row, 3, 40 + row, 50) for row in range(count)]
    jobs = [
        [
            (Op.COLOR, 1 + 0.1 * row),
            (Op.AFFINE, 0.9, 0.2, -3.0, -0.2, 0.9, 5.0, (0, 2, 3)[row % 3], 9, 8, 7),
            (Op.GAUSSIAN_BLUR, 0.4 * row),
            (Op.EQUALIZE,),
        ][: row % 5]
        for row in range(count)
    ]
    return images, boxes, jobs, rng.random(count) < 0.5


@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16", "bfloat16"])
def test_programs_run_before_every_kind_of_output(dtype, layout):
    images, boxes, jobs, flips = make_batch()
    output = Output(dtype, layout=layout) if dtype == "uint8" else Output(dtype, MEAN, STD, layout)
    plain, _ = render_batch(images, boxes, (31, 37), flips=flips)
    out, status = render_batch(
        images, boxes, (31, 37), flips=flips, output=output, program=Program.of(jobs)
    )
    assert not status.any()
    for row, steps in enumerate(jobs):
        expected = reference.convert(pillow_program.run(plain[row], steps), output)
        np.testing.assert_array_equal(out[row], expected)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_number_of_threads_changes_nothing(threads):
    images, boxes, jobs, flips = make_batch()
    program = Program.of(jobs)
    first, _ = render_batch(images, boxes, (31, 37), flips=flips, program=program, threads=1)
    again, _ = render_batch(images, boxes, (31, 37), flips=flips, program=program, threads=threads)
    np.testing.assert_array_equal(again, first)


def test_every_view_has_its_own_program():
    images, boxes, jobs, _ = make_batch()
    programs = [Program.of(jobs), None, Program.of(jobs[::-1])]
    draws = [Draws(np.int32(boxes), program=program) for program in programs]
    views = [View(each, Target((20, 20 + i))) for i, each in enumerate(draws)]
    request = RenderRequest(Jobs(images, draws[0]), views[0].target, views[1:])
    for view, (out, _) in zip(views, request.render_all(), strict=True):
        alone, _ = render_batch(images, boxes, view.target.size, program=view.draws.program)
        np.testing.assert_array_equal(out, alone)


def test_images_that_pillow_decodes_have_their_programs():
    steps = [[(Op.INVERT,)], [(Op.FLIP,), (Op.POSTERIZE, 3)]]
    images = [encode(30, 40, 1, "BMP"), encode(30, 40, 2, "BMP")]
    out, status = render_batch(images, [(0, 0, 40, 30)] * 2, (30, 40), program=Program.of(steps))
    assert not status.any()
    for row in range(2):
        expected = pillow_program.run(make_pixels(30, 40, row + 1), steps[row])
        np.testing.assert_array_equal(out[row], expected)
