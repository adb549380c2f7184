"""The kind of work that a stack shows."""

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
from headrace.recipe import torchvision_policies
from headrace.recipe.torchvision import _READERS
from headrace.work.bounded_queue import run_ahead
from headrace.workbench.probe.classify_stack import (
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
    """Classify a stack in which a user's `line` calls `function` of a library."""
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
    """Classify a stack of nested transforms with these names, outermost first."""
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
        ("torchvision/transforms/transforms.py", ["Compose", "ElasticTransform"], PYTHON),
        ("torchvision/transforms/autoaugment.py", ["AugMix", "Resize"], PYTHON),
        ("torchvision/transforms/autoaugment.py", ["RandAugment"], TRANSFORM),
        ("albumentations/transforms.py", ["Resize"], PYTHON),
    ],
)
def test_transforms_of_the_core_are_known_by_their_class(
    tmp_path: Path, file: str, names: list[str], kind: str
) -> None:
    assert classify_transform(tmp_path, file, *names)[0] == kind


def test_opening_an_image_with_torchvision_is_decoding(tmp_path: Path) -> None:
    file = "torchvision/datasets/folder.py"
    assert classify_call(tmp_path, "found = pil_loader(1)", file, "pil_loader")[0] == DECODE


def test_all_torchvision_transforms_of_the_core_are_known() -> None:
    policies = {name for readers in torchvision_policies._READERS.values() for name in readers}
    known = {name for _, name in _READERS} | policies
    assert known - {"ToPureTensor", "Identity"} == set(_CORE_DOES), "these two do nothing"


Read = Callable[[int], bytes]


def take_ahead(read: Read) -> Iterator[bytes | None]:
    with run_ahead((read(number) for number in [1]), "ahead", 1) as ready:
        yield ready.get()


def poll_with_zmq(read: Any) -> Iterator[object]:
    poller = pytest.importorskip("zmq").Poller()
    poller.register(*read.args)
    return map(poller.poll, [None])


def look_at(thread: threading.Thread) -> tuple[str, str]:
    """Return its kind and function."""
    assert thread.ident is not None
    frame = sys._current_frames()[thread.ident]
    name = f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"
    return classify(frame)[0], name


@pytest.mark.parametrize(
    ("wait", "place"),
    [
        (take_ahead, "bounded_queue.py:_take"),
        (lambda read: Flow.of([1]).map(read, 1, "threads"), "worker_threads.py:take"),
        (lambda read: Flow.of([1]).map(read, 1), "worker_processes.py:_receive"),
        (lambda read: Flow.of([1]).map(read).prefetch(1), "bounded_queue.py:_take"),
        (lambda read: Flow.of([1]).map(read).in_process(), "in_process.py:_wait"),
        (poll_with_zmq, "poll.py:poll"),
    ],
)
def test_waiting_for_threads_and_processes_of_headrace_is_idle(
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
    """Classify a stack of these files, each of which calls the next."""
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
        ([f"{OWN}/work/channel.py"], IDLE),
        ([f"{OWN}/render/render_batch.py"], DECODE),
        ([f"{OWN}/read/run_layout.py"], READ),
        ([f"{OWN}/serve/batch.py", "lib/site-packages/numpy/shape_base.py"], COLLATE),
        ([f"{OWN}/workbench/probe/watched_process.py"], COLLATE),
    ],
)
def test_frames_of_headrace_are_never_user_python(
    tmp_path: Path, files: list[str], kind: str
) -> None:
    assert classify_beneath(tmp_path, "train.py", LOOP, *files) == (kind, "")


def test_user_code_called_by_headrace_is_named(tmp_path: Path) -> None:
    beneath = (f"{OWN}/work/call_task.py", "own_transforms.py", "lib/site-packages/numpy/core.py")
    assert classify_beneath(tmp_path, LOOP, *beneath) == (PYTHON, "own_transforms.py:step_2")


def test_a_transform_library_called_by_headrace_is_not_headrace(tmp_path: Path) -> None:
    beneath = (f"{OWN}/work/call_task.py", "lib/site-packages/albumentations/blur.py")
    assert classify_beneath(tmp_path, LOOP, *beneath) == (PYTHON, "albumentations/blur.py:step_2")


def test_torch_called_by_the_probe_is_not_headrace(tmp_path: Path) -> None:
    file = "lib/site-packages/torch/utils/data/dataset.py"
    found = classify_beneath(tmp_path, "train.py", LOOP, file)
    assert found == (PYTHON, "data/dataset.py:step_2")


def test_a_checkout_of_headrace_is_headrace_too() -> None:
    file = str(Path(headrace.__file__).parent / "serve/collate.py")
    code = compile("found = see()", file, "exec")
    names: dict[str, Any] = {"see": lambda: classify(sys._getframe(1))}
    exec(code, names)  # noqa: S102 - it has to be of that file
    assert names["found"][0] == COLLATE
