"""torchvision's policies: the operations and magnitudes it would draw, and its pixels for each of them."""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from distributions import assert_same_distribution
from headrace.plan.magnitudes import NAMES, Space, make_steps
from headrace.plan.operations import Op
from headrace.plan.warps import Canvas
from headrace.recipe.policies import AutoAugment, RandAugment, TrivialAugmentWide
from recipe.programs import (
    COUNT,
    assert_same_pixels,
    draw_programs,
    make_image,
    make_randomness,
)

FILL = (124, 116, 103)
POLICIES = [
    (TrivialAugmentWide(), "TrivialAugmentWide", {}),
    (TrivialAugmentWide(11, "bilinear", 7), "TrivialAugmentWide", {"num_magnitude_bins": 11}),
    (RandAugment(), "RandAugment", {}),
    (
        RandAugment(3, 5, 10),
        "RandAugment",
        {"num_ops": 3, "magnitude": 5, "num_magnitude_bins": 10},
    ),
    (AutoAugment(), "AutoAugment", {"policy": "imagenet"}),
    (AutoAugment("cifar10"), "AutoAugment", {"policy": "cifar10"}),
    (AutoAugment("svhn"), "AutoAugment", {"policy": "svhn"}),
]


def record_v1(
    torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, **options: Any
) -> list[Any]:
    """What torchvision draws for images of 40 x 56: lists of (name, magnitude)."""
    import torch
    from torchvision.transforms import AutoAugmentPolicy, autoaugment

    calls: list[tuple[str, float]] = []

    def note(image: Any, op_name: str, magnitude: float, **others: Any) -> Any:
        calls.append((op_name, magnitude))
        return image

    monkeypatch.setattr(autoaugment, "_apply_op", note)
    if "policy" in options:
        options["policy"] = AutoAugmentPolicy(options["policy"])
    transform = getattr(autoaugment, name)(**options)
    torch.manual_seed(3)
    image, drawn = make_image(), []
    for _ in range(COUNT):
        calls.clear()
        transform(image)
        drawn.append([call for call in calls if call[0] != "Identity"])
    return drawn


GEOMETRIC = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")


def describe_step(step: tuple[Op, tuple[float, ...]]) -> tuple[str, float]:
    """torchvision's name and magnitude of a step of ours. Matrices that move nothing count as shears along y."""
    op, params = step
    if op in (Op.BRIGHTNESS, Op.CONTRAST, Op.COLOR, Op.SHARPNESS):
        return op.name.capitalize(), params[0] - 1
    if op is not Op.AFFINE:
        return {"AUTOCONTRAST": "AutoContrast"}.get(op.name, op.name.capitalize()), params[0]
    a, b, c, d, e, f = params[:6]
    if a == e == 1 and c == f == 0:
        return ("ShearX", b) if b else ("ShearY", d)
    if a == e == 1 and b == d == 0:
        return ("TranslateX", c) if c else ("TranslateY", f)
    return "Rotate", float(np.degrees(np.arctan2(-b, a)))


def tell_apart(steps: list[tuple[str, float]], place: int) -> Any:
    """The step in a place as both sides know it: whole pixels, geometry without sign, and all that moves nothing alike."""
    if place >= len(steps):
        return None
    name, value = steps[place]
    if name not in GEOMETRIC:
        return name, round(value, 3)
    strength = int(abs(value)) if name.startswith("T") else round(abs(value), 3)
    return (name, strength) if strength else "still"


@pytest.mark.parametrize(("policy", "name", "options"), POLICIES, ids=lambda value: str(value)[:30])
def test_policies_draw_what_torchvision_draws(
    torchvision: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    policy: Any,
    name: str,
    options: dict[str, Any],
) -> None:
    theirs = record_v1(torchvision, monkeypatch, name, **options)
    ours = [list(map(describe_step, line)) for line in draw_programs(policy)]
    both = [
        [tuple(tell_apart(line, place) for place in range(3)) for line in drawn]
        for drawn in (ours, theirs)
    ]
    for place in range(3):
        assert_same_distribution(*([line[place] for line in lines] for lines in both))
    assert_same_distribution(*([tuple(map(kind_of, line)) for line in lines] for lines in both))


def kind_of(step: Any) -> Any:
    return step[0] if isinstance(step, tuple) else step


@pytest.mark.parametrize("policy", [TrivialAugmentWide(), RandAugment(1)])
def test_both_signs_are_equally_likely(policy: Any) -> None:
    steps = [describe_step(line[0]) for line in draw_programs(policy) if line]
    for name in ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness"):
        values = [value for other, value in steps if other == name and value]
        assert abs(np.mean(np.sign(values))) < 4 / np.sqrt(len(values))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("number", [0, 2, 3])
@pytest.mark.parametrize("policy", ["TrivialAugmentWide", "RandAugment", "AutoAugment"])
def test_every_operation_has_torchvisions_pixels(
    torchvision: ModuleType, policy: str, number: int, version: int
) -> None:
    bins = {"TrivialAugmentWide": 31, "RandAugment": 31, "AutoAugment": 10}[policy]
    space = Space.wide(bins, version) if policy.startswith("T") else Space(bins, version=version)
    image = make_image()
    names = NAMES if policy == "AutoAugment" else NAMES[:-1]
    picks = [0, 1, 5, bins // 2, bins - 1] if number else list(range(bins))
    for place, name in enumerate(names):
        if policy == "AutoAugment" and name == "Identity":
            continue
        index, negative = np.repeat(picks, 2), np.tile([False, True], len(picks))
        canvas = Canvas(*(np.full(len(index), side) for side in (40, 56, number)), FILL)
        steps = make_steps(space, np.full(len(index), place), index, negative, canvas)
        originals = [
            find_original(policy, version, name, bins, int(i), bool(sign), number)
            for i, sign in zip(index, negative, strict=True)
        ]
        assert_same_pixels(image, steps, originals)


def find_original(
    policy: str, version: int, name: str, bins: int, index: int, negative: bool, number: int
) -> Any:
    """torchvision's function with the magnitude that it has in this bin."""
    from torchvision.transforms import InterpolationMode, autoaugment, v2

    mode = InterpolationMode({0: "nearest", 2: "bilinear", 3: "bicubic"}[number])
    if version == 1:
        transform = getattr(autoaugment, policy)(interpolation=mode, fill=FILL)
        size = () if policy.startswith("T") else ((40, 56),)
        magnitudes, signed = transform._augmentation_space(bins, *size)[name]
        magnitude = float(magnitudes[index]) if magnitudes.ndim else 0.0
        magnitude = -magnitude if signed and negative else magnitude
        return lambda image: autoaugment._apply_op(image, name, magnitude, mode, FILL)
    transform = getattr(v2, policy)(interpolation=mode, fill=FILL)
    function, signed = transform._AUGMENTATION_SPACE[name]
    magnitudes = function(bins, 40, 56)
    value = 0.0 if magnitudes is None else float(magnitudes[index])
    value = -value if signed and negative else value
    return lambda image: transform._apply_image_or_video_transform(
        image, name, value, interpolation=mode, fill=transform._fill
    )


def test_translations_follow_the_size_of_each_image(torchvision: ModuleType) -> None:
    import torch

    widths = np.arange(1, 1500)
    canvas = Canvas(np.full(len(widths), 9), widths, np.zeros(len(widths), np.int64))
    for index in (1, 9, 17, 30):
        bins = np.full(len(widths), index)
        found = Space(31).find_magnitudes("TranslateX", bins, canvas)
        ends = (150.0 / 331.0 * width for width in widths.tolist())
        assert found.tolist() == [float(torch.linspace(0.0, end, 31)[index]) for end in ends]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("bins", [2, 3, 5, 9, 10, 16, 17, 31, 64, 100])
def test_magnitudes_of_every_bin_are_torchvisions(
    torchvision: ModuleType, bins: int, version: int
) -> None:
    from torchvision.transforms import autoaugment, v2

    canvas = Canvas(*(np.full(bins, side) for side in (40, 56, 0)))
    for policy, space in {
        "TrivialAugmentWide": Space.wide(bins, version),
        "RandAugment": Space(bins, version=version),
    }.items():
        for name in NAMES[1:-3]:
            if version == 1:
                size = () if policy.startswith("T") else ((40, 56),)
                table = getattr(autoaugment, policy)()._augmentation_space(bins, *size)[name][0]
            else:
                table = getattr(v2, policy)._AUGMENTATION_SPACE[name][0](bins, 40, 56)
            scale = 255.0 if version == 2 and name == "Solarize" else 1.0
            expected = [scale * float(value) for value in table]
            assert space.find_magnitudes(name, np.arange(bins), canvas).tolist() == expected


@pytest.mark.parametrize("policy", [TrivialAugmentWide(), RandAugment(), AutoAugment("svhn")])
def test_a_sample_has_its_draws_in_any_batch(policy: Any) -> None:
    randomness = make_randomness(64)
    whole = policy.draw(randomness, 32, 48)
    rows = np.array([5, 60, 2])
    part = policy.draw(type(randomness)(1, 0, rows), 32, 48)
    assert np.array_equal(whole.codes[rows], part.codes)
    assert np.array_equal(whole.params[rows], part.params)


def test_policies_are_values() -> None:
    policy = RandAugment(fill=[1, 2, 3], interpolation="bilinear")  # type: ignore[arg-type]
    assert (
        pickle.loads(pickle.dumps(policy)) == policy == RandAugment(2, 9, 31, "bilinear", (1, 2, 3))
    )
    assert hash(policy) == hash(RandAugment(2, 9, 31, "bilinear", (1, 2, 3)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandAugment(magnitude=31), "magnitude is 31"),
        (lambda: RandAugment(num_ops=-1), "num_ops is -1"),
        (lambda: RandAugment(interpolation="box"), "interpolation is 'box'"),  # type: ignore[arg-type]
        (lambda: TrivialAugmentWide(1), "num_magnitude_bins is 1"),
        (lambda: TrivialAugmentWide(fill=(1, 2)), r"fill is \(1, 2\)"),
        (lambda: TrivialAugmentWide(fill=256), "fill is 256"),
        (lambda: AutoAugment("mnist"), "policy is 'mnist'"),  # type: ignore[arg-type]
    ],
)
def test_impossible_policies_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_no_operations_are_no_steps() -> None:
    assert draw_programs(RandAugment(num_ops=0), 3) == [[], [], []]
