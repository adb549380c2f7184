"""Long jobs in threads: Ctrl-C and errors end them within a sample, and leave nothing."""

from __future__ import annotations

import gc
import itertools
import signal
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from formats.making import make_example, photos, write_tfrecord
from headrace import PackError, index_dataset, pack_dataset, verify_dataset
from headrace.pack import index_in_place
from headrace.store import verify
from headrace.store.manifest import FileRecord
from headrace.store.verify import check_file
from headrace.work.cancellable import map_ahead, run_cancellable, until_cancelled
from trees import make_folder


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType, str], list[object]]:
    """Lets Ctrl-C come in the third call of a function, which goes on when the main thread has heard of it."""
    leaving = threading.Event()
    shutdown = ThreadPoolExecutor.shutdown

    def shut_down(self: ThreadPoolExecutor, **options: Any) -> None:
        leaving.set()
        shutdown(self, **options)

    def interrupt(module: ModuleType, name: str) -> list[object]:
        original, calls = getattr(module, name), list[object]()

        def call(*args: Any, **options: Any) -> Any:
            calls.append(args)
            if len(calls) == 3:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                assert leaving.wait(20)
            return original(*args, **options)

        monkeypatch.setattr(module, name, call)
        monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shut_down)
        return calls

    return interrupt


def make_tfrecord(folder: Path) -> Path:
    folder.mkdir()
    examples = [make_example({"image/encoded": data}) for data in photos(9)]
    write_tfrecord(folder / "a.tfrecord", examples)
    return folder


def make_tars(folder: Path) -> Path:
    pack_dataset(make_folder(folder / "in"), folder / "packed")
    (folder / "packed/headrace.json").unlink()
    return folder / "packed"


@pytest.mark.parametrize("make", [make_tfrecord, make_tars, make_folder])
def test_ctrl_c_ends_indexing_at_the_next_sample(
    tmp_path: Path,
    interrupt: Callable[[ModuleType, str], list[object]],
    make: Callable[[Path], Path],
) -> None:
    source = make(tmp_path / "source")
    calls = interrupt(index_in_place, "describe_sample")
    with pytest.raises(KeyboardInterrupt):
        index_dataset(source, out=tmp_path / "new/index")
    assert len(calls) == 3
    assert not (tmp_path / "new").exists()


def test_ctrl_c_ends_verifying_at_the_next_sample(
    tmp_path: Path, interrupt: Callable[[ModuleType, str], list[object]]
) -> None:
    pack_dataset(make_folder(tmp_path / "in"), tmp_path / "packed")
    calls = interrupt(verify, "read_field")
    with pytest.raises(KeyboardInterrupt):
        verify_dataset(tmp_path / "packed")
    assert len(calls) == 3


def count_for_ever(folder: Path) -> None:
    for _ in until_cancelled(itertools.count()):
        pass


def hash_a_terabyte(folder: Path) -> None:
    with open(folder / "large", "wb") as file:
        file.truncate(1 << 40)
    list(check_file(folder, FileRecord("large", 1 << 40, "")))


@pytest.mark.parametrize("long", [count_for_ever, hash_a_terabyte])
@pytest.mark.parametrize("bad", [0, 1])
def test_a_call_that_fails_cancels_those_before_and_after_it(
    tmp_path: Path, long: Callable[[Path], None], bad: int
) -> None:
    begun = threading.Event()

    def call(number: int) -> None:
        if number != bad:
            begun.set()
            long(tmp_path)
        assert begun.wait(20)
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        run_cancellable(call, range(2), workers=2)


def test_results_come_in_the_order_of_the_items() -> None:
    assert run_cancellable(lambda number: number * 2, range(99), workers=4) == [*range(0, 198, 2)]


def test_an_error_leaves_a_folder_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    bad = make_example({"image/encoded": photos(1)[0][:99]})
    write_tfrecord(tmp_path / "a.tfrecord", [bad])
    with pytest.raises(PackError, match="cannot be indexed"):
        index_dataset(tmp_path / "a.tfrecord", out=tmp_path / "index")
    assert list((tmp_path / "index").iterdir()) == []


class Held:
    """Something that frames hold."""


def test_an_error_keeps_nothing_alive() -> None:
    gone: list[weakref.ref[Held]] = []

    def fail(_: int) -> None:
        held = Held()
        gone.append(weakref.ref(held))
        raise ValueError("bad")

    gc.disable()
    try:
        with pytest.raises(ValueError, match="bad"):
            run_cancellable(fail, [1], 1)
        assert gone[0]() is None
    finally:
        gc.enable()


def test_map_ahead_yields_in_order_and_calls_lazily_without_helpers() -> None:
    called: list[int] = []
    results = map_ahead(lambda n: called.append(n) or n * n, range(5), 2)
    assert next(results) == 0
    assert called == [0]
    assert list(results) == [1, 4, 9, 16]


def test_helpers_work_ahead_of_every_call_and_no_further() -> None:
    def job(_: int) -> list[int]:
        started: list[int] = []
        results = map_ahead(lambda n: started.append(n) or n, range(50), 3)
        first = next(results)
        assert len(started) <= 4
        return [first, *results]

    assert run_cancellable(job, range(2), 2, helpers=2) == [list(range(50))] * 2


def test_an_error_in_one_job_cancels_the_helpers_of_the_others() -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(_: int) -> None:
        begun.set()
        try:
            for _ in until_cancelled(itertools.count()):
                pass
        finally:
            ended.set()

    def job(number: int) -> None:
        if number:
            begun.wait(60)
            raise ValueError("the disk is full")
        list(map_ahead(endless, [0], 1))

    with pytest.raises(ValueError, match="the disk is full"):
        run_cancellable(job, range(2), 2, helpers=1)
    assert ended.is_set()


def test_an_error_of_a_helper_is_raised_where_its_result_is_asked_for() -> None:
    def job(_: int) -> None:
        results = map_ahead(lambda n: 1 // (n - 2), range(9), 2)
        assert [next(results), next(results)] == [-1, -1]
        with pytest.raises(ZeroDivisionError):
            next(results)

    run_cancellable(job, [0], 1, helpers=2)
