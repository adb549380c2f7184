"""The user's own Python gives the same with any number of workers, resumes, and names the sample in errors."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace
import own_transforms as functions
from headrace import Loader, WorkerError
from headrace.transforms import Normalize, OnArray, RandomHorizontalFlip, RandomResizedCrop, Resize

CROP = [RandomResizedCrop(24), RandomHorizontalFlip()]


def list_descriptors() -> dict[str, str]:
    """List all descriptors but those of anonymous memory, which lives as long as a batch in it."""
    links = {
        path.name: os.readlink(path)
        for path in Path("/proc/self/fd").iterdir()
        if path.is_symlink()
    }
    return {name: link for name, link in links.items() if "memfd" not in link}


def list_shared() -> set[str]:
    """List shared memory with our name or process id, not that of other programs."""
    ours = ("headrace", f"_{os.getpid()}_")
    return {name for name in os.listdir("/dev/shm") if any(part in name for part in ours)}


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that nothing inside leaves a process, thread, descriptor or named shared memory behind."""
    names, threads = list_shared(), threading.active_count()
    before = list_descriptors()
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    assert threading.active_count() == threads
    assert list_shared() - names == set()
    assert len(list_descriptors()) <= len(before), list_descriptors().items() - before.items()


def images(loader: Loader, epoch: int = 0) -> list[np.ndarray]:
    loader.set_epoch(epoch)
    return [np.array(batch[0]) for batch in loader]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))


@pytest.mark.parametrize("transform", [[*CROP, functions.draw_pixels], functions.draw_pixels])
def test_batches_do_not_depend_on_workers(packed: Path, transform: Any) -> None:
    def load(workers: int) -> list[np.ndarray]:
        options = {"shuffle": True, "seed": 4, "transform": transform}
        with nothing_left():
            return images(Loader(packed, 16, num_workers=workers, **options), epoch=2)

    expected = load(0)
    assert len(expected) == 4
    assert same(load(1), expected)
    assert same(load(3), expected)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_every_start_method_gives_the_same(packed: Path, method: str) -> None:
    def load(**options: Any) -> list[np.ndarray]:
        return images(Loader(packed, 32, transform=[*CROP, functions.draw_pixels], **options))

    assert same(load(num_workers=1, start_method=method), load(num_workers=0))


def test_every_sample_has_its_own_randomness_in_every_epoch(packed: Path) -> None:
    pytest.importorskip("torch")
    loader = Loader(packed, 16, transform=functions.draw_numbers, num_workers=1)
    first, second = (np.concatenate(images(loader, epoch)) for epoch in (0, 1))
    assert first.shape == (61, 3)
    numbers = np.concatenate([first, second]).ravel()
    assert len(np.unique(numbers)) == numbers.size


def test_a_repeated_sample_has_its_own_randomness(packed: Path) -> None:
    options: dict[str, Any] = {"weights": np.arange(61) == 7, "num_workers": 0}
    loader = Loader(packed, 16, transform=functions.draw_numbers, **options)
    numbers = np.concatenate(images(loader))[:, 0]
    assert len(np.unique(numbers)) == len(numbers) == 61


def test_shuffling_moves_samples_and_not_their_randomness(packed: Path) -> None:
    def by_row(**options: Any) -> np.ndarray:
        loader = Loader(packed, 16, transform=functions.draw_numbers, num_workers=0, **options)
        found = np.zeros((61, 3))
        for batch in loader:
            found[batch.rows] = batch[0]
        return found

    assert np.array_equal(by_row(shuffle=True), by_row(shuffle=False))


def test_without_workers_the_random_state_of_the_caller_is_kept(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.random(), float(torch.rand(1))
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    images(Loader(packed, 16, transform=functions.draw_numbers, num_workers=0))
    assert (random.random(), np.random.random(), float(torch.rand(1))) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_at_any_step_gives_the_same_batches(packed: Path, workers: int) -> None:
    options: dict[str, Any] = {"shuffle": True, "transform": functions.draw_pixels}
    expected = images(Loader(packed, 8, num_workers=0, **options))
    for step in (1, 3, 7):
        loader = Loader(packed, 8, num_workers=workers, **options)
        batches = iter(loader)
        head = [np.array(next(batches)[0]) for _ in range(step)]
        state = loader.state_dict()
        batches.close()
        later = Loader(packed, 8, num_workers=workers, **options)
        later.load_state_dict(state)
        assert same(head + [np.array(batch[0]) for batch in later], expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_has_the_traceback_and_the_key(packed: Path, workers: int) -> None:
    loader = Loader(packed, 16, transform=functions.fail_on_small, num_workers=workers)
    with nothing_left(), pytest.raises(WorkerError) as caught:
        list(loader)
    row = caught.value.position
    assert row is not None
    assert repr(headrace.open_dataset(packed).read_row(row).key) in str(caught.value)
    assert "in fail_on_small" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_transform_that_kills_its_worker_raises_an_error(packed: Path) -> None:
    loader = Loader(packed, 16, transform=functions.die, num_workers=2)
    with nothing_left(), pytest.raises(WorkerError, match="killed by SIGKILL"):
        list(loader)


@pytest.mark.parametrize("number", range(6))
def test_killing_a_worker_raises_an_error_within_a_second(packed: Path, number: int) -> None:
    with nothing_left():
        loader = Loader(packed, 4, transform=functions.spin, num_workers=2)
        batches = iter(loader)
        for _ in range(1 + number):
            next(batches)
        victim = multiprocessing.active_children()[number % 2]
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        killed = time.perf_counter()
        with pytest.raises(WorkerError, match="killed by SIGKILL"):
            list(batches)
        assert time.perf_counter() - killed < 1


def test_breaking_off_ends_the_workers_in_the_middle_of_their_work(packed: Path) -> None:
    with nothing_left():
        loader = Loader(packed, 4, transform=functions.spin, num_workers=2)
        batches = iter(loader)
        next(batches)
        loader.close()
        del batches


def test_two_iterators_can_run_at_once(packed: Path) -> None:
    loader = Loader(packed, 16, transform=functions.draw_pixels, num_workers=1)
    expected = images(loader)
    loader.set_epoch(0)
    first, second = iter(loader), iter(loader)
    pairs = list(zip(first, second))
    assert same([np.array(batch[0]) for batch, _ in pairs], expected)
    assert same([np.array(batch[0]) for _, batch in pairs], expected)


def test_batches_that_are_kept_are_not_overwritten(packed: Path) -> None:
    loader = Loader(packed, 8, transform=functions.draw_pixels, num_workers=2)
    kept = [batch[0] for batch in loader]
    copies = [image.copy() for image in kept]
    loader.set_epoch(0)
    for _ in loader:
        pass
    assert same(kept, copies)


@pytest.mark.parametrize("workers", [0, 1])
def test_functions_get_pil_images_or_arrays_as_they_ask(packed: Path, workers: int) -> None:
    def is_pil(image: Any) -> np.ndarray:
        return np.array([isinstance(image, Image.Image), isinstance(image, np.ndarray)])

    loader = Loader(packed, 61, transform=is_pil, num_workers=workers)
    assert next(iter(loader))[0].all(axis=0).tolist() == [True, False]
    loader = Loader(packed, 61, transform=OnArray(is_pil), num_workers=workers)
    assert next(iter(loader))[0].all(axis=0).tolist() == [False, True]


def test_our_own_transforms_run_before_and_after_a_function(packed: Path) -> None:
    def invert(pixels: np.ndarray) -> np.ndarray:
        return 255 - pixels

    plain = images(Loader(packed, 16, transform=CROP))
    loader = Loader(packed, 16, transform=[*CROP, OnArray(invert), Normalize()], num_workers=1)
    table = Loader(packed, 16, transform=[*CROP, Normalize()])._contents.outputs[0].table()
    assert table is not None
    for before, after in zip(plain, images(loader)):
        for channel in range(3):
            expected = table[channel][255 - before[..., channel]]
            assert np.array_equal(after[..., channel], expected)


def test_crops_after_python_are_refused(packed: Path) -> None:
    with pytest.raises(ValueError, match="put it at the beginning"):
        Loader(packed, 16, transform=[functions.shrink, *CROP])


@pytest.mark.parametrize("steps", [[Resize(24)], [Resize(24), functions.shrink]])
def test_our_own_steps_that_keep_different_sizes_are_refused(
    packed: Path, steps: list[object]
) -> None:
    with pytest.raises(ValueError, match=r"Resize\(24\) leaves images of different sizes"):
        Loader(packed, 16, transform=steps, collate_fn=functions.gather)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_is_what_collate_fn_returns(packed: Path, workers: int) -> None:
    loader = Loader(packed, 16, transform=CROP, collate_fn=functions.gather, num_workers=workers)
    found = list(loader)
    labels = [label for batch in found for label in batch["labels"]]
    assert labels == [sample.label for sample in headrace.open_dataset(packed)]
    assert found[0]["sizes"] == [(24, 24)] * 16


def test_a_tuple_of_collate_fn_still_knows_its_rows(packed: Path) -> None:
    options: dict[str, Any] = {"transform": functions.shrink, "collate_fn": functions.pair}
    for batch in Loader(packed, 16, num_workers=1, **options):
        pictures, labels = batch
        assert len(pictures) == len(labels) == len(batch.rows)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_without_a_good_sample_has_no_label_in_collate_fn(
    tmp_path: Path, workers: int
) -> None:
    for number in range(3):
        path = tmp_path / "in" / "class0" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no image")
    options: dict[str, Any] = {"transform": functions.shrink, "collate_fn": functions.gather}
    loader = Loader(tmp_path / "in", 3, on_error="skip", num_workers=workers, **options)
    (batch,) = loader
    assert batch["labels"] == [-100]


def test_a_result_that_cannot_be_pickled_is_named(packed: Path) -> None:
    loader = Loader(
        packed,
        2,
        transform=CROP,
        collate_fn=lambda samples: threading.Lock(),
        num_workers=1,
        start_method="fork",
    )
    with pytest.raises(WorkerError, match="cannot leave its process in step 0 of epoch 0"):
        next(iter(loader))


def test_structures_are_collated(packed: Path) -> None:
    loader = Loader(packed, 16, transform=functions.two_views, num_workers=1)
    (first, second), labels = next(iter(loader))
    assert first.shape == (16, 8, 8, 3) and first.dtype == np.uint8
    assert second["mean"].shape == labels.shape == (16,)


def test_torch_gets_tensors_and_pictures_as_nchw(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader as TorchLoader

    pictures, labels = next(iter(TorchLoader(packed, 16, transform=functions.shrink)))
    assert pictures.shape == (16, 3, 8, 8) and labels.dtype == torch.int64
    assert pictures.is_contiguous(memory_format=torch.channels_last)
    arrays, _ = next(iter(TorchLoader(packed, 16, transform=functions.draw_pixels)))
    assert arrays.shape == (16, 8, 8, 3) and arrays.dtype == torch.float64


def test_arrays_stay_as_they_are_unless_they_are_converted(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader as TorchLoader

    steps = [RandomResizedCrop(8), OnArray(np.flipud)]
    for device in ("cpu", "meta"):
        options: dict[str, Any] = {"num_workers": 0, "device": device}
        ((arrays, _), *_) = TorchLoader(packed, 4, transform=steps, **options)
        assert arrays.shape == (4, 8, 8, 3) and arrays.dtype == torch.uint8
        ((floats, _), *_) = TorchLoader(packed, 4, transform=[*steps, Normalize()], **options)
        assert floats.shape == (4, 3, 8, 8) and floats.dtype == torch.float32


def test_a_loop_waits_for_python_that_runs_in_its_own_thread(packed: Path) -> None:
    spent = []

    def spin(image: Image.Image) -> Image.Image:
        before = time.perf_counter()
        image = functions.spin(image)
        spent.append(time.perf_counter() - before)
        return image

    loader = Loader(headrace.open_dataset(packed)[:16], 8, transform=spin, num_workers=0)
    list(loader)
    stats = loader.stats()
    assert len(spent) == 16 and sum(spent) <= stats.wait_seconds <= stats.seconds


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_whose_transform_raised_is_not_counted(packed: Path, workers: int) -> None:
    loader = Loader(packed, 8, transform=functions.fail_on_small, num_workers=workers)
    received = []
    with pytest.raises(WorkerError, match="too narrow"):
        received.extend(map(len, (batch.rows for batch in loader)))
    stats = loader.stats()
    assert (stats.batches, stats.images) == (len(received), sum(received))


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
@pytest.mark.parametrize("workers", [0, 2])
def test_bad_images_are_handled_as_in_the_core(
    tmp_path: Path, folder: Path, on_error: Any, workers: int
) -> None:
    for number, path in enumerate(sorted(folder.rglob("*.jpg"))[:12]):
        target = tmp_path / "bad" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes()
        target.write_bytes(data[: len(data) // 2] if number in (2, 7) else data)
    options: dict[str, Any] = {"on_error": on_error, "shuffle": True}
    core = Loader(tmp_path / "bad", 6, transform=[RandomResizedCrop(8)], **options)
    loader = Loader(tmp_path / "bad", 6, transform=functions.shrink, num_workers=workers, **options)
    expected = [batch.rows.tolist() for batch in core]
    assert [batch.rows.tolist() for batch in loader] == expected
    assert loader.stats().images == core.stats().images == sum(map(len, expected))
    keys = [sorted(key for key, _ in each.stats().errors) for each in (loader, core)]
    assert keys[0] == keys[1] and len(keys[0]) == 2


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_a_batch_without_a_good_image_is_delivered_as_invalid(
    tmp_path: Path, folder: Path, on_error: Any
) -> None:
    for number, path in enumerate(sorted(folder.rglob("*.jpg"))[:4]):
        target = tmp_path / "bad" / "a" / f"{number}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes()[: None if number < 2 else 300])
    options: dict[str, Any] = {"on_error": on_error, "num_workers": 1}
    loader = Loader(tmp_path / "bad", 2, transform=functions.shrink, **options)
    good, bad = list(loader)
    assert good.valid.all() and len(good[0]) == 2
    assert not bad.valid.any() and len(bad[0]) == len(bad[1]) == (1 if on_error == "skip" else 2)
    assert (bad[1] == -100).all()


def test_a_bad_image_is_named(tmp_path: Path, folder: Path) -> None:
    data = next(folder.rglob("*.jpg")).read_bytes()
    (tmp_path / "bad" / "a").mkdir(parents=True)
    (tmp_path / "bad" / "a" / "torn.jpg").write_bytes(data[: len(data) // 2])
    loader = Loader(tmp_path / "bad", 1, transform=functions.shrink, num_workers=1)
    with nothing_left(), pytest.raises(headrace.DecodeError, match="torn"):
        list(loader)


def test_negative_workers_are_refused(packed: Path) -> None:
    with pytest.raises(ValueError, match="num_workers is -1"):
        Loader(packed, 16, transform=CROP, num_workers=-1)
