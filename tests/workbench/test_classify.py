"""What a stack says that a thread is doing."""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace import Flow
from headrace.serve.handoff import run_ahead
from headrace.serve.torchvision import _READERS
from headrace.workbench.probe.classify import (
    _CORE_DOES,
    COLLATE,
    DECODE,
    IDLE,
    PYTHON,
    READ,
    TRANSFORM,
    classify,
)


def classify_call(folder: Path, line: str, file: str, function: str) -> tuple[str, str]:
    """What is seen while a user's `line` calls `function` of a library."""
    library, own = folder / "site-packages" / file, folder / "train.py"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_text(f"def {function}(*_):\n    return see()\n")
    own.write_text(line)
    names: dict[str, Any] = {"see": lambda: classify(sys._getframe(1))}
    names = runpy.run_path(str(library), names)
    found: tuple[str, str] = runpy.run_path(str(own), {**names, "open": str})["found"]
    return found


@pytest.mark.parametrize("file", ["PIL/Image.py", "cv2/resizing.py"])
def test_a_line_that_also_opens_a_file_is_not_all_reading(tmp_path: Path, file: str) -> None:
    line = "found = resize(open('a.jpg'))"
    assert classify_call(tmp_path, line, file, "resize") == (PYTHON, "train.py:<module>")


def test_a_library_that_reads_for_a_line_that_reads_is_reading(tmp_path: Path) -> None:
    line = "found = read_file('a')"
    found = classify_call(tmp_path, line, "numpy/npyio.py", "read_file")
    assert found == (READ, "train.py:<module>")


@pytest.mark.parametrize(
    ("file", "kind"),
    [("PIL/ImageFile.py", DECODE), ("PIL/PngImagePlugin.py", DECODE), ("PIL/Image.py", PYTHON)],
)
def test_pillow_is_known_by_its_own_files(tmp_path: Path, file: str, kind: str) -> None:
    assert classify_call(tmp_path, "found = load('decoded')", file, "load")[0] == kind


def classify_transform(folder: Path, file: str, *names: str) -> tuple[str, str]:
    """What is seen in transforms of these names, each within the one before, of which the first is called by nobody."""
    library = folder / "site-packages" / file
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_text(
        "class Base:\n    def __init__(self, inner): self.inner = inner\n"
        "    def forward(self): return self.inner()\n"
        + "".join(f"class {name}(Base): pass\n" for name in names)
    )
    known = runpy.run_path(str(library))
    found: Any = lambda: classify(sys._getframe(1))
    for name in reversed(names):
        found = known[name](found).forward
    kind: tuple[str, str] = found()
    return kind


@pytest.mark.parametrize(
    ("file", "names", "kind"),
    [
        ("torchvision/transforms/transforms.py", ["Compose", "RandomResizedCrop"], TRANSFORM),
        ("torchvision/transforms/v2/_geometry.py", ["Resize"], TRANSFORM),
        ("torchvision/transforms/transforms.py", ["Compose", "RandomRotation"], PYTHON),
        ("torchvision/transforms/autoaugment.py", ["RandAugment", "Resize"], PYTHON),
        ("albumentations/transforms.py", ["Resize"], PYTHON),
    ],
)
def test_what_the_core_does_is_known_by_its_name(
    tmp_path: Path, file: str, names: list[str], kind: str
) -> None:
    assert classify_transform(tmp_path, file, *names)[0] == kind


def test_whatever_torchvision_does_to_open_an_image_is_decoding(tmp_path: Path) -> None:
    file = "torchvision/datasets/folder.py"
    assert classify_call(tmp_path, "found = pil_loader(1)", file, "pil_loader")[0] == DECODE


def test_all_of_torchvision_that_the_core_takes_over_is_known() -> None:
    known = {name for _, name in _READERS}
    assert known - {"ToPureTensor", "Identity"} == set(_CORE_DOES), "these two do nothing"


Read = Callable[[int], bytes]


def take_ahead(read: Read) -> Iterator[bytes | None]:
    with run_ahead(map(read, [1]), "ahead", 1) as ready:
        yield ready.get()


def poll_with_zmq(read: Any) -> Iterator[object]:
    poller = pytest.importorskip("zmq").Poller()
    poller.register(*read.args)
    return map(poller.poll, [None])


def look_at(thread: threading.Thread) -> tuple[str, str]:
    """What it is doing, and in which function."""
    assert thread.ident is not None
    frame = sys._current_frames()[thread.ident]
    name = f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"
    return classify(frame)[0], name


@pytest.mark.parametrize(
    ("wait", "place"),
    [
        (take_ahead, "handoff.py:get"),
        (lambda read: Flow.of([1]).map(read, 1, "threads"), "threads.py:take"),
        (lambda read: Flow.of([1]).map(read, 1), "workers.py:_receive"),
        (lambda read: Flow.of([1]).map(read).prefetch(1), "prefetch.py:_receive"),
        (lambda read: Flow.of([1]).map(read).in_process(), "process.py:_wait"),
        (poll_with_zmq, "poll.py:poll"),
    ],
)
def test_who_waits_for_threads_and_processes_of_ours_does_nothing(
    wait: Callable[[Read], Iterable[object]], place: str
) -> None:
    gate, key = os.pipe()
    items = wait(partial(os.read, gate))
    thread = threading.Thread(target=lambda: list(items))
    thread.start()
    try:
        deadline = time.monotonic() + 10
        while (seen := look_at(thread)) != (IDLE, place):
            assert time.monotonic() < deadline, seen
    finally:
        os.write(key, b"x")
        thread.join()
        os.close(gate)
        os.close(key)


def classify_beneath(folder: Path, *files: str) -> tuple[str, str]:
    """What is seen in the last of these files, each of which calls the next."""
    found: Any = lambda: classify(sys._getframe(1))
    for number, file in reversed(list(enumerate(files))):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def step_{number}():\n    return inner()\n")
        found = runpy.run_path(str(path), {"inner": found})[f"step_{number}"]
    seen: tuple[str, str] = found()
    return seen


OWN = "lib/site-packages/headrace"
LOOP = f"{OWN}/workbench/probe/patches.py"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ([f"{OWN}/serve/collate.py"], COLLATE),
        ([f"{OWN}/run/port.py"], IDLE),
        ([f"{OWN}/render/batch.py"], DECODE),
        ([f"{OWN}/read/runs.py"], READ),
        ([f"{OWN}/serve/batch.py", "lib/site-packages/numpy/shape_base.py"], COLLATE),
        ([f"{OWN}/workbench/probe/process.py"], COLLATE),
    ],
)
def test_frames_of_ours_are_never_the_users_python(
    tmp_path: Path, files: list[str], kind: str
) -> None:
    assert classify_beneath(tmp_path, "train.py", LOOP, *files) == (kind, "")


def test_the_users_code_beneath_frames_of_ours_is_named(tmp_path: Path) -> None:
    beneath = (f"{OWN}/run/task.py", "own_transforms.py", "lib/site-packages/numpy/core.py")
    assert classify_beneath(tmp_path, LOOP, *beneath) == (PYTHON, "own_transforms.py:step_2")


def test_a_library_of_transforms_beneath_frames_of_ours_is_not_ours(tmp_path: Path) -> None:
    beneath = (f"{OWN}/run/task.py", "lib/site-packages/albumentations/blur.py")
    assert classify_beneath(tmp_path, LOOP, *beneath) == (PYTHON, "albumentations/blur.py:step_2")


def test_torch_beneath_the_probe_is_not_ours(tmp_path: Path) -> None:
    file = "lib/site-packages/torch/utils/data/dataset.py"
    found = classify_beneath(tmp_path, "train.py", LOOP, file)
    assert found == (PYTHON, "data/dataset.py:step_2")


def test_a_checkout_of_ours_is_ours_too() -> None:
    file = str(Path(headrace.__file__).parent / "serve/collate.py")
    code = compile("found = see()", file, "exec")
    names: dict[str, Any] = {"see": lambda: classify(sys._getframe(1))}
    exec(code, names)  # noqa: S102 - it has to be of that file
    assert names["found"][0] == COLLATE
