"""timm's policies: what its strings mean, the levels it would draw, and its pixels for each operation."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from distributions import assert_same_distribution, bin_of
from headrace.plan.operations import Op
from headrace.plan.timm_levels import TIMM_NAMES, Levels, draw_levels, make_timm_steps
from headrace.plan.warps import Canvas
from headrace.recipe.policies import RandAugment
from headrace.recipe.timm_config import read_timm_policy
from headrace.recipe.timm_policies import AugmentOp, LayeredAugment, PolicyAugment, ThreeAugment
from headrace.recipe.torchvision_policies import read_policy
from recipe.programs import COUNT, assert_same_pixels, draw_programs, make_image

LEVELS = np.array([0.0, 0.3, 2.49, 2.5, 5.0, 7.77, 9.0, 9.3, 9.99, 10.0])
FILL = (124, 116, 103)


@pytest.fixture(scope="session")
def timm(torchvision: ModuleType) -> Any:
    return pytest.importorskip("timm.data.auto_augment", reason="pip install --no-deps timm")


def make_levels(levels: np.ndarray, negative: bool, number: int = 3, **options: float) -> Levels:
    sides = (np.full(len(levels), side) for side in (40, 56, number))
    signs = np.full(len(levels), negative)
    return Levels(levels, signs, np.full(len(levels), 0.25), Canvas(*sides, FILL), **options)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("name", sorted(TIMM_NAMES))
def test_every_operation_has_timms_pixels(
    timm: Any, monkeypatch: pytest.MonkeyPatch, name: str, negative: bool
) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.75 if negative else 0.25)
    monkeypatch.setattr(random, "uniform", lambda low, high: low + (high - low) * 0.25)
    hparams = {"img_mean": FILL, "translate_const": 17, "translate_pct": 0.3}
    to_args, function = timm.LEVEL_TO_ARG[name], timm.NAME_TO_OP[name]

    def original(level: float) -> Any:
        args = to_args(level, hparams) if to_args else ()
        if "Posterize" in name and args[0] == 0:
            return lambda image: np.zeros((40, 56, 3), np.uint8)  # Pillow 13 raises: no bits left
        return lambda image: function(image, *args, resample=number, fillcolor=FILL)

    for number in (2, 3):
        levels = make_levels(LEVELS, negative, number, translate_const=17, translate_pct=0.3)
        steps = make_timm_steps(name, levels)
        assert_same_pixels(make_image(), steps, [original(level) for level in LEVELS.tolist()])


@pytest.mark.parametrize("std", [0.5, 3.0, math.inf])
def test_levels_are_drawn_as_by_timm(std: float) -> None:
    random.seed(2)
    theirs = [
        random.uniform(0, 9) if math.isinf(std) else random.gauss(9, std) for _ in range(COUNT)
    ]
    uniforms = np.random.default_rng(0).random((COUNT, 2))
    ours = draw_levels(uniforms, 9, std, 10)
    assert_same_distribution(
        (bin_of(level, 0, 10, 60) for level in ours.tolist()),
        (bin_of(max(0.0, min(level, 10.0)), 0, 10, 60) for level in theirs),
    )


def test_a_level_without_deviation_is_the_magnitude() -> None:
    uniforms = np.random.default_rng(0).random((3, 2))
    assert draw_levels(uniforms, 7, 0.0, 10).tolist() == [7, 7, 7]
    assert draw_levels(uniforms, 17, 0.0, 10).tolist() == [10, 10, 10]
    assert draw_levels(uniforms, 17, 0.0, 30).tolist() == [17, 17, 17]


STRINGS = [
    "rand-m9-mstd0.5-inc1",
    "rand-m9-mstd0.5",
    "rand",
    "rand-m15-n3-mmax30-p0.7",
    "rand-mstd101-tweights",
    "rand-m7-mstdinf-inc1",
    "rand-n3-t3a",
    "rand-m6-n4-t3aw-inc0",
    "rand-tx",
    "v0",
    "v0r-mstd0.5",
    "original",
    "originalr-mstd1.5",
    "3a",
]


@pytest.mark.parametrize("hparams", [None, {"translate_const": 100, "img_mean": FILL}])
@pytest.mark.parametrize("config", STRINGS)
def test_strings_mean_what_they_mean_to_timm(
    timm: Any, config: str, hparams: dict[str, Any] | None
) -> None:
    make = timm.rand_augment_transform if config.startswith("rand") else timm.auto_augment_transform
    own = dict(hparams) if hparams else None
    ours, theirs = read_timm_policy(config, hparams), read_policy(make(config, own))
    assert forget_unused(ours) == forget_unused(theirs)


def forget_unused(policy: Any) -> Any:
    """The policy without magnitudes of operations that have none, for which timm's tables have numbers all the same."""

    def forget(op: AugmentOp) -> AugmentOp:
        return (
            replace(op, magnitude=0.0) if op.name in ("AutoContrast", "Equalize", "Invert") else op
        )

    if isinstance(policy, PolicyAugment):
        return PolicyAugment(tuple(tuple(map(forget, part)) for part in policy.policy))
    assert isinstance(policy, LayeredAugment)
    return policy


def test_hparams_come_before_the_string(timm: Any) -> None:
    hparams = {"magnitude_std": 2.0, "interpolation": 2, "translate_pct": 0.2}
    policy = read_timm_policy("rand-m9-mstd0.5", hparams)
    assert policy == read_policy(timm.rand_augment_transform("rand-m9-mstd0.5", dict(hparams)))
    assert isinstance(policy, LayeredAugment) and policy.ops[0].magnitude_std == 2
    assert policy.ops[0].interpolation == ("bilinear",)


@pytest.mark.parametrize("config", ["rand-q9", "v9", "original-m3", "", "mnist-mstd0.5"])
def test_strings_that_timm_does_not_know_are_refused(config: str) -> None:
    with pytest.raises(ValueError, match="timm"):
        read_timm_policy(config)


def test_augmix_is_not_for_the_core() -> None:
    assert read_timm_policy("augmix-m5-w4-d2") == "the core does not mix images as AugMix does"


def record(timm: Any, config: str) -> list[list[str]]:
    """Names of the operations that timm applies to an image."""
    make = timm.rand_augment_transform if config.startswith("rand") else timm.auto_augment_transform
    transform = make(config)
    np.random.seed(1)
    random.seed(1)
    applied: list[str] = []
    ops = getattr(transform, "ops", None) or [op for part in transform.policy for op in part]
    for op in ops:
        name = "still" if op.level_fn and not op.magnitude and "Color" not in op.name else op.name
        op.aug_fn = lambda image, *args, _name=name, **options: applied.append(_name)
    drawn = []
    for _ in range(COUNT):
        applied.clear()
        transform(None)
        drawn.append(list(applied))
    return drawn


def name_of(op: Op, params: tuple[float, ...]) -> str:
    """timm's name of a step, without its variants."""
    if op is Op.AFFINE:
        a, b, c, d, _, f = params[:6]
        names = {"ShearX": b, "ShearY": d, "TranslateX": c, "TranslateY": f}
        moved = [name for name, value in names.items() if value]
        return "Rotate" if a != 1 else moved[0] if moved else "still"
    return op.name.replace("_", "").lower()


def plain(name: str) -> str:
    """timm's name without its variants, as `name_of` has it."""
    for suffix in ("Increasing", "Original", "Rel", "Rand"):
        name = name.removesuffix(suffix)
    geometric = name in ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
    return name if geometric else {"Desaturate": "color"}.get(name, name.lower())


@pytest.mark.parametrize(
    "config",
    ["rand-m9-mstd0.5-inc1", "rand-m9-n3-p0.8", "rand-m5-n3-tweights-p1.0", "original", "v0", "3a"],
)
def test_operations_are_drawn_as_often_as_by_timm(timm: Any, config: str) -> None:
    policy = read_timm_policy(config)
    assert isinstance(policy, (LayeredAugment, PolicyAugment))
    ours = [tuple(name_of(*step) for step in line) for line in draw_programs(policy)]
    theirs = [tuple(map(plain, line)) for line in record(timm, config)]
    assert_same_distribution(ours, theirs)
    for place in range(3):
        first, second = ([line[place : place + 1] for line in drawn] for drawn in (ours, theirs))
        assert_same_distribution(first, second)


def test_filters_and_signs_are_drawn() -> None:
    lines = draw_programs(AugmentOp("ShearX", p=1.0, magnitude=10, fill=FILL))
    params = np.array([line[0][1] for line in lines])
    counts = np.unique(params[:, [1, 6]], axis=0, return_counts=True)[1]
    assert len(counts) == 4 and abs(counts - COUNT / 4).max() < 200
    assert (params[:, 7:10] == FILL).all()


def test_one_filter_is_always_taken() -> None:
    lines = draw_programs(AugmentOp("ShearX", p=1.0, interpolation="nearest"), 100)
    assert {line[0][1][6] for line in lines} == {0.0}


def test_three_augment_is_timms_policy_3a() -> None:
    policy = read_timm_policy("3a")
    assert isinstance(policy, PolicyAugment)
    assert draw_programs(ThreeAugment()) == draw_programs(policy)
    drawn = [line[0] for line in draw_programs(ThreeAugment())]
    radii = [params[0] for op, params in drawn if op is Op.GAUSSIAN_BLUR]
    assert 0.1 <= min(radii) < 0.11 and 1.99 < max(radii) < 2
    assert {params[0] for op, params in drawn if op is Op.SOLARIZE} == {128}
    assert {params[0] for op, params in drawn if op is Op.COLOR} == {0}


def test_weights_draw_without_replacement() -> None:
    ops = tuple(AugmentOp(name, p=1.0) for name in ("Invert", "Equalize", "AutoContrast"))
    lines = draw_programs(LayeredAugment(ops, 2, (3.0, 1.0, 0.0)), 1000)
    assert {tuple(sorted(op for op, _ in line)) for line in lines} == {(Op.INVERT, Op.EQUALIZE)}
    assert 680 < sum(line[0][0] is Op.INVERT for line in lines) < 820


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AugmentOp("Twist"), "name is 'Twist'"),
        (lambda: AugmentOp("Invert", p=1.5), "p is 1.5"),
        (lambda: AugmentOp("Invert", interpolation="box"), "interpolation is 'box'"),  # type: ignore[arg-type]
        (lambda: LayeredAugment(()), "0 ops"),
        (lambda: LayeredAugment((AugmentOp("Invert"),), 2, (1.0,)), "num_layers is 2"),
        (lambda: LayeredAugment((AugmentOp("Invert"),), 1, (1.0, 2.0)), "weights is"),
        (lambda: PolicyAugment(()), "no operations"),
    ],
)
def test_impossible_policies_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_timms_and_torchvisions_randaugment_are_different_values() -> None:
    assert read_timm_policy("rand-m9") != RandAugment()
