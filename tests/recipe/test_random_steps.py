"""Single random steps: torchvision's probabilities and ranges, and its pixels for each parameter."""

from __future__ import annotations

import pickle
from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from distributions import assert_same_distribution, bin_of
from headrace.plan.operations import Op
from headrace.recipe import policies as ours
from headrace.recipe.program_step import ProgramStep, draw_steps
from headrace.recipe.randomness import Randomness
from headrace.recipe.timm_config import read_timm_policy
from headrace.recipe.timm_policies import AugmentOp, ThreeAugment
from headrace.recipe.torchvision_policies import read_policy
from headrace.render import Program
from recipe.programs import (
    COUNT,
    assert_same_pixels,
    draw_programs,
    list_programs,
    make_image,
    make_randomness,
)

PLAIN: list[tuple[Any, Op, tuple[float, ...]]] = [
    (ours.RandomGrayscale(0.3), Op.GRAYSCALE, ()),
    (ours.RandomInvert(0.3), Op.INVERT, ()),
    (ours.RandomAutocontrast(0.3), Op.AUTOCONTRAST, ()),
    (ours.RandomEqualize(0.3), Op.EQUALIZE, ()),
    (ours.RandomPosterize(3, 0.3), Op.POSTERIZE, (3,)),
    (ours.RandomSolarize(128.5, 0.3), Op.SOLARIZE, (128.5,)),
    (ours.RandomAdjustSharpness(1.7, 0.3), Op.SHARPNESS, (1.7,)),
    (ours.RandomFlip(0.3), Op.FLIP, ()),
    (ours.RandomFlip(0.3, rows=True), Op.FLIP_ROWS, ()),
]
STEPS: list[ProgramStep] = [
    *(step for step, _, _ in PLAIN),
    ours.ColorJitter(0.4, 0.4, 0.2, 0.1),
    ours.GaussianBlur(9),
    ours.PillowBlur(),
    ours.RandomRotation(30),
    ours.RandomAffine(10, (0.1, 0.2), (0.5, 2.0), 5),
    ours.RandomPerspective(),
    ours.RandomErasing(value="random", count=(1, 3)),
    ours.RandomErasing(value="color"),
    ours.RandAugment(),
    ours.TrivialAugmentWide(),
    ours.AutoAugment(),
    AugmentOp("Rotate", magnitude_std=0.5),
    ThreeAugment(),
    ours.RandomApply((ours.ColorJitter(0.4), ours.RandomInvert())),
    ours.RandomChoice((ours.RandomInvert(), ours.RandomEqualize())),
    ours.RandomOrder((ours.RandomInvert(), ours.RandomEqualize())),
]


@pytest.mark.parametrize(("step", "op", "params"), PLAIN, ids=str)
def test_a_step_comes_with_its_probability(
    step: ProgramStep, op: Op, params: tuple[float, ...]
) -> None:
    lines = draw_programs(step)
    assert {line[0] for line in lines if line} == {(op, params + (0.0,) * (12 - len(params)))}
    assert abs(sum(map(len, lines)) - 0.3 * COUNT) < 200


@pytest.mark.parametrize("step", STEPS, ids=lambda step: str(step)[:40])
def test_a_sample_has_its_draws_in_any_batch_and_its_own_in_every_epoch(step: ProgramStep) -> None:
    whole = list_programs(step.draw(make_randomness(200), 40, 56))
    rows = np.array([7, 150, 3])
    assert list_programs(step.draw(Randomness(1, 0, rows), 40, 56)) == [whole[row] for row in rows]
    for other in (Randomness(2, 0, np.arange(200)), Randomness(1, 1, np.arange(200))):
        assert list_programs(step.draw(other, 40, 56)) != whole


@pytest.mark.parametrize("step", STEPS, ids=lambda step: str(step)[:40])
def test_sizes_may_differ_from_image_to_image(step: ProgramStep) -> None:
    sides = np.arange(20, 84), np.arange(90, 26, -1)
    randomness = make_randomness(64)
    mixed = list_programs(step.draw(randomness, *sides))
    for row in (0, 31, 63):
        alone = step.draw(Randomness(1, 0, np.array([row])), int(sides[0][row]), int(sides[1][row]))
        assert list_programs(alone) == [mixed[row]]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: str(step)[:40])
def test_steps_are_values(step: ProgramStep) -> None:
    copy = pickle.loads(pickle.dumps(step))
    assert copy == step and hash(copy) == hash(step)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: str(step)[:40])
def test_what_steps_draw_is_in_the_ranges_of_the_core(step: ProgramStep) -> None:
    program = pytest.importorskip("headrace.render.program")
    program.Program(*step.draw(make_randomness(2000), 40, 56).arrays()).check(2000)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: str(step)[:40])
def test_the_same_step_twice_draws_independently(step: ProgramStep) -> None:
    both = draw_steps([step, step], make_randomness(200), 40, 56)
    slots = both.codes.shape[1] // 2
    first, second = both.codes[:, :slots], both.codes[:, slots:]
    same = np.array_equal(first, second)
    assert not same or not np.array_equal(both.params[:, :slots], both.params[:, slots:])
    alone = step.draw(make_randomness(200), 40, 56)
    assert np.array_equal(alone.codes, first)


GOLDEN = [
    (
        ours.RandAugment(),
        [
            [(Op.COLOR, 1.27, 0.0, 0.0), (Op.COLOR, 0.73, 0.0, 0.0)],
            [(Op.AUTOCONTRAST, 0.0, 0.0, 0.0), (Op.AUTOCONTRAST, 0.0, 0.0, 0.0)],
            [(Op.AFFINE, 1.0, 0.0, 0.0), (Op.AFFINE, 1.0, 0.0, 0.0)],
            [(Op.AFFINE, 0.9877, -0.1564, 3.4734), (Op.SHARPNESS, 1.27, 0.0, 0.0)],
        ],
    ),
    (
        ours.TrivialAugmentWide(),
        [
            [(Op.COLOR, 1.594, 0.0, 0.0)],
            [(Op.AUTOCONTRAST, 0.0, 0.0, 0.0)],
            [(Op.AFFINE, 1.0, 0.0, 0.0)],
            [(Op.AFFINE, -0.6494, -0.7604, 61.3927)],
        ],
    ),
    (
        read_timm_policy("rand-m9-mstd0.5-inc1"),
        [
            [],
            [],
            [(Op.SHARPNESS, 0.2177, 0.0, 0.0), (Op.AFFINE, 1.0, 0.0, 0.0)],
            [(Op.AFFINE, 0.9017, -0.4323, 11.3986)],
        ],
    ),
    (
        ours.RandomErasing(value="random"),
        [[], [], [(Op.ERASE_NOISE, 12.0, 14.0, 8.0)], [(Op.ERASE_NOISE, 19.0, 11.0, 37.0)]],
    ),
]


@pytest.mark.parametrize(("step", "expected"), GOLDEN, ids=lambda value: str(value)[:20])
def test_a_seed_draws_the_same_in_every_release(step: Any, expected: list[Any]) -> None:
    lines = [
        [(op, *(round(value, 4) for value in params[:3])) for op, params in line]
        for line in draw_programs(step, 4)
    ]
    assert lines == expected


def test_views_draw_independently() -> None:
    first, second = (make_randomness(100).of_view(view).of_step(3) for view in (0, 1))
    assert not np.array_equal(first.step_uniforms(1), second.step_uniforms(1))


def test_steps_inside_of_steps_have_streams_of_their_own() -> None:
    inner = ours.RandomApply([ours.RandomInvert(), ours.RandomInvert()], 1.0)  # type: ignore[arg-type]
    outer = ours.RandomApply([inner, ours.RandomInvert()], 1.0)  # type: ignore[arg-type]
    assert (inner.streams, outer.streams) == (3, 5)
    both = draw_steps([outer, ours.RandomInvert()], make_randomness(), 8, 8)
    used = both.codes == Op.INVERT
    assert used.shape == (COUNT, 4)
    assert abs(np.corrcoef(used.T) - np.eye(4)).max() < 0.05


def test_too_many_steps_are_refused() -> None:
    steps = [ours.RandomInvert()] * 300
    with pytest.raises(ValueError, match="more than 236 random steps"):
        draw_steps(steps, make_randomness(2), 8, 8)
    assert len(list_programs(draw_steps(steps[:236], make_randomness(2), 8, 8))) == 2


def test_no_steps_draw_nothing() -> None:
    assert list_programs(draw_steps([], make_randomness(2), 8, 8)) == [[], []]


JITTERS = [
    (0.4, 0.4, 0.2, 0.1),
    (0.8, 0.8, 0.8, 0.2),
    (0, 0, 0, (-0.5, 0.3)),
    ((0.2, 3.0), 0, 1.0, 0),
]


@pytest.mark.parametrize("strengths", JITTERS)
def test_jitter_has_torchvisions_order_and_ranges(
    torchvision: ModuleType, strengths: tuple[Any, ...]
) -> None:
    import torch
    from torchvision.transforms import ColorJitter

    torch.manual_seed(0)
    original = ColorJitter(*strengths)
    ops = (Op.BRIGHTNESS, Op.CONTRAST, Op.COLOR, Op.HUE)
    orders, values = [], []
    for _ in range(COUNT):
        order, *factors = original.get_params(
            original.brightness, original.contrast, original.saturation, original.hue
        )
        steps = [(ops[i], factors[i]) for i in order.tolist() if factors[i] is not None]
        orders.append(tuple(op for op, _ in steps))
        values += [(op, bin_of(value, -0.5, 3.5, 80)) for op, value in steps]
    lines = draw_programs(ours.ColorJitter(*strengths))
    assert_same_distribution((tuple(op for op, _ in line) for line in lines), orders)
    drawn = ((op, bin_of(params[0], -0.5, 3.5, 80)) for line in lines for op, params in line)
    assert_same_distribution(drawn, values)


def test_jitter_has_torchvisions_pixels(torchvision: ModuleType) -> None:
    from torchvision.transforms import functional as F

    functions = {
        Op.BRIGHTNESS: F.adjust_brightness,
        Op.CONTRAST: F.adjust_contrast,
        Op.COLOR: F.adjust_saturation,
        Op.HUE: F.adjust_hue,
    }
    steps = ours.ColorJitter(0.4, 0.4, 0.2, 0.5).draw(make_randomness(40), 40, 56)

    def run(line: Any) -> Any:
        def apply(image: Image.Image) -> Image.Image:
            for op, params in line:
                image = functions[op](image, params[0])
            return image

        return apply

    assert_same_pixels(make_image(), steps, [run(line) for line in list_programs(steps)])


def test_blurs_have_their_ranges() -> None:
    sigmas = np.array([line[0][1] for line in draw_programs(ours.GaussianBlur(9, (0.1, 2.0)))])
    radii = np.array([line[0][1] for line in draw_programs(ours.PillowBlur((0.1, 2.0)))])
    for values in (sigmas[:, 0], radii[:, 0]):
        np.testing.assert_allclose(np.quantile(values, [0, 0.5, 1]), [0.1, 1.05, 2.0], atol=0.03)
    assert (sigmas[:, 1] == 9).all()
    assert draw_programs(ours.GaussianBlur(3, 0.7), 1)[0][0][1][:2] == (float(np.float32(0.7)), 3)


def test_rotations_have_their_range_and_pillows_pixels() -> None:
    step = ours.RandomRotation((-20, 50), "bilinear", (10.0, 4.0), (9, 8, 7))
    steps = step.draw(make_randomness(30), 40, 56)
    uniforms = make_randomness(30).step_uniforms(1)[:, 0]
    angles = (-20 + 70 * uniforms).tolist()
    rotated = [
        lambda image, angle=angle: image.rotate(angle, 2, center=(10.0, 4.0), fillcolor=(9, 8, 7))
        for angle in angles
    ]
    assert_same_pixels(make_image(), steps, rotated)


def test_affine_draws_what_torchvision_draws(torchvision: ModuleType) -> None:
    import torch
    from torchvision.transforms import RandomAffine
    from torchvision.transforms.functional import _get_inverse_affine_matrix

    options: dict[str, Any] = {
        "degrees": (-10, 40),
        "translate": (0.1, 0.3),
        "scale": (0.5, 2.0),
        "shear": (-5, 5, 0, 20),
    }
    torch.manual_seed(0)
    original = RandomAffine(**options)
    ranges = original.degrees, original.translate, original.scale, original.shear
    drawn = [original.get_params(*ranges, [56, 40]) for _ in range(COUNT)]
    matrices = np.array([_get_inverse_affine_matrix([28.0, 20.0], *line) for line in drawn])
    steps = draw_programs(ours.RandomAffine(**options))
    found = np.array([line[0][1][:6] for line in steps])
    for column in range(6):
        low, high = matrices[:, column].min(), matrices[:, column].max()
        assert_same_distribution(
            (bin_of(value, low, high) for value in found[:, column].tolist()),
            (bin_of(value, low, high) for value in matrices[:, column].tolist()),
        )


def test_affine_moves_whole_pixels_only() -> None:
    lines = draw_programs(ours.RandomAffine(0, (0.1, 0.3)), 500)
    params = np.array([line[0][1] for line in lines])
    assert (params[:, [0, 4]] == 1).all() and (params[:, [1, 3]] == 0).all()
    assert set(params[:, 2]) == set(range(-6, 7)) and set(params[:, 5]) == set(range(-12, 13))


def test_perspectives_come_with_their_probability() -> None:
    lines = draw_programs(ours.RandomPerspective(0.5, 0.25, "bicubic", 3))
    assert abs(sum(map(len, lines)) - 0.25 * COUNT) < 200
    assert {(line[0][0], line[0][1][8:]) for line in lines if line} == {
        (Op.PERSPECTIVE, (3, 3, 3, 3))
    }


def test_fixed_angles_scales_and_turns_of_hue_have_torchvisions_pixels(
    torchvision: ModuleType,
) -> None:
    """torch draws float32, also where there is nothing to draw."""
    T, rng = torchvision.transforms.v2, np.random.default_rng(3)
    image = Image.fromarray(rng.integers(0, 256, (64, 80, 3), np.uint8))
    bilinear, angles = T.InterpolationMode.BILINEAR, [0.1 + 3.3 * n for n in range(20)]
    originals = [
        *(T.RandomRotation((angle, angle), interpolation=bilinear) for angle in angles),
        *(
            T.RandomAffine((a, a), scale=(0.7, 0.7), shear=(10.3, 10.3, -a, -a), interpolation=2)
            for a in angles
        ),
        *(T.ColorJitter(hue=(turn / 255, turn / 255)) for turn in range(1, 128)),
    ]
    for original in originals:
        step = read_policy(original)
        assert isinstance(step, ProgramStep)
        steps = step.draw(make_randomness(1), image.height, image.width)
        assert_same_pixels(image, steps, [original])


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 2), (3, 3), (2, 60_000), (40, 56)])
def test_perspectives_without_a_solution_leave_the_image_as_it_is(size: tuple[int, int]) -> None:
    steps = ours.RandomPerspective(1.0, 1.0).draw(make_randomness(), *size)
    Program(*steps.arrays()).check(len(steps.codes))
    assert (steps.codes >= 0).any() == (min(size) > 1)


def test_all_steps_of_an_apply_come_or_none() -> None:
    step = ours.RandomApply((ours.RandomInvert(1.0), ours.RandomEqualize(1.0)), 0.8)
    counts = Counter(tuple(op for op, _ in line) for line in draw_programs(step))
    assert set(counts) == {(), (Op.INVERT, Op.EQUALIZE)} and abs(counts[()] - 0.2 * COUNT) < 200


@pytest.mark.parametrize("p", [None, (1.0, 5.0, 4.0), (0.0, 1.0, 0.0)])
def test_one_of_a_choice_comes(p: tuple[float, ...] | None) -> None:
    inner = (ours.RandomInvert(1.0), ours.RandomEqualize(1.0), ours.RandomApply(STEPS[:2], 1.0))  # type: ignore[arg-type]
    ops = [line[0][0] if line else None for line in draw_programs(ours.RandomChoice(inner, p))]
    weights = np.array(p or (1.0, 1.0, 1.0))
    expected = weights / weights.sum()
    assert abs(ops.count(Op.EQUALIZE) - expected[1] * COUNT) < 200
    third = expected[2]
    assert abs(ops.count(Op.INVERT) - (expected[0] + third * 0.7 * 0.3) * COUNT) < 200
    assert abs(ops.count(Op.GRAYSCALE) - third * 0.3 * COUNT) < 200


def test_every_order_is_equally_likely() -> None:
    inner = (ours.RandomInvert(1.0), ours.RandomEqualize(1.0), ours.RandomAutocontrast(1.0))
    lines = draw_programs(ours.RandomOrder(inner))
    counts = Counter(tuple(op for op, _ in line) for line in lines)
    assert len(counts) == 6 and all(abs(count - COUNT / 6) < 180 for count in counts.values())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ours.RandomGrayscale(1.5), "p is 1.5"),
        (lambda: ours.RandomPosterize(0), "bits is 0"),
        (lambda: ours.RandomPosterize(9), "bits is 9"),
        (lambda: ours.RandomSolarize(float("nan")), "threshold is nan"),
        (lambda: ours.RandomAdjustSharpness(-1), "sharpness_factor is -1"),
        (lambda: ours.GaussianBlur(4), "kernel_size is 4"),
        (lambda: ours.GaussianBlur(3, 0.0), "sigma is 0.0"),
        (lambda: ours.GaussianBlur(3, (2.0, 1.0)), "sigma is"),
        (lambda: ours.PillowBlur(-1.0), "radius is -1"),
        (lambda: ours.ColorJitter(hue=0.6), "hue is 0.6"),
        (lambda: ours.ColorJitter(hue=(0.2, -0.2)), "hue is"),
        (lambda: ours.RandomRotation(-5), "degrees is -5"),
        (lambda: ours.RandomAffine(0, (0.1, 1.1)), "translate is"),
        (lambda: ours.RandomAffine(0, None, (0.0, 1.0)), "scale is"),
        (lambda: ours.RandomAffine(0, shear=(1.0, 2.0, 3.0)), "shear is"),
        (lambda: ours.RandomPerspective(1.5), "distortion_scale is 1.5"),
        (lambda: ours.RandomApply(()), "transforms is empty"),
        (lambda: ours.RandomChoice((ours.RandomInvert(),), (0.0,)), "p is"),
        (lambda: ours.RandomErasing(scale=(0.5, 1.5)), "scale is"),
        (lambda: ours.RandomErasing(ratio=(0.0, 1.0)), "ratio is"),
        (lambda: ours.RandomErasing(value=(1.0, 2.0)), "value is"),
        (lambda: ours.RandomErasing(value="noise"), "value is 'noise'"),  # type: ignore[arg-type]
        (lambda: ours.RandomErasing(value=300.0, pixels=True), "value is 300"),
        (lambda: ours.RandomErasing(count=0), "count is 0"),
    ],
)
def test_impossible_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_functions_inside_of_a_container_are_refused() -> None:
    with pytest.raises(TypeError, match="give transforms of colours"):
        ours.RandomApply((lambda image: image,))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [ours.RandomApply, ours.RandomChoice, ours.RandomOrder])
def test_erasing_inside_of_a_container_would_come_after_the_steps_behind_it(kind: Any) -> None:
    with pytest.raises(ValueError, match="after all other steps: put it after Normalize"):
        kind((ours.RandomErasing(),))
    kind((ours.RandomErasing(pixels=True),))
