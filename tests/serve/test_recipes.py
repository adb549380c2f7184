"""Today's recipes in the core: a batch equals what Pillow and torchvision make of the drawn operations."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace
from headrace.recipe.randomness import Randomness
from headrace.render import Op, Program
from headrace.transforms import (
    AutoAugment,
    Clip,
    ColorJitter,
    CutMix,
    GaussianBlur,
    MixUp,
    Normalize,
    OnArray,
    PillowBlur,
    RandAugment,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    RandomVerticalFlip,
    Resize,
    ThreeAugment,
    TrivialAugmentWide,
    Views,
)
from render.pillow_program import run
from serve.test_masks import make_pairs
from trees import make_folder

CROP: list[Any] = [RandomResizedCrop((36, 44)), RandomHorizontalFlip()]
POLICIES: dict[str, list[Any]] = {
    "TrivialAugmentWide": [TrivialAugmentWide()],
    "RandAugment": [RandAugment(3, 15)],
    "AutoAugment": [AutoAugment()],
    "ThreeAugment": [ThreeAugment(), ColorJitter(0.3, 0.3, 0.3)],
    "SimCLR": [
        RandomApply([ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
        RandomGrayscale(0.2),
        RandomApply([PillowBlur((0.1, 2.0))], 0.5),
        RandomSolarize(128, 0.2),
    ],
    "moves": [
        RandomRotation(40, "bilinear"),
        RandomAffine(20, (0.2, 0.1), (0.8, 1.2), 10, "bicubic"),
        RandomPerspective(0.4),
        RandomVerticalFlip(),
    ],
    "points": [
        RandomOrder([RandomInvert(), RandomPosterize(3), RandomEqualize()]),
        RandomChoice([RandomAutocontrast(), RandomAdjustSharpness(2.0)]),
        ColorJitter(0.4),
        ColorJitter(hue=0.5),
    ],
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    headrace.pack_dataset(make_folder(folder / "in", per_class=12), folder / "out")
    return folder / "out"


def load(path: Path, steps: Any, **options: Any) -> headrace.Loader:
    return headrace.Loader(path, 8, shuffle=True, seed=9, transform=steps, **options)


def draw_programs(loader: headrace.Loader, batch: Any, view: int = 0) -> Program:
    """Return the operations that were drawn for a batch."""
    recipe = loader._contents.pictures[0].recipes[view]
    columns = loader._epochs.table.columns
    sides = columns.height[batch.rows], columns.width[batch.rows]
    draws = recipe.draw(Randomness(9, batch.epoch, batch.draws).of_view(view), *sides)
    assert draws.program is not None
    return draws.program


@pytest.mark.parametrize("name", POLICIES)
def test_operations_equal_pillow(packed: Path, name: str) -> None:
    plain, loader = load(packed, CROP), load(packed, [*CROP, *POLICIES[name]])
    assert "Python" not in str(loader)
    changed = 0
    for (images, _), batch in zip(plain, loader, strict=True):
        drawn = draw_programs(loader, batch)
        for i, image in enumerate(images):
            steps = slice(drawn.starts[i], drawn.starts[i + 1])
            codes = map(Op, drawn.codes[steps].tolist())
            operations = zip(codes, drawn.params[steps].tolist(), strict=True)
            expected = run(image, [(op, *params) for op, params in operations])
            np.testing.assert_array_equal(batch[0][i], expected)
            changed += bool((batch[0][i] != image).any())
    assert changed > 12


@pytest.mark.parametrize("name", ["TrivialAugmentWide", "SimCLR"])
def test_threads_resuming_and_ranks_change_nothing(packed: Path, name: str) -> None:
    steps = [*CROP, *POLICIES[name], Normalize(), RandomErasing(0.5, value="random")]
    whole = [images.tobytes() for images, _ in load(packed, steps, threads=1)]
    assert whole == [images.tobytes() for images, _ in load(packed, steps, threads=7)]
    loader = load(packed, steps)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    loader.close()
    resumed = load(packed, steps)
    resumed.load_state_dict(state)
    assert whole[1:] == [images.tobytes() for images, _ in resumed]
    options: dict[str, Any] = {"shuffle": True, "seed": 9, "transform": steps}
    parts = [headrace.Loader(packed, 4, rank=r, world_size=2, **options) for r in (0, 1)]
    for expected, *ranks in zip(load(packed, steps), *parts, strict=True):
        joined = np.concatenate([images for images, _ in ranks])
        assert sorted(map(bytes, joined)) == sorted(map(bytes, expected[0]))


def test_each_step_and_each_view_draws_numbers_of_its_own(packed: Path) -> None:
    jitter = ColorJitter(0.5, hue=0.1)
    loader = load(packed, Views([*CROP, jitter, jitter], [*CROP, jitter, jitter]))
    batch = next(iter(loader))
    first, second = (draw_programs(loader, batch, view) for view in (0, 1))
    values = first.params[:, 0].reshape(8, -1)
    assert len(np.unique(values)) == values.size
    assert not np.isin(second.params[:, 0], first.params[:, 0]).any()


def test_erasing_writes_into_finished_floats(packed: Path) -> None:
    steps = [*CROP, Normalize()]
    erased = 0
    loader = load(packed, [*steps, RandomErasing(1.0, scale=(0.1, 0.3), value=(7.0, 8.0, 9.0))])
    for (images, _), batch in zip(load(packed, steps), loader, strict=True):
        different = (batch[0] != images).any(axis=3)
        assert (batch[0][different] == [7.0, 8.0, 9.0]).all()
        shares = different.mean(axis=(1, 2))
        assert ((shares > 0.05) & (shares < 0.35)).all()
        erased += len(images)
    assert erased == 36
    noise = load(packed, [*steps, RandomErasing(1.0, scale=(0.5, 0.5), value="random")])
    values = np.concatenate(
        [
            batch[0][(batch[0] != images).any(axis=3)]
            for (images, _), batch in zip(load(packed, steps), noise, strict=True)
        ]
    )
    assert abs(values.mean()) < 0.05 and abs(values.std() - 1) < 0.05


def test_erasing_on_a_device_is_done_in_the_core(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader

    steps = [*CROP, Normalize(), RandomErasing(1.0)]
    images, _ = next(iter(Loader(packed, 8, transform=steps, device="meta")))
    assert images.dtype == torch.float32 and images.shape == (8, 3, 36, 44)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_composes_of_torchvision_run_in_the_core(
    packed: Path, torchvision: ModuleType, version: str
) -> None:
    torch = pytest.importorskip("torch")
    T = torchvision.transforms if version == "v1" else torchvision.transforms.v2
    floats = (
        [T.ToTensor()] if version == "v1" else [T.ToImage(), T.ToDtype(torch.float32, scale=True)]
    )
    reference = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.TrivialAugmentWide(), *floats]
    reference += [T.Normalize([0.5] * 3, [0.5] * 3), T.RandomErasing(0.1)]
    simclr = [
        T.RandomResizedCrop(32),
        T.RandomHorizontalFlip(),
        T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        T.RandomGrayscale(p=0.2),
        T.GaussianBlur(9, (0.1, 2.0)),
        T.RandomSolarize(128, 0.2),
        *floats,
    ]
    for steps in (reference, simclr, [T.Resize((32, 32)), T.RandAugment(), *floats]):
        loader = load(packed, T.Compose(steps))
        assert "Python" not in str(loader), str(loader)
        images, _ = next(iter(loader))
        assert images.shape == (8, 32, 32, 3) and images.dtype == np.float32


def test_a_timm_recipe_runs_in_the_core(packed: Path, torchvision: ModuleType) -> None:
    create_transform = pytest.importorskip("timm.data").create_transform
    transform = create_transform(
        32,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1",
        interpolation="bicubic",
        re_prob=0.25,
        re_mode="pixel",
    )
    loader = load(packed, transform)
    assert "Python" not in str(loader), str(loader)
    assert next(iter(loader))[0].shape == (8, 32, 32, 3)


def test_clips_share_their_operations(tmp_path: Path) -> None:
    from videos import make_video, save_videos

    path = save_videos(tmp_path / "packed", [make_video(i, 9, (40, 50)) for i in range(4)])
    steps = [Clip(3), Resize((20, 24)), RandomInvert(0.5)]
    plain = headrace.Loader(path, 4, shuffle=True, transform=steps[:2])
    for (frames, _), (changed, _) in zip(
        plain, headrace.Loader(path, 4, shuffle=True, transform=steps), strict=True
    ):
        inverted = [(c == 255 - f).all() for f, c in zip(frames, changed, strict=True)]
        same = [(c == f).all() for f, c in zip(frames, changed, strict=True)]
        assert all(a != b for a, b in zip(inverted, same, strict=True))


def test_masks_do_not_follow_operations_that_move_pixels(
    tmp_path: Path, torchvision: ModuleType
) -> None:
    headrace.pack_dataset(make_pairs(tmp_path / "source"), tmp_path / "packed")
    V = torchvision.transforms.v2
    fields = ("image", "mask")
    compose = V.Compose([V.CenterCrop(32), V.RandomRotation((90, 90))])
    loader = headrace.Loader(
        tmp_path / "packed", 4, fields=fields, transform=compose, num_workers=0
    )
    assert "without what belongs to them" in str(loader)
    for images, masks in loader:
        np.testing.assert_array_equal(np.asarray(masks), np.asarray(images)[..., 0])
    for steps in ([TrivialAugmentWide()], [RandomGrayscale(0.0), RandomVerticalFlip(1.0)]):
        with pytest.raises(ValueError, match="would move images alone"):
            headrace.Loader(tmp_path / "packed", 4, fields=fields, transform=[*CROP, *steps])
    compose = V.Compose([V.CenterCrop(32), V.RandomGrayscale(0.0), V.RandomHorizontalFlip(1.0)])
    loader = headrace.Loader(
        tmp_path / "packed", 4, fields=fields, transform=compose, num_workers=0
    )
    for images, masks in loader:
        np.testing.assert_array_equal(np.asarray(masks), np.asarray(images)[..., 0])
    colours = headrace.Loader(
        tmp_path / "packed", 4, fields=fields, transform=[*CROP, RandomSolarize(128, 0.5)]
    )
    assert "Python" not in str(colours)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([TrivialAugmentWide(), *CROP], "crops once and first"),
        ([*CROP, Normalize(), RandAugment()], "before it makes tensors"),
        ([*CROP, RandomErasing(), Normalize()], "RandomErasing comes last"),
        ([*CROP, RandomErasing(value=0.5)], "value 0.5 is not for bytes: put it after Normalize"),
        ([*CROP, RandomErasing(value="color")], "value 'color' is not for bytes"),
        (
            Views([*CROP, Normalize(), RandomErasing()], [*CROP, OnArray(np.array)]),
            "cannot stand beside",
        ),
    ],
)
def test_impossible_orders_are_refused(packed: Path, steps: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(packed, steps)


def test_a_whole_recipe_with_mixing(packed: Path) -> None:
    steps = [*CROP, TrivialAugmentWide(), Normalize(), RandomErasing(0.1)]
    for mix in (MixUp(0.2), CutMix()):
        loader = headrace.Loader(packed, 16, shuffle=True, transform=[*steps, mix])
        images, labels = next(iter(loader))
        assert images.shape == (16, 36, 44, 3) and labels.shape == (16, 3)


def test_torchvisions_blur_is_at_most_a_level_off(packed: Path, torchvision: ModuleType) -> None:
    F = torchvision.transforms.functional
    plain, loader = load(packed, CROP), load(packed, [*CROP, GaussianBlur(9, (0.3, 2.0))])
    off = total = 0
    for (images, _), batch in zip(plain, loader, strict=True):
        params = draw_programs(loader, batch).params
        for image, blurred, (sigma, size, *_) in zip(images, batch[0], params, strict=True):
            expected = np.asarray(
                F.gaussian_blur(Image.fromarray(image), [int(size)] * 2, [float(sigma)] * 2)
            )
            difference = np.abs(blurred.astype(int) - expected)
            assert difference.max() <= 1
            off += int((difference > 0).sum())
            total += difference.size
    assert off <= total / 1000
