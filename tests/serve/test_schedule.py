"""Sizes as a function of epoch and step, and batch sizes of the epoch: exact, resumable, with an honest length."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import headrace
from headrace.transforms import (
    CenterCrop,
    Clip,
    CutMix,
    MixChoice,
    MixUp,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Schedule,
    TrivialAugmentWide,
    Views,
)
from serve.test_masks import make_pairs
from trees import make_folder
from videos import make_video, save_videos

GROWING = Schedule({0: 16, 2: (24, 20), 5: 32})


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schedule")
    headrace.pack_dataset(make_folder(folder / "in", per_class=6), folder / "out")
    return folder / "out"


def load(path: Path, transform: Any, batch_size: Any = 6, **options: Any) -> headrace.Loader:
    given = {"shuffle": True, "seed": 4, **options}
    return headrace.Loader(path, batch_size, transform=transform, **given)


def collect(loader: headrace.Loader) -> list[tuple[bytes, ...]]:
    """Return all that the batches of an epoch consist of."""
    return [
        (str(images.shape).encode(), images.tobytes(), labels.tobytes(), batch.valid.tobytes())
        for batch in loader
        for images, labels in [batch]
    ]


def resume_everywhere(make: Callable[[], headrace.Loader], epoch: int) -> None:
    """Compare an epoch, and the first batch of the next, with loaders that resume after each of its steps."""
    whole = make()
    whole.set_epoch(epoch)
    assert whole.state_dict()["epoch"] == epoch
    states = [whole.state_dict()] + [whole.state_dict() for _ in whole]
    whole.set_epoch(epoch)
    expected = collect(whole)
    assert len(states) == len(expected) + 1
    following = collect(whole)[:1]
    for done, state in enumerate(states):
        resumed = pickle.loads(pickle.dumps(make()))
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        if done < len(expected):
            assert len(resumed) == len(expected)
            assert collect(resumed) == expected[done:]
        assert collect(resumed)[:1] == following


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


sizes = st.sampled_from([8, 12, (9, 13), (16, 8)])
by_epochs = st.dictionaries(st.integers(1, 4), sizes, max_size=2)
batches = st.dictionaries(st.integers(1, 4), st.sampled_from([2, 3, 6, 8]), max_size=2)


@settings(max_examples=12)
@given(
    first=sizes,
    later=by_epochs,
    by=st.sampled_from(["epoch", "step"]),
    batch=batches,
    epoch=st.integers(0, 4),
    ranks=st.sampled_from([1, 2]),
    threads=st.sampled_from([1, 7]),
    drop_last=st.booleans(),
)
def test_a_step_is_that_of_a_loader_of_its_sizes(
    packed: Path,
    first: Any,
    later: dict[int, Any],
    by: Any,
    batch: dict[int, int],
    epoch: int,
    ranks: int,
    threads: int,
    drop_last: bool,
) -> None:
    size, count = Schedule({0: first, **later}, by=by), Schedule({0: 4, **batch})
    for rank in range(ranks):
        options = {"rank": rank, "world_size": ranks, "threads": threads, "drop_last": drop_last}
        loader = load(packed, [RandomResizedCrop(size), Normalize()], count, **options)
        loader.set_epoch(epoch)
        steps_of_epoch = len(loader)
        received = list(loader)
        assert steps_of_epoch == len(received)
        for own in {size.at(epoch, step) for step in range(len(received))}:
            fixed = load(packed, [RandomResizedCrop(own), Normalize()], count.at(epoch), **options)
            fixed.set_epoch(epoch)
            for step, (found, expected) in enumerate(zip(received, fixed, strict=True)):
                np.testing.assert_array_equal(found[1], expected[1])
                if size.at(epoch, step) == own:
                    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("threads", [1, 7])
@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_schedule_resumes_after_every_step(
    packed: Path, ranks: int, threads: int, epoch: int
) -> None:
    steps = [
        Resize(Schedule({0: 30, 1: 40})),
        RandomCrop(Schedule({0: 12, 1: 16, 3: (20, 8)}, by="step"), pad_if_needed=True),
        TrivialAugmentWide(),
        Normalize(),
        MixChoice([MixUp(0.2), CutMix()]),
    ]
    for rank in range(ranks):
        options = {"rank": rank, "world_size": ranks, "threads": threads}

        def make(options: dict[str, int] = options) -> headrace.Loader:
            sizes = Schedule({0: 16 // ranks, 1: 6 // ranks, 2: 10 // ranks})
            return load(packed, steps, sizes, **options)

        resume_everywhere(make, epoch)


def test_ranks_share_the_global_batches_of_a_schedule(packed: Path) -> None:
    steps = [RandomResizedCrop(Schedule({0: 8, 1: 12}, by="step"))]
    for epoch in range(3):
        parts = []
        for ranks in (1, 2, 4):
            counts = Schedule({0: 8 // ranks, 1: 4 // ranks})
            loaders = [load(packed, steps, counts, rank=r, world_size=ranks) for r in range(ranks)]
            for loader in loaders:
                loader.set_epoch(epoch)
            parts.append(
                [
                    (np.concatenate([b[0][b.valid] for b in step]).tobytes(), len(loaders[0]))
                    for step in zip(*loaders, strict=True)
                ]
            )
        assert parts[0] == parts[1] == parts[2]


def test_the_length_is_that_of_the_next_epoch(packed: Path) -> None:
    loader = load(packed, [RandomResizedCrop(8)], Schedule({0: 6, 1: 4, 2: 18}))
    assert (len(loader), loader.count_samples()) == (3, 18)
    for epoch, count in ((0, 3), (1, 5), (2, 1), (3, 1)):
        assert len(loader) == count
        for batch in loader:
            assert len(loader) == count and batch.epoch == epoch
    loader.set_epoch(1)
    assert len(loader) == 5
    assert "batch_size=Schedule({0: 6, 1: 4, 2: 18}), 5 steps" in repr(loader)


def test_a_state_is_checked_against_the_batch_of_its_epoch(packed: Path) -> None:
    steps = [RandomResizedCrop(8)]
    loader = load(packed, steps, Schedule({0: 6, 1: 4}))
    loader.set_epoch(1)
    next(iter(loader))
    state = loader.state_dict()
    assert state["global_batch"] == 4
    load(packed, steps, 4).load_state_dict(state)
    for other in (6, Schedule({0: 4, 1: 6}), Schedule({0: 6, 2: 4})):
        with pytest.raises(ValueError, match="global_batch is 4, here 6"):
            load(packed, steps, other).load_state_dict(state)


def test_workers_in_python_and_masks_of_the_image_follow_the_step(packed: Path) -> None:
    size = Schedule({0: 8, 1: 12}, by="step")
    inverted = load(packed, [RandomResizedCrop(size), invert], num_workers=2)
    plain = load(packed, [RandomResizedCrop(size)])
    for step, ((images, _), (others, _)) in enumerate(zip(inverted, plain, strict=True)):
        assert images.shape[1:3] == ((8, 8) if step == 0 else (12, 12))
        np.testing.assert_array_equal(images, 255 - others)
    assert "sizes change from step 1 on" in str(plain)


def test_masks_and_clips_follow_the_step(tmp_path: Path) -> None:
    size = Schedule({0: 8, 1: 12}, by="step")
    headrace.pack_dataset(make_pairs(tmp_path / "source"), tmp_path / "pairs")
    fields = ("image", "mask")
    pairs = headrace.Loader(tmp_path / "pairs", 2, fields=fields, transform=[RandomCrop(size)])
    for step, (images, masks) in enumerate(pairs):
        assert images.shape[1] == masks.shape[1] == size.at(0, step)
        np.testing.assert_array_equal(masks, images[..., 0])
    videos = save_videos(tmp_path / "videos", [make_video(i, 9, (40, 50)) for i in range(4)])
    clips = headrace.Loader(videos, 2, transform=[Clip(2), CenterCrop(size)])
    shapes = [frames.shape[1:4] for frames, _ in clips]
    assert shapes[:2] == [(2, 8, 8), (2, 12, 12)] and len(shapes) == len(clips)


def test_a_compose_may_hold_a_schedule(packed: Path, torchvision: ModuleType) -> None:
    compose = torchvision.transforms.v2.Compose([RandomResizedCrop(Schedule({0: 8, 1: 12}))])
    loader = load(packed, compose)
    assert {images.shape[1] for images, _ in loader} == {8}
    assert {images.shape[1] for images, _ in loader} == {12}


def test_a_step_that_no_epoch_reaches_changes_nothing(packed: Path) -> None:
    loader = load(packed, [RandomResizedCrop(Schedule({0: 8, 999: 12}, by="step"))])
    assert {images.shape[1] for images, _ in loader} == {8}


def invert(image: Any) -> Any:
    return Image.fromarray(255 - np.asarray(image))


@pytest.mark.parametrize(
    ("batch_size", "options", "message"),
    [
        (Schedule({0: 8, 1: 0}), {}, "each size must be at least 1"),
        (Schedule({0: 8, 1: 4}, by="step"), {}, "with the epoch, not with the step"),
        (Schedule({0: 8, 1: 6}), {"repeat": 4}, "each size must be a multiple of repeat, 4"),
    ],
)
def test_batch_sizes_are_checked_at_once(
    packed: Path, batch_size: Any, options: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load(packed, [RandomResizedCrop(8)], batch_size, **options)
    with pytest.raises(TypeError, match="is not an integer"):
        load(packed, [RandomResizedCrop(8)], Schedule({0: 8, 1: (4, 4)}))


def test_what_fails_in_a_later_epoch_fails_in_the_first(packed: Path) -> None:
    mixing = [RandomResizedCrop(8), Normalize(), MixUp()]
    with pytest.raises(ValueError, match="a step of 8 has one sample of each of 8 lanes"):
        next(iter(load(packed, mixing, Schedule({0: 16, 30: 8}))))
    large = load(packed, [RandomResizedCrop(8)], Schedule({0: 4, 30: 20}), drop_last=True)
    with pytest.raises(ValueError, match="epochs of batches of 20 have no steps, .* 18 samples"):
        next(iter(large))
    growing = [RandomResizedCrop(Schedule({0: 8, 30: 9}))]
    with pytest.raises(ValueError, match="cannot be stacked"):
        load(packed, Views(growing, [RandomResizedCrop(8)], stack=True))
    by_step = [RandomResizedCrop(Schedule({0: 8, 30: 9}, by="step"))]
    with pytest.raises(ValueError, match="cannot be stacked"):
        load(packed, Views(by_step, [RandomResizedCrop(8)], stack=True))


def test_schedules_are_checked() -> None:
    with pytest.raises(ValueError, match="by must be one of epoch, step"):
        Schedule({0: 8}, by="batch")  # type: ignore[arg-type]
    assert repr(Schedule({0: 8, 5: 9}, by="step")) == "Schedule({0: 8, 5: 9}, by='step')"
    for wrong in ({}, {1: 8}, {0: 8, "x": 9}, {-1: 8}):
        with pytest.raises(ValueError, match="from 0 on"):
            Schedule(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size is 0"):
        RandomResizedCrop(Schedule({0: 0}))
    with pytest.raises(ValueError, match="leave max_size out"):
        Resize(GROWING, max_size=90)
