"""A loader in its surroundings: threads, forks, interrupts, memory, bad samples."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace import Loader
from headrace.errors import CorruptError, DecodeError
from headrace.render import Rendering
from headrace.serve import iteration
from headrace.serve.batch_memory import BatchMemory
from headrace.transforms import RandomResizedCrop
from trees import make_folder

CROP = [RandomResizedCrop(24)]


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("headrace")]


def epoch_bytes(loader: Loader) -> list[bytes]:
    loader.set_epoch(0)
    return [images.tobytes() for images, _ in loader]


def test_a_break_ends_the_threads_and_the_next_loop_starts_again(packed: Path) -> None:
    loader = Loader(packed, 4, shuffle=True, transform=CROP)
    whole = epoch_bytes(loader)
    loader.set_epoch(0)
    for number, (images, _) in enumerate(loader):
        assert images.tobytes() == whole[number]
        if number == 2:
            break
    gc.collect()
    assert own_threads() == []
    assert epoch_bytes(loader) == whole


def test_two_iterators_at_once_do_not_disturb_each_other(packed: Path) -> None:
    loader = Loader(packed, 4, shuffle=True, transform=CROP)
    whole = epoch_bytes(loader)
    loader.set_epoch(0)
    pairs = [(a.tobytes(), b.tobytes()) for (a, _), (b, _) in zip(loader, loader, strict=True)]
    assert pairs == list(zip(whole, whole, strict=True))


def test_a_batch_that_is_kept_is_never_overwritten(packed: Path) -> None:
    loader = Loader(packed, 4, shuffle=True, transform=CROP)
    expected = epoch_bytes(loader)
    for _ in range(2):
        loader.set_epoch(0)
        kept = [images[:, ::2] for images, _ in loader]
        assert [batch.tobytes() for batch in kept] == [
            np.frombuffer(data, np.uint8).reshape(-1, 24, 24, 3)[:, ::2].tobytes()
            for data in expected
        ]


def test_memory_of_a_batch_that_is_not_kept_is_used_again(packed: Path) -> None:
    loader = Loader(packed, 4, shuffle=True, transform=CROP)
    places = {images.ctypes.data for _ in range(3) for images, _ in loader}
    assert len(places) < 3 * len(loader)


def test_closing_ends_the_threads_of_all_iterators(packed: Path) -> None:
    with Loader(packed, 4, transform=CROP) as loader:
        first, second = iter(loader), iter(loader)
        next(first), next(second)
        assert own_threads() != []
    assert own_threads() == []
    with pytest.raises(RuntimeError, match="closed"):
        list(first)
    assert loader.state_dict()["epoch"] == 0
    loader.close()


def load_all(loader: Loader) -> list[bytes]:
    return epoch_bytes(loader)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_it_works_in_another_process(packed: Path, method: str) -> None:
    loader = Loader(packed, 4, shuffle=True, transform=CROP)
    expected = epoch_bytes(loader)
    iterator = iter(loader)
    next(iterator)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply_async(load_all, (loader,)).get(60) == expected
    next(iterator)


def test_an_iterator_of_the_parent_says_so_in_a_fork(packed: Path) -> None:
    iterator = iter(Loader(packed, 4, transform=CROP))
    next(iterator)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            next(iterator)
        except RuntimeError as error:
            os._exit(0 if "belongs to the parent" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    next(iterator)


def test_a_pickled_loader_goes_on_where_it_stood(packed: Path) -> None:
    loader = Loader(packed, 4, shuffle=True, transform=CROP)
    whole = epoch_bytes(loader)
    loader.load_state_dict({**loader.state_dict(), "epoch": 0, "step": 3})
    again = pickle.loads(pickle.dumps(loader))
    assert again.state_dict() == loader.state_dict()
    assert [images.tobytes() for images, _ in again] == whole[3:]


def test_a_pickled_loader_knows_what_was_received(packed: Path) -> None:
    loader = Loader(packed, 4, shuffle=True, transform=CROP)
    iterator = iter(loader)
    next(iterator), next(iterator)
    again = pickle.loads(pickle.dumps(loader))
    assert again.state_dict() == loader.state_dict() and again.state_dict()["step"] == 2


def test_a_loader_that_nobody_uses_is_freed_at_once(packed: Path) -> None:
    loader = Loader(packed, 8, transform=CROP)
    list(loader)
    gone = weakref.ref(loader)
    gc.disable()
    try:
        del loader
        assert gone() is None
    finally:
        gc.enable()


SCRIPT = """
import sys, headrace
from headrace.transforms import RandomResizedCrop
loader = headrace.Loader(sys.argv[1], 2, shuffle=True, transform=[RandomResizedCrop(64)])
iterator = iter(loader)
next(iterator)
print("ready", flush=True)
if sys.argv[2] == "wait":
    while True:
        for batch in loader:
            pass
"""


def test_an_interrupt_ends_it_cleanly(packed: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(packed), "wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        assert b"KeyboardInterrupt" in process.stderr.read()
    assert process.returncode in (-signal.SIGINT, 130, 1)


def test_an_interrupt_that_comes_while_breaking_off_is_not_lost(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = iteration._wait_for

    def interrupt(*args: object) -> None:
        signal.raise_signal(signal.SIGINT)
        wait(*args)

    monkeypatch.setattr(iteration, "_wait_for", interrupt)
    with pytest.raises(KeyboardInterrupt):
        for _ in Loader(packed, 4, transform=CROP):
            break
        threading.Event().wait(20)
    assert own_threads() == []


@pytest.mark.parametrize("workers", [False, True])
def test_an_interrupt_that_comes_while_it_starts_leaves_nothing(
    packed: Path, monkeypatch: pytest.MonkeyPatch, workers: bool
) -> None:
    kind = multiprocessing.process.BaseProcess if workers else threading.Thread
    start = kind.start

    def start_and_interrupt(self: Any) -> None:
        start(self)
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)

    steps = [*CROP, np.asarray] if workers else CROP
    loader = Loader(packed, 4, transform=steps, num_workers=2)
    with monkeypatch.context() as patched:
        patched.setattr(kind, "start", start_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(iter(loader))
    assert own_threads() == [] and multiprocessing.active_children() == []
    assert len(list(loader)) == len(loader)


def test_leaving_the_interpreter_with_an_iterator_alive_is_quiet(packed: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(packed), "leave"]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, b"")


IN_A_DAEMON = """
import atexit, sys, threading
begun, ended = threading.Event(), threading.Event()
@atexit.register  # the first: it is called after all others
def go_on():
    ended.set()
    thread.join()
import headrace
from headrace.transforms import RandomResizedCrop
def load():
    for batch in headrace.Loader(sys.argv[1], 2, transform=[RandomResizedCrop(64)]):
        begun.set()
        ended.wait()
    print("the epoch is over")
thread = threading.Thread(target=load, daemon=True)
thread.start()
begun.wait()
"""


def test_leaving_the_interpreter_while_a_daemon_thread_iterates_is_quiet(packed: Path) -> None:
    command = [sys.executable, "-c", IN_A_DAEMON, str(packed)]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


WITHOUT_THREADS = """
import multiprocessing, sys, threading, numpy, headrace
loader = headrace.Loader(sys.argv[1], 2, transform=numpy.asarray, num_workers=2)
def fail(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = fail
try:
    list(loader)
except headrace.WorkerError as error:
    print(error, multiprocessing.active_children())
"""


def test_a_thread_that_cannot_start_is_an_error_and_leaves_nothing(packed: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_THREADS, str(packed)]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert result.stdout == b"cannot start headrace-render: can't start new thread []\n"
    assert (result.returncode, result.stderr) == (0, b"")


def test_resident_memory_does_not_grow_over_epochs(packed: Path) -> None:
    loader = Loader(packed, 16, shuffle=True, transform=CROP)

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    sizes = []
    for _ in range(20):
        for _ in loader:
            pass
        sizes.append(resident())
    assert np.mean(sizes[15:]) - np.mean(sizes[5:10]) < 4 << 20, sizes


@pytest.fixture
def damaged(packed: Path, tmp_path: Path) -> tuple[Path, list[str]]:
    """A copy of the dataset with two pictures overwritten, and their keys."""
    shutil.copytree(packed, tmp_path / "damaged")
    index = headrace.open_dataset(packed).index
    keys = []
    for row in (5, 17):
        values = index.slice(row, 1).to_pylist()[0]
        field = "jpg" if values["jpg.offset"] is not None else "png"
        with open(tmp_path / "damaged" / values["file"], "r+b") as file:
            file.seek(values[f"{field}.offset"])
            file.write(bytes(values[f"{field}.size"]))
        keys.append(values["key"])
    return tmp_path / "damaged", keys


def test_a_bad_sample_is_an_error_that_names_it(damaged: tuple[Path, list[str]]) -> None:
    path, keys = damaged
    with pytest.raises(
        DecodeError, match=rf"'{keys[0]}' in .*shard-.*\.tar at byte \d+: .*on_error"
    ):
        list(Loader(path, 8, transform=CROP))
    assert own_threads() == []


def test_an_error_comes_after_the_batches_before_it(damaged: tuple[Path, list[str]]) -> None:
    path, keys = damaged
    batches = iter(Loader(path, 4, transform=CROP, prefetch=8))
    assert next(batches).rows.tolist() == [0, 1, 2, 3]
    with pytest.raises(DecodeError, match=keys[0]):
        next(batches)


def test_an_error_before_rendering_comes_after_the_batches_before_it(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = Loader(packed, 4, transform=CROP)
    taken = []

    def take(memory: BatchMemory, *args: Any) -> Any:
        taken.append(args)
        if len(taken) == 4:
            raise MemoryError("no memory for a fourth")
        return original(memory, *args)

    original = BatchMemory.take
    monkeypatch.setattr(BatchMemory, "take", take)
    received = []
    with pytest.raises(MemoryError, match="a fourth"):
        for batch in loader:
            received.append(batch.step)
    assert received == [0, 1, 2]
    assert loader.state_dict()["step"] == 3


def test_nothing_is_rendered_any_more_when_a_lost_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = Loader(make_folder(tmp_path / "photos"), 8, transform=CROP)
    lost = sorted((tmp_path / "photos").rglob("*.*"))[3]
    lost.unlink()
    finished = []

    def finish(rendering: Rendering) -> Any:
        finished.append(original(rendering))
        return finished[-1]

    original = Rendering.finish_all
    monkeypatch.setattr(Rendering, "finish_all", finish)
    with pytest.raises(DecodeError, match=lost.name):
        next(iter(loader))
    assert len(finished) == 1


def test_what_is_rendered_while_nobody_waits_for_it_is_counted(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = []

    def finish(rendering: Rendering) -> Any:
        finished = original(rendering)
        seconds.append(rendering.seconds)
        return finished

    original = Rendering.finish_all
    monkeypatch.setattr(Rendering, "finish_all", finish)
    loader = Loader(packed, 4, transform=CROP)
    list(loader)
    assert min(seconds) > 0
    assert loader.stats().render_seconds == pytest.approx(sum(seconds))


def test_bad_samples_are_skipped_on_request(damaged: tuple[Path, list[str]]) -> None:
    path, keys = damaged
    loader = Loader(path, 8, transform=CROP, on_error="skip")
    batches = list(loader)
    rows = np.concatenate([batch.rows for batch in batches])
    assert sorted(set(range(61)) - set(rows)) == [5, 17]
    assert [len(images) for images, _ in batches][:3] == [7, 8, 7]
    stats = loader.stats()
    assert (stats.error_count, [key for key, _ in stats.errors]) == (2, keys)


def test_bad_samples_are_counted_when_their_batch_is_received(
    damaged: tuple[Path, list[str]],
) -> None:
    path, keys = damaged
    loader = Loader(path, 8, transform=CROP, on_error="skip", prefetch=8)
    batches = iter(loader)
    first = next(batches)
    while loader.stats().queue_depth < 7:
        os.sched_yield()
    assert [key for key, _ in first.errors] == keys[:1]
    assert (loader.stats().error_count, loader.stats().errors) == (1, first.errors)
    assert next(batches).errors == ()


def test_of_many_bad_samples_all_are_counted_and_some_listed(
    damaged: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.serve.stats._ERRORS_LISTED", 1)
    path, keys = damaged
    loader = Loader(path, 8, transform=CROP, on_error="skip")
    list(loader)
    stats = loader.stats()
    assert (stats.error_count, [key for key, _ in stats.errors]) == (2, keys[:1])


def test_bad_samples_are_replaced_on_request(damaged: tuple[Path, list[str]]) -> None:
    path, _ = damaged
    loader = Loader(path, 8, transform=CROP, on_error="substitute")
    first = next(iter(loader))
    assert first.rows.tolist() == [0, 1, 2, 3, 4, 6, 6, 7]
    assert np.array_equal(first[0][5], first[0][6]) and first[1][5] == first[1][6]
    assert epoch_bytes(loader) == epoch_bytes(loader)


def test_a_missing_shard_is_an_error_and_not_a_hang(packed: Path, tmp_path: Path) -> None:
    shutil.copytree(packed, tmp_path / "gone")
    os.unlink(tmp_path / "gone" / "shard-000001.tar")
    with pytest.raises(CorruptError, match="shard-000001.tar: the file is missing"):
        list(Loader(tmp_path / "gone", 8, transform=CROP))


def test_stats_count_what_was_loaded(packed: Path) -> None:
    loader = Loader(packed, 8, shuffle=True, transform=CROP)
    list(loader)
    once = loader.stats().bytes_read
    list(loader)
    stats = loader.stats()
    assert (stats.images, stats.batches, stats.error_count) == (122, 16, 0)
    index = headrace.open_dataset(packed).index
    images = sum(v for f in ("jpg", "png") for v in index[f"{f}.size"].to_pylist() if v)
    assert images <= once <= sum(f.stat().st_size for f in packed.glob("*.tar"))
    assert stats.bytes_read == 2 * once
    assert 0 < stats.wait_seconds <= stats.seconds
    assert stats.render_seconds > 0 and stats.images_per_second > 0 and stats.read_seconds > 0
    assert stats.queue_depth == 0


def test_entries_that_only_fill_up_a_batch_are_not_counted(packed: Path) -> None:
    loader = Loader(packed, 4, transform=CROP, rank=0, world_size=5)
    batches = list(loader)
    assert sum(len(batch.rows) for batch in batches) == 13
    assert loader.stats().images == sum(int(batch.valid.sum()) for batch in batches) == 12


def test_a_batch_without_a_good_sample_is_marked_and_not_an_error(
    damaged: tuple[Path, list[str]],
) -> None:
    path, _ = damaged
    for policy in ("skip", "substitute"):
        batches = list(Loader(path, 1, transform=CROP, on_error=policy))
        assert len(batches) == 61
        assert [i for i, batch in enumerate(batches) if not batch.valid.all()] == [5, 17]


def test_an_iterator_that_is_collected_in_a_reading_thread_ends_too(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.read.run_layout import Layout

    original = Layout.read_rows
    dropped, collected = threading.Event(), threading.Event()

    def read_and_collect(self: Layout, rows: np.ndarray, memory: np.ndarray) -> object:
        if dropped.is_set() and not collected.is_set():
            collected.set()
            gc.collect()
        return original(self, rows, memory)

    monkeypatch.setattr(Layout, "read_rows", read_and_collect)
    monkeypatch.setattr("headrace.serve.derived_options.WINDOW_BYTES", 1000)
    loader = Loader(packed, 2, shuffle=True, window=None, transform=CROP)
    holder: list[object] = [iter(loader)]
    holder.append(holder)  # a cycle: only the collector can free it
    next(holder[0])  # type: ignore[call-overload]
    gc.disable()
    try:
        del holder
        dropped.set()
        assert len(list(loader)) == len(loader)
    finally:
        gc.enable()
    assert collected.is_set()
    for thread in threading.enumerate():
        if thread.name.startswith("headrace"):
            thread.join(30)
    assert own_threads() == []
