"""Long jobs in threads: Ctrl-C and errors end them within a sample, and leave nothing."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from formats.making import make_example, photos, write_tfrecord
from headrace import PackError, index_dataset, pack_dataset, verify_dataset
from headrace.pack import inplace, loose, verify
from headrace.pack.manifest import FileRecord
from headrace.pack.parts import run_parts, while_wanted
from headrace.pack.verify import check_file
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

        def call(*args: Any) -> Any:
            calls.append(args)
            if len(calls) == 3:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                assert leaving.wait(20)
            return original(*args)

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


@pytest.mark.parametrize(
    ("make", "module", "name"),
    [
        (make_tfrecord, inplace, "describe_sample"),
        (make_tars, inplace, "_add_group"),
        (make_folder, loose, "describe_image"),
    ],
)
def test_ctrl_c_ends_indexing_at_the_next_sample(
    tmp_path: Path,
    interrupt: Callable[[ModuleType, str], list[object]],
    make: Callable[[Path], Path],
    module: ModuleType,
    name: str,
) -> None:
    source = make(tmp_path / "source")
    calls = interrupt(module, name)
    with pytest.raises(KeyboardInterrupt):
        index_dataset(source, out=tmp_path / "new/index")
    assert len(calls) == 3
    assert not (tmp_path / "new").exists()


def test_ctrl_c_ends_verifying_at_the_next_sample(
    tmp_path: Path, interrupt: Callable[[ModuleType, str], list[object]]
) -> None:
    pack_dataset(make_folder(tmp_path / "in"), tmp_path / "packed")
    calls = interrupt(verify, "read_stored")
    with pytest.raises(KeyboardInterrupt):
        verify_dataset(tmp_path / "packed")
    assert len(calls) == 3


def count_for_ever(folder: Path) -> None:
    for _ in while_wanted(itertools.count()):
        pass


def hash_a_terabyte(folder: Path) -> None:
    with open(folder / "large", "wb") as file:
        file.truncate(1 << 40)
    list(check_file(folder, FileRecord("large", 1 << 40, "")))


@pytest.mark.parametrize("long", [count_for_ever, hash_a_terabyte])
def test_a_part_that_fails_ends_the_others(tmp_path: Path, long: Callable[[Path], None]) -> None:
    begun = threading.Event()

    def do_part(number: int) -> None:
        if number:
            begun.set()
            long(tmp_path)
        assert begun.wait(20)
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        run_parts(do_part, range(2), workers=2)


def test_an_error_leaves_a_folder_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    bad = make_example({"image/encoded": photos(1)[0][:99]})
    write_tfrecord(tmp_path / "a.tfrecord", [bad])
    with pytest.raises(PackError, match="cannot be indexed"):
        index_dataset(tmp_path / "a.tfrecord", out=tmp_path / "index")
    assert list((tmp_path / "index").iterdir()) == []
