"""Steps of torchvision and timm are read as ours, with all their arguments, or a reason says why not."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from headrace.recipe import policies as ours
from headrace.recipe.program_step import ProgramStep
from headrace.recipe.timm_policies import AugmentOp, LayeredAugment
from headrace.recipe.torchvision_policies import read_policy

FILL = (1, 2, 3)


@pytest.fixture(params=["v1", "v2"])
def T(request: pytest.FixtureRequest, torchvision: ModuleType) -> Any:
    from torchvision import transforms

    return transforms if request.param == "v1" else transforms.v2


def version(T: Any) -> int:
    return 2 if T.__name__.endswith("v2") else 1


def list_pairs(T: Any) -> list[tuple[Any, ProgramStep]]:
    from torchvision.transforms import AutoAugmentPolicy, InterpolationMode

    cubic, linear = InterpolationMode.BICUBIC, InterpolationMode.BILINEAR
    number = version(T)
    return [
        (T.TrivialAugmentWide(), ours.TrivialAugmentWide(fill=(0, 0, 0), version=number)),
        (
            T.TrivialAugmentWide(11, linear, [7, 8, 9]),
            ours.TrivialAugmentWide(11, "bilinear", (7, 8, 9), number),
        ),
        (T.RandAugment(), ours.RandAugment(fill=(0, 0, 0), version=number)),
        (
            T.RandAugment(3, 5, 10, cubic, FILL),
            ours.RandAugment(3, 5, 10, "bicubic", FILL, number),
        ),
        (
            T.AutoAugment(AutoAugmentPolicy.SVHN, linear, 4),
            ours.AutoAugment("svhn", "bilinear", (4, 4, 4), number),
        ),
        (
            T.ColorJitter(0.4, 0.4, 0.2, 0.1),
            ours.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.8, 1.2), (-0.1, 0.1)),
        ),
        (T.ColorJitter(hue=(-0.1, 0.3)), ours.ColorJitter(hue=(-0.1, 0.3))),
        (T.GaussianBlur(9, (0.1, 2.0)), ours.GaussianBlur(9, (0.1, 2.0))),
        (T.GaussianBlur(23, 1.5), ours.GaussianBlur(23, (1.5, 1.5))),
        (T.Grayscale(3), ours.RandomGrayscale(1.0)),
        (T.RandomGrayscale(0.2), ours.RandomGrayscale(0.2)),
        (T.RandomInvert(0.2), ours.RandomInvert(0.2)),
        (T.RandomPosterize(3, 0.2), ours.RandomPosterize(3, 0.2)),
        (T.RandomSolarize(128, 0.2), ours.RandomSolarize(128.0, 0.2)),
        (T.RandomAdjustSharpness(2, 0.2), ours.RandomAdjustSharpness(2.0, 0.2)),
        (T.RandomAutocontrast(0.2), ours.RandomAutocontrast(0.2)),
        (T.RandomEqualize(0.2), ours.RandomEqualize(0.2)),
        (T.RandomHorizontalFlip(0.3), ours.RandomFlip(0.3)),
        (T.RandomVerticalFlip(0.3), ours.RandomFlip(0.3, rows=True)),
        (
            T.RandomRotation(15, linear, center=[3, 4], fill=9),
            ours.RandomRotation((-15.0, 15.0), "bilinear", (3.0, 4.0), (9, 9, 9)),
        ),
        (
            T.RandomAffine(5, (0.1, 0.2), (0.5, 2), 7, cubic, FILL, [1, 2]),
            ours.RandomAffine(
                (-5.0, 5.0), (0.1, 0.2), (0.5, 2.0), (-7.0, 7.0), "bicubic", FILL, (1.0, 2.0)
            ),
        ),
        (
            T.RandomAffine((0, 90), shear=(1, 2, 3, 4)),
            ours.RandomAffine((0.0, 90.0), shear=(1.0, 2.0, 3.0, 4.0), fill=(0, 0, 0)),
        ),
        (
            T.RandomPerspective(0.3, 0.7, cubic, FILL),
            ours.RandomPerspective(0.3, 0.7, "bicubic", FILL),
        ),
        (
            T.RandomApply([T.ColorJitter(hue=0.1), T.Compose([T.RandomInvert(0.1)])], 0.8),
            ours.RandomApply(
                (
                    ours.ColorJitter(hue=(-0.1, 0.1)),
                    ours.RandomApply((ours.RandomInvert(0.1),), 1.0),
                ),
                0.8,
            ),
        ),
        (
            T.RandomOrder([T.RandomInvert(), T.RandomEqualize()]),
            ours.RandomOrder((ours.RandomInvert(), ours.RandomEqualize())),
        ),
        (
            T.RandomChoice([T.RandomInvert(), T.RandomEqualize()], [0.25, 0.75]),
            ours.RandomChoice((ours.RandomInvert(), ours.RandomEqualize()), (0.25, 0.75)),
        ),
    ]


def test_steps_are_read_with_all_their_arguments(T: Any) -> None:
    for step, expected in list_pairs(T):
        assert read_policy(step) == expected


def test_on_tensors_only_erasing_is_for_the_core(T: Any) -> None:
    for step, _ in list_pairs(T):
        for form in ("bytes", "floats"):
            assert "on tensors it rounds differently" in str(read_policy(step, form))  # type: ignore[arg-type]


def test_erasing_is_read_for_each_form(T: Any) -> None:
    plain, noise = T.RandomErasing(0.1), T.RandomErasing(value="random")
    assert read_policy(plain, "floats") == ours.RandomErasing(0.1, value=(0.0,))
    assert read_policy(plain, "bytes") == ours.RandomErasing(0.1, value=(0.0,))
    assert read_policy(noise, "floats") == ours.RandomErasing(value="random")
    assert "random values for floats only" in str(read_policy(noise, "bytes"))
    halves = T.RandomErasing(value=(0.5, 0.5, 0.5))
    assert read_policy(halves, "floats") == ours.RandomErasing(value=(0.5, 0.5, 0.5))
    assert "not in levels" in str(read_policy(halves, "bytes"))
    on_pil = read_policy(plain, "pil")
    if version(T) == 1:
        assert on_pil == "it is for tensors"
    else:
        assert on_pil == ours.RandomErasing(0.1, value=(0.0,), pixels=True)


def test_steps_that_the_core_cannot_run_have_a_reason(T: Any) -> None:
    from torchvision.transforms import InterpolationMode

    changed = T.AutoAugment()
    tables = changed._policies if version(T) == 2 else changed.policies
    tables.pop()
    hooked = T.RandomInvert()
    hooked.register_forward_hook(lambda *args: None)
    reasons = {
        T.GaussianBlur((3, 5)): "the same kernel_size",
        T.Grayscale(1): "one channel",
        T.RandomRotation(5, expand=True): "differ in size",
        T.RandAugment(interpolation=InterpolationMode.LANCZOS): "does not move pixels",
        T.RandAugment(num_ops=2, magnitude=40): "magnitude is 40",
        T.RandAugment(fill=300): "fill is 300",
        T.RandomPosterize(0): "bits is 0",
        T.RandomApply([T.RandomInvert(), T.PILToTensor()]): "does not run PILToTensor in it",
        T.RandomApply([T.Compose([T.Grayscale(1)])]): "one channel",
        T.RandomChoice([T.Compose([T.Resize(3)])]): "does not run Resize in it",
        T.RandomApply([hooked]): "it has hooks",
        changed: "policies were changed",
        hooked: "it has hooks",
    }
    for step, reason in reasons.items():
        assert reason in str(read_policy(step))


def test_other_steps_are_not_read(T: Any) -> None:
    class Own(T.RandomInvert):  # type: ignore[misc, name-defined]
        """A class of the user's own, which does something else."""

        def forward(self, image: Any) -> Any:
            return image

    for step in (T.Resize(3), T.PILToTensor(), Own(), lambda image: image, None):
        assert read_policy(step) is None


def test_a_class_that_only_has_another_init_is_read_as_the_one_above(T: Any) -> None:
    class GaussianBlur(T.RandomApply):  # type: ignore[misc, name-defined]
        """The blur of DINOv2, whose `p` is the probability to leave an image as it is."""

        def __init__(self, *, p: float = 0.5, radius_min: float = 0.1, radius_max: float = 2.0):
            super().__init__([T.GaussianBlur(9, sigma=(radius_min, radius_max))], p=1 - p)

    expected = ours.RandomApply((ours.GaussianBlur(9, (0.1, 2.0)),), 0.75)
    assert read_policy(GaussianBlur(p=0.25)) == expected


def test_containers_may_hold_several_steps_as_one(T: Any) -> None:
    import torch

    several = torch.nn.Sequential(T.RandomInvert(), T.RandomEqualize())
    choice = T.RandomChoice([several, T.RandomInvert()])
    both = ours.RandomApply((ours.RandomInvert(), ours.RandomEqualize()), 1.0)
    weights = (0.5, 0.5) if version(T) == 2 else None
    assert read_policy(choice) == ours.RandomChoice((both, ours.RandomInvert()), weights)


def test_our_own_steps_are_read_as_they_are() -> None:
    assert read_policy(ours.RandAugment(), "floats") == ours.RandAugment()


def test_fills_of_version_2_may_differ_by_class(torchvision: ModuleType) -> None:
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    fills: list[Any] = [
        {Image.Image: 5, tv_tensors.Image: 6, "others": 7},
        {tv_tensors.Image: 9, "others": 5},  # which PIL images do not have
        {"others": 5, tv_tensors.Mask: 9},
    ]
    image = Image.new("RGB", (8, 8), (5, 5, 5))
    for fill in fills:
        turned = v2.RandomRotation((30, 30), fill=dict(fill))(image)
        assert turned.getextrema() == ((5, 5),) * 3
        assert read_policy(v2.RandomRotation(5, fill=fill)) == ours.RandomRotation(
            (-5.0, 5.0), fill=(5, 5, 5)
        )
    alone = v2.RandomRotation(5, fill={tv_tensors.Mask: 9, tv_tensors.Image: 9})
    assert "without one for PIL images" in str(read_policy(alone))


@pytest.fixture
def timm(torchvision: ModuleType) -> Any:
    pytest.importorskip("timm.data.random_erasing", reason="pip install --no-deps timm")
    return pytest.importorskip("timm.data.auto_augment")


def test_timms_operations_are_read(timm: Any) -> None:
    hparams = {"img_mean": FILL, "interpolation": 3, "magnitude_std": 0.5, "translate_pct": 0.3}
    op = timm.AugmentOp("ShearX", 0.7, 8, hparams)
    expected = AugmentOp(
        "ShearX", 0.7, 8.0, 0.5, translate_pct=0.3, interpolation=("bicubic",), fill=FILL
    )
    assert read_policy(op) == expected
    assert read_policy(timm.RandAugment([op, op], 3)) == LayeredAugment((expected, expected), 3)


def test_timms_operations_that_were_changed_are_not_for_the_core(timm: Any) -> None:
    op = timm.AugmentOp("ShearX")
    op.aug_fn = lambda image, *args, **options: image
    for step in (op, timm.RandAugment([op]), timm.AutoAugment([[op]])):
        assert read_policy(step) == "its operations are not timm's own"


@pytest.mark.parametrize("mode", ["const", "rand", "pixel"])
def test_timms_erasing_is_read(timm: Any, mode: str) -> None:
    from timm.data.random_erasing import RandomErasing

    step = RandomErasing(0.25, mode=mode, max_count=3, device="cpu")
    read = read_policy(step, "floats")
    assert isinstance(read, ours.RandomErasing)
    assert read.value == {"const": 0.0, "rand": "color", "pixel": "random"}[mode]
    assert (read.p, read.scale, read.count) == (0.25, (0.02, 1 / 3), (1, 3))
    assert read.ratio == pytest.approx((0.3, 1 / 0.3))
    assert "it is for floats" in str(read_policy(step, "pil"))


def test_steps_of_a_timm_training_transform_are_all_read(timm: Any) -> None:
    from timm.data import create_transform

    transform = create_transform(
        24, is_training=True, auto_augment="rand-m9-mstd0.5-inc1", re_prob=0.25, re_mode="pixel"
    )
    names = [type(step).__name__ for step in transform.transforms]
    policy = transform.transforms[names.index("RandAugment")]
    erasing = transform.transforms[names.index("RandomErasing")]
    assert isinstance(read_policy(policy), LayeredAugment)
    assert isinstance(read_policy(erasing, "floats"), ours.RandomErasing)
