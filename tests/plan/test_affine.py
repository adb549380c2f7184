"""Matrices give the same pixels as the functions of torchvision and Pillow that they stand for, bit for bit."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from headrace.plan.affine import affine_matrices, rotation_matrices
from headrace.plan.operations import Op
from headrace.plan.perspective import draw_corners, perspective_coefficients
from headrace.plan.steps import Steps
from headrace.plan.warps import Canvas, rotate, set_coefficient, shear_from_corner, translate_pixels
from render.pillow_program import apply_program

FILTERS = [0, 2, 3]
FILL = (200, 30, 90)
ANGLES = [0.0, -0.0, 90.0, 180.0, 270.0, -90.0, 360.0, 450.0, 1e-9, -30.0, 13.5, 135.0, 89.99999]


def make_image(width: int, height: int, seed: int = 0) -> Image.Image:
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))


def canvas_of(image: Image.Image, count: int, number: int) -> Canvas:
    sides = np.full(count, image.height), np.full(count, image.width)
    return Canvas(*sides, np.full(count, number), FILL)


def assert_same(image: Image.Image, steps: Steps, expected: list[Image.Image]) -> None:
    results = apply_program([image] * len(expected), *steps.arrays())
    for row, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        assert np.array_equal(np.asarray(result), np.asarray(wanted)), row


@pytest.mark.parametrize("number", FILTERS)
@pytest.mark.parametrize("size", [(32, 32), (31, 31), (40, 27), (27, 40), (1, 1)])
def test_rotations_are_pillows_with_its_shortcuts(size: tuple[int, int], number: int) -> None:
    image = make_image(*size)
    angles = np.array([*ANGLES, *np.random.default_rng(1).uniform(-200, 200, 30)])
    steps = rotate(angles, canvas_of(image, len(angles), number))
    expected = [image.rotate(angle, number, fillcolor=FILL) for angle in angles.tolist()]
    assert_same(image, steps, expected)


@pytest.mark.parametrize("center", [(0.0, 0.0), (5.0, 7.5), (16.0, 16.0), (-3.0, 50.0)])
@pytest.mark.parametrize("number", FILTERS)
def test_rotations_around_a_center_are_pillows(center: tuple[float, float], number: int) -> None:
    image = make_image(32, 32)
    angles = np.array(ANGLES)
    steps = rotate(angles, canvas_of(image, len(angles), number), center)
    turned = [
        image.rotate(angle, number, center=center, fillcolor=FILL) for angle in angles.tolist()
    ]
    assert_same(image, steps, turned)


@given(angle=st.floats(-720, 720), width=st.integers(1, 4096), height=st.integers(1, 4096))
def test_a_rotation_turns_around_the_middle(angle: float, width: int, height: int) -> None:
    sides = np.array([float(height)]), np.array([float(width)])
    (a, b, c, d, e, f), _ = (part[0] for part in rotation_matrices(np.array([angle]), *sides))
    x, y = width / 2, height / 2
    assert math.isclose(a * x + b * y + c, x, abs_tol=1e-9)
    assert math.isclose(d * x + e * y + f, y, abs_tol=1e-9)


@given(
    center=st.tuples(st.floats(-500, 500), st.floats(-500, 500)),
    angle=st.floats(-400, 400),
    translate=st.tuples(st.integers(-300, 300), st.integers(-300, 300)),
    scale=st.floats(0.05, 20),
    shear=st.tuples(st.floats(-80, 80), st.floats(-80, 80)),
)
def test_affine_matrices_are_torchvisions(
    torchvision: ModuleType,
    center: tuple[float, float],
    angle: float,
    translate: tuple[int, int],
    scale: float,
    shear: tuple[float, float],
) -> None:
    from torchvision.transforms.functional import _get_inverse_affine_matrix

    rows = [np.array([values], np.float64) for values in (center, angle, translate, scale, shear)]
    expected = _get_inverse_affine_matrix(list(center), angle, list(translate), scale, list(shear))
    assert affine_matrices(*rows)[0].tolist() == expected


@pytest.mark.parametrize("number", FILTERS)
def test_shears_and_translations_are_those_of_torchvisions_policies(
    torchvision: ModuleType, number: int
) -> None:
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.autoaugment import _apply_op

    mode = {0: "nearest", 2: "bilinear", 3: "bicubic"}[number]
    image = make_image(45, 38)
    values = np.array([0.0, 0.3, -0.3, 0.99, -0.99, 0.0301, 14.7, -14.7, 32.0, -3.99])
    canvas = canvas_of(image, len(values), number)
    for name, steps in {
        "ShearX": shear_from_corner(values, canvas, 0),
        "ShearY": shear_from_corner(values, canvas, 1),
        "TranslateX": translate_pixels(values, canvas, 0),
        "TranslateY": translate_pixels(values, canvas, 1),
    }.items():
        expected = [
            _apply_op(image, name, value, InterpolationMode(mode), FILL)
            for value in values.tolist()
        ]
        assert_same(image, steps, expected)


def test_a_coefficient_leaves_the_others_as_in_the_identity() -> None:
    canvas = canvas_of(make_image(4, 4), 1, 2)
    params = set_coefficient(np.array([0.25]), canvas, 3).params[0, 0]
    assert params.tolist() == [1, 0, 0, 0.25, 1, 0, 2, *FILL, 0, 0]


@pytest.mark.parametrize("scale", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("number", FILTERS)
def test_perspectives_are_torchvisions(torchvision: ModuleType, scale: float, number: int) -> None:
    from torchvision.transforms import InterpolationMode, functional

    image = make_image(61, 40)
    count = 40
    heights, widths = np.full(count, 40), np.full(count, 61)
    corners = draw_corners(np.random.default_rng(2).random((count, 8)), heights, widths, scale)
    coefficients, solved = perspective_coefficients(corners, heights, widths)
    assert solved.all()
    steps = Steps.one(Op.PERSPECTIVE, count, *coefficients.T, float(number), *FILL)
    mode = InterpolationMode({0: "nearest", 2: "bilinear", 3: "bicubic"}[number])
    start = [[0, 0], [60, 0], [60, 39], [0, 39]]
    expected = [functional.perspective(image, start, end, mode, FILL) for end in corners.tolist()]
    assert_same(image, steps, expected)


def test_no_distortion_changes_nothing() -> None:
    """torchvision's solution of this has noise of 1e-17, for which Pillow rounds some levels down."""
    sides = np.full(3, 40), np.full(3, 61)
    corners = draw_corners(np.random.default_rng(2).random((3, 8)), *sides, 0.0)
    coefficients, _ = perspective_coefficients(corners, *sides)
    assert coefficients.tolist() == [[1, 0, 0, 0, 1, 0, 0, 0]] * 3


def test_corners_in_a_line_have_no_solution() -> None:
    corners = np.array([[[0, 0], [5, 5], [9, 9], [0, 9]], [[0, 0], [9, 0], [9, 9], [0, 9]]])
    coefficients, solved = perspective_coefficients(corners, np.full(2, 10), np.full(2, 10))
    assert solved.tolist() == [False, True]
    assert np.isfinite(coefficients).all()
    np.testing.assert_allclose(coefficients[1], [1, 0, 0, 0, 1, 0, 0, 0], atol=1e-6)


def test_corners_lie_where_torchvision_draws_them(torchvision: ModuleType) -> None:
    from torchvision.transforms import RandomPerspective

    sides = np.full(20_000, 8), np.full(20_000, 12)
    uniforms = np.random.default_rng(3).random((20_000, 8))
    drawn = draw_corners(uniforms, *sides, 0.7).reshape(-1, 8)
    ends = [RandomPerspective.get_params(12, 8, 0.7)[1] for _ in range(2000)]
    original = np.array(ends).reshape(-1, 8)
    assert drawn.min(axis=0).tolist() == original.min(axis=0).tolist()
    assert drawn.max(axis=0).tolist() == original.max(axis=0).tolist()
    np.testing.assert_allclose(drawn.mean(axis=0), original.mean(axis=0), atol=0.15)
