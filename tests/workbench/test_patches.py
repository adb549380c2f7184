"""Patched loaders: the kind of each moment of a loop, and the count of each batch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headrace import Loader
from headrace.transforms import RandomResizedCrop
from headrace.workbench.probe.patches import patch_headrace, patch_torch
from headrace.workbench.probe.timeline import BETWEEN, COMPUTE, FIRST, STARTUP, WAIT
from headrace.workbench.probe.watched_process import Process
from workbench.test_bench import make_photos

Make = Callable[..., Any]


class Marks(list[str]):
    """A timeline that notes only the order of kinds."""

    def __init__(self) -> None:
        super().__init__([STARTUP])

    def mark(self, kind: str) -> None:
        self.append(kind)

    def rename(self, kind: str) -> None:
        self[-1] = kind

    def close(self) -> None: ...

    def snapshot(self) -> list[str]:
        return list(self)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    (tmp_path / "record").mkdir()
    process = Process(str(tmp_path / "record"))
    process.timeline = Marks()  # type: ignore[assignment]
    process.begin()
    yield process
    process.finish()


def list_marks(process: Process) -> Any:
    return process.timeline


def make_torch(process: Process, *, several: bool = False) -> Make:
    """Watched DataLoaders; torch's own stay unpatched."""
    torch = pytest.importorskip("torch.utils.data.dataloader")

    class Single(torch._SingleProcessDataLoaderIter): ...

    class Several(Single):
        """Without workers, but it can be seen when they would be ended."""

        def __del__(self) -> None:
            process.timeline.mark("ending workers")

    class Watched(torch.DataLoader):
        def _get_iterator(self) -> Any:
            return Several(self) if several else Single(self)

    own = {"DataLoader": Watched, "_BaseDataLoaderIter": Single}
    patch_torch(SimpleNamespace(**own, _MultiProcessingDataLoaderIter=Several), process)  # type: ignore[arg-type]
    return Watched


@pytest.fixture
def loader(request: pytest.FixtureRequest, process: Process, tmp_path: Path) -> Any:
    if request.param == "torch":
        return make_torch(process)(range(10), 4)

    class Watched(Loader): ...

    patch_headrace(SimpleNamespace(Loader=Watched), process)  # type: ignore[arg-type]
    photos = make_photos(tmp_path / "photos", 10)
    return Watched(photos, 4, transform=[RandomResizedCrop(32)], threads=1)


both = pytest.mark.parametrize("loader", ["torch", "headrace"], indirect=True)


@both
def test_what_follows_a_loop_that_was_left_is_between_loops(process: Process, loader: Any) -> None:
    for number, _ in enumerate(loader):
        if number == 1:
            break
    assert list_marks(process)[-4:-1].count(COMPUTE) == 2
    assert list_marks(process)[-1] == BETWEEN


def test_a_loop_ends_also_where_another_thread_deletes_its_iterator(process: Process) -> None:
    held = [iter(make_torch(process)(range(10), 4))]
    next(held[0])
    sampler = threading.Thread(target=held.clear)
    sampler.start()
    sampler.join()
    assert list_marks(process)[-2:] == [COMPUTE, BETWEEN]


@both
def test_taking_one_batch_is_not_a_loop(process: Process, loader: Any) -> None:
    next(iter(loader))
    assert list_marks(process)[-2:] == [COMPUTE, BETWEEN]


def test_ending_the_workers_of_a_loop_that_was_left_is_between_loops(process: Process) -> None:
    next(iter(make_torch(process, several=True)(range(10), 4)))
    marks = list_marks(process)
    assert marks[marks.index(COMPUTE) :][:3] == [COMPUTE, BETWEEN, "ending workers"]


@both
def test_a_loop_continues_when_another_iterator_is_dropped(process: Process, loader: Any) -> None:
    other, own = iter(loader), iter(loader)
    next(other)
    next(own)
    del other
    assert list_marks(process)[-1] == COMPUTE


@both
def test_a_short_last_batch_is_counted_exactly(process: Process, loader: Any) -> None:
    for _ in range(2):
        for _ in loader:
            pass
    (told,) = (tell() for tell in process.loaders)
    assert (told["epochs"], told["batches"], told["images"]) == (2, 6, 20)


def test_without_workers_the_first_batch_counts_as_waiting(process: Process) -> None:
    list(make_torch(process)(range(10), 4))
    told = process.loaders[0]()
    assert told["first_batches"] == told["first_images"] == 0
    waits = [WAIT, COMPUTE] * 3
    assert list_marks(process) == [STARTUP, FIRST, BETWEEN, *waits, BETWEEN, BETWEEN]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4, "collate_fn": list},
        {"batch_size": 4, "collate_fn": tuple, "sampler": range(10)},
        {"batch_sampler": [[0, 1, 2, 3], [4, 5, 6, 7, 8], [9]]},
    ],
    ids=["own collate", "own sampler", "own batches"],
)
def test_batch_sizes_are_found_if_possible(process: Process, options: dict[str, Any]) -> None:
    list(make_torch(process)(range(10), **options))
    assert process.loaders[0]()["images"] == 10


class Endless:
    def __iter__(self) -> Any:
        return iter(range(8))

    def __len__(self) -> int:
        raise ValueError("endless")


class Odd:
    def shape(self) -> None:
        """Not a property."""


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4, "sampler": Endless(), "collate_fn": list},
        {"batch_sampler": [[0, 1], [2]], "collate_fn": lambda batch: Odd()},
    ],
    ids=["sampler", "batch"],
)
def test_counting_never_raises_in_the_users_loop(process: Process, options: dict[str, Any]) -> None:
    loader = make_torch(process)(range(10), **options)
    assert sum(1 for _ in loader) == 2


class Batches(list[list[int]]):
    """A batch sampler with any value as `batch_size`."""

    def __init__(self, batch_size: object) -> None:
        super().__init__([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
        self.batch_size = batch_size


class Unsized(Batches):
    @property
    def batch_size(self) -> int:
        raise NotImplementedError("it varies")

    @batch_size.setter
    def batch_size(self, size: object) -> None: ...


@pytest.mark.parametrize(
    ("sampler", "size"),
    [
        (Batches(np.int64(4)), 4),
        (Batches(np.array(4)), 4),
        (Batches(lambda: 4), 1),
        (Batches("4"), 1),
        (Unsized(4), 1),
    ],
    ids=["numpy", "array", "method", "text", "raises"],
)
@pytest.mark.parametrize("collate", [None, lambda batch: batch], ids=["torch", "own"])
def test_a_batch_size_may_be_anything(
    process: Process, sampler: Batches, size: int, collate: Any
) -> None:
    list(make_torch(process)(range(10), batch_sampler=sampler, collate_fn=collate))
    told = json.loads(json.dumps(process.loaders[0]()))
    assert (told["batch_size"], told["batches"]) == (size, 3)
    assert told["images"] == (10 if collate is None or size > 1 else 3)


def test_worker_counts_may_be_numpy_integers(process: Process) -> None:
    iter(make_torch(process)(range(10), 4, num_workers=np.int64(0)))
    assert json.loads(json.dumps(process.loaders[0]()))["workers"] == 0


def test_a_subclass_may_make_its_own_iterators(process: Process) -> None:
    class Own(make_torch(process)):  # type: ignore[misc]
        def _get_iterator(self) -> Any:
            return iter("abc")

    assert list(Own(range(10), 4)) == ["a", "b", "c"]


def test_strings_are_counted_and_not_their_letters(process: Process) -> None:
    list(make_torch(process)([{"name": "ab", "label": 1}] * 10, 4))
    assert process.loaders[0]()["images"] == 10


def test_only_image_folders_have_a_known_folder(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DatasetFolder(list[int]):
        root = "/data"

    class Other(list[int]):
        root = "/data"

    class Lazy:
        def __getattr__(self, name: str) -> Any:
            raise KeyError(name)

    folders = SimpleNamespace(DatasetFolder=DatasetFolder)
    monkeypatch.setitem(__import__("sys").modules, "torchvision.datasets.folder", folders)
    make = make_torch(process)
    wrapped = SimpleNamespace(dataset=DatasetFolder([1]))
    for data in (DatasetFolder([1]), wrapped, Other([1]), Lazy()):
        iter(make(data, 4, sampler=[0]))
    assert [tell()["source"] for tell in process.loaders] == ["/data", "/data", None, None]
