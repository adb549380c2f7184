"""Sizes as a function of the epoch: exact, resumable, and as long as any epoch."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.transforms import (
    CenterCrop,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Schedule,
    Views,
)
from trees import make_folder

GROWING = Schedule({0: 16, 2: (24, 20), 5: 32})


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schedule")
    headrace.pack_dataset(make_folder(folder / "in", per_class=6), folder / "out")
    return folder / "out"


def load(path: Path, transform: Any) -> headrace.Loader:
    return headrace.Loader(path, 6, shuffle=True, seed=4, transform=transform)


@pytest.mark.parametrize("epoch", [0, 1, 2, 4, 5, 90])
def test_an_epoch_is_that_of_a_loader_of_its_size(packed: Path, epoch: int) -> None:
    size = GROWING.at(epoch)
    scheduled = load(packed, [RandomResizedCrop(GROWING), RandomHorizontalFlip(), Normalize()])
    fixed = load(packed, [RandomResizedCrop(size), RandomHorizontalFlip(), Normalize()])
    assert len(scheduled) == len(fixed)
    scheduled.set_epoch(epoch)
    fixed.set_epoch(epoch)
    for (images, _), (expected, _) in zip(scheduled, fixed, strict=True):
        np.testing.assert_array_equal(images, expected)


def test_epochs_follow_one_another_and_resume(packed: Path) -> None:
    steps = [
        Resize(Schedule({0: 40, 1: 50})),
        RandomCrop(Schedule({0: 20, 1: 30}), pad_if_needed=True),
    ]
    loader = load(packed, steps)
    assert {images.shape[1] for images, _ in loader} == {20}
    assert {images.shape[1] for images, _ in loader} == {30}
    loader.set_epoch(1)
    iterator = iter(loader)
    next(iterator)
    state, rest = loader.state_dict(), [images for images, _ in iterator]
    resumed = pickle.loads(pickle.dumps(load(packed, steps)))
    resumed.load_state_dict(state)
    np.testing.assert_array_equal(rest, [images for images, _ in resumed])


def test_views_and_tensors_have_schedules(packed: Path) -> None:
    pytest.importorskip("torch")
    from headrace.torch import Loader

    views = Views([RandomResizedCrop(GROWING)], [Resize(40), CenterCrop(Schedule({0: 8, 1: 12}))])
    loader = Loader(packed, 6, transform=views)
    for epoch, sides in ((0, (16, 8)), (1, (16, 12)), (5, (32, 12))):
        loader.set_epoch(epoch)
        (first, second), _ = next(iter(loader))
        assert (first.shape[-2], second.shape[-2]) == sides


def test_schedules_are_checked() -> None:
    for wrong in ({}, {1: 8}, {0: 8, "x": 9}, {-1: 8}):
        with pytest.raises(ValueError, match="from 0 on"):
            Schedule(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size is 0"):
        RandomResizedCrop(Schedule({0: 0}))
    with pytest.raises(ValueError, match="leave max_size out"):
        Resize(GROWING, max_size=90)
