"""Views: several results of one sample, each the same whichever others there are."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.transforms import (
    CenterCrop,
    Clip,
    ColorJitter,
    Normalize,
    OnArray,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Views,
)
from serve.test_masks import make_pairs
from trees import make_folder

LARGE = [RandomResizedCrop(32, scale=(0.4, 1.0)), RandomHorizontalFlip()]
SMALL = [RandomResizedCrop(12, scale=(0.05, 0.4)), RandomHorizontalFlip(), ColorJitter(0.5)]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    headrace.pack_dataset(make_folder(folder / "in", per_class=9), folder / "out")
    return folder / "out"


def load(path: Path, transform: Any, **options: Any) -> headrace.Loader:
    return headrace.Loader(path, 8, shuffle=True, transform=transform, seed=3, **options)


def test_a_view_is_the_same_whichever_others_there_are(packed: Path) -> None:
    several = list(load(packed, Views(LARGE, SMALL, LARGE)))
    two = list(load(packed, Views(LARGE, SMALL)))
    alone = list(load(packed, LARGE))
    for (views, labels), (pair, _), (images, same) in zip(several, two, alone, strict=True):
        assert isinstance(views, tuple) and [view.shape[1] for view in views] == [32, 12, 32]
        np.testing.assert_array_equal(views[0], images)
        np.testing.assert_array_equal(views[0], pair[0])
        np.testing.assert_array_equal(views[1], pair[1])
        np.testing.assert_array_equal(labels, same)
        assert (views[0] != views[2]).any()


def test_the_second_view_does_not_depend_on_the_first(packed: Path) -> None:
    first = load(packed, Views(LARGE, SMALL))
    second = load(packed, Views([Resize((8, 8))], SMALL))
    for (a, _), (b, _) in zip(first, second, strict=True):
        np.testing.assert_array_equal(a[1], b[1])


def test_a_view_of_an_image_is_that_of_its_crop_alone(packed: Path) -> None:
    """Decoding once or for each view is a matter of speed: many overlapping views equal each view alone."""
    views = Views(*[[RandomResizedCrop(16, scale=(0.6, 1.0))]] * 6)
    for batch, _ in load(packed, views):
        assert len({view.tobytes() for view in batch}) == 6
    tall = load(
        packed,
        Views([RandomResizedCrop(16)], [Resize(20), CenterCrop(16)], [Resize(20), CenterCrop(16)]),
    )
    centre = load(packed, [Resize(20), CenterCrop(16)])
    for (views_of, _), (images, _) in zip(tall, centre, strict=True):
        np.testing.assert_array_equal(views_of[1], images)
        np.testing.assert_array_equal(views_of[2], images)


def test_views_of_one_shape_are_stacked_on_request(packed: Path) -> None:
    stacked = load(packed, Views(LARGE, count=3, stack=True))
    for (array, _), (views, _) in zip(stacked, load(packed, Views(LARGE, count=3)), strict=True):
        assert array.shape == (3, len(views[0]), 32, 32, 3)
        np.testing.assert_array_equal(array, np.stack(views))
    with pytest.raises(ValueError, match="cannot be stacked"):
        load(packed, Views(LARGE, SMALL, stack=True))


def test_threads_resuming_and_ranks_change_nothing(packed: Path) -> None:
    views = Views(LARGE, SMALL)
    whole = [[view.tobytes() for view in batch] for batch, _ in load(packed, views, threads=1)]
    assert whole == [[v.tobytes() for v in b] for b, _ in load(packed, views, threads=5)]
    loader = load(packed, views)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    loader.close()
    resumed = load(packed, views)
    resumed.load_state_dict(state)
    assert whole[1:] == [[view.tobytes() for view in batch] for batch, _ in resumed]
    options = {"shuffle": True, "transform": views, "seed": 3}
    parts = [headrace.Loader(packed, 4, rank=r, world_size=2, **options) for r in (0, 1)]
    for expected, *ranks in zip(load(packed, views), *parts, strict=True):
        for view in (0, 1):
            joined = np.concatenate([images[view] for images, _ in ranks])
            assert sorted(map(bytes, joined)) == sorted(map(bytes, expected[0][view]))


def negate(pixels: np.ndarray) -> np.ndarray:
    return 255 - pixels


@pytest.mark.parametrize("workers", [0, 2])
def test_each_view_has_python_steps_of_its_own(packed: Path, workers: int) -> None:
    plain = list(load(packed, Views(LARGE, SMALL)))
    views = Views(
        [*LARGE, OnArray(negate)], [*SMALL, OnArray(negate), Normalize((0, 0, 0), (1, 1, 1))]
    )
    for (images, _), (changed, _) in zip(
        plain, load(packed, views, num_workers=workers), strict=True
    ):
        np.testing.assert_array_equal(changed[0], 255 - images[0])
        np.testing.assert_allclose(changed[1], (255 - images[1]) / 255.0, atol=1e-6)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_view_of_the_core_stands_beside_one_of_python(packed: Path, workers: int) -> None:
    views = Views([*LARGE, Normalize()], [*SMALL, OnArray(negate)])
    plain = load(packed, Views([*LARGE, Normalize()], SMALL))
    for (images, _), (changed, _) in zip(
        plain, load(packed, views, num_workers=workers), strict=True
    ):
        np.testing.assert_array_equal(changed[0], images[0])
        np.testing.assert_array_equal(changed[1], 255 - images[1])


def noise(pixels: np.ndarray) -> np.ndarray:
    return np.random.randint(0, 256, pixels.shape, np.uint8)


def test_python_in_views_has_random_numbers_of_its_own(packed: Path) -> None:
    steps = [Resize((8, 8)), OnArray(noise)]
    (first, _), *_ = load(packed, Views(steps, count=2), num_workers=1)
    (again, _), *_ = load(packed, Views(steps, count=3), num_workers=2)
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(first, again[:2])


def test_views_that_begin_in_python_get_the_encoded_images(packed: Path) -> None:
    def shrink(image: Any) -> np.ndarray:
        return np.asarray(image.resize((5, 5)))

    for views, _ in load(packed, Views([shrink], [shrink]), num_workers=1):
        np.testing.assert_array_equal(views[0], views[1])
    with pytest.raises(ValueError, match="view 1 begins in Python"):
        load(packed, Views(LARGE, [shrink]))


def test_masks_have_views_too(tmp_path: Path) -> None:
    headrace.pack_dataset(make_pairs(tmp_path / "source"), tmp_path / "packed")
    views = Views([RandomCrop(16)], [RandomCrop(20), RandomHorizontalFlip()])
    loader = headrace.Loader(tmp_path / "packed", 4, fields=("image", "mask"), transform=views)
    for images, masks in loader:
        for image, mask in zip(images, masks, strict=True):
            np.testing.assert_array_equal(mask, image[..., 0])


def test_bad_samples_leave_all_views(packed: Path, tmp_path: Path) -> None:
    root = make_folder(tmp_path / "in", per_class=4)
    sorted(root.rglob("*.jpg"))[2].write_bytes(b"\xff\xd8 not a photo")
    loader = load(root, Views(LARGE, SMALL), on_error="skip")
    batches = list(loader)
    assert loader.stats().error_count == 1
    for (large, small), labels in batches:
        assert len(large) == len(small) == len(labels)


def test_tensors_are_channels_last(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader

    loader = Loader(packed, 4, transform=Views(LARGE, [*SMALL, Normalize()]))
    (large, small), labels = next(iter(loader))
    assert (large.shape, small.shape, labels.shape) == ((4, 3, 32, 32), (4, 3, 12, 12), (4,))
    assert (large.dtype, small.dtype) == (torch.uint8, torch.float32)
    assert large.is_contiguous(memory_format=torch.channels_last)
    stacked = Loader(packed, 4, transform=Views(LARGE, count=2, stack=True))
    assert next(iter(stacked))[0].shape == (2, 4, 3, 32, 32)
    on_device = Loader(packed, 4, transform=Views(LARGE, [*SMALL, Normalize()]), device="meta")
    (large, small), _ = next(iter(on_device))
    assert (large.dtype, small.dtype) == (torch.uint8, torch.float32)


def test_printing_groups_views(packed: Path) -> None:
    lines = str(load(packed, Views(LARGE, *[SMALL] * 8))).splitlines()
    assert [line.split(": ")[0].strip() for line in lines[2:]] == ["view 0"] * 2 + [
        "views 1 to 8"
    ] * 3


def test_views_are_checked() -> None:
    with pytest.raises(ValueError, match="give 1 to 128 transforms"):
        Views()
    with pytest.raises(ValueError, match="give 1 to 128 transforms"):
        Views(LARGE, count=129)
    with pytest.raises(TypeError, match="is itself Views"):
        Views(LARGE, Views(SMALL))
    assert pickle.loads(pickle.dumps(Views(LARGE, stack=True))).stack


def test_views_stand_alone(packed: Path) -> None:
    with pytest.raises(ValueError, match="Views is the whole transform"):
        load(packed, [Views(LARGE), Normalize()])
    with pytest.raises(ValueError, match="leave Clip out"):
        load(packed, Views([Clip(2), *LARGE]))
    assert len(next(iter(load(packed, [Views(LARGE, SMALL)])))[0]) == 2
