"""The same work through torchvision's `ImageFolder` and torch's `DataLoader`, as jobs beside our own.

It runs in a process of its own, `torchvision_side.py`, which is told when to run a window: so the two never
run at the same time, and what it needs to import does not touch this process.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from headrace.errors import WorkerError
from headrace.read.parts import find_pictures
from headrace.workbench.options import Options
from headrace.workbench.subject import Subject
from headrace.workbench.windows import Job, Window

NAME = "torchvision"


def torchvision_jobs(subject: Subject, options: Options, stack: ExitStack) -> list[Job] | str:
    """Jobs at each number of workers, or why there are none. `stack` ends the process and its files."""
    for module in ("torch", "torchvision"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    if options.transform is not None:
        return "only the default transforms, RandomResizedCrop and flip, are the same work on both sides"
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
    lay_out_folder(subject, folder)
    side = TorchvisionSide(folder, options.batch_size, options.size, options.cold)
    stack.enter_context(side)
    note = f"ImageFolder and DataLoader on the same {len(subject.rows)} images, workers instead of threads"
    return [
        Job(NAME, number, partial(side.run, number), subject.mean_bytes, note)
        for number in options.thread_counts()
    ]


def lay_out_folder(subject: Subject, folder: Path) -> None:
    """The chosen samples as an image folder: links where they are files of their own, else copies."""
    pictures = find_pictures(subject.dataset, subject.dataset.fields)
    for place, row in enumerate(subject.rows.tolist()):
        label = int(subject.table.columns.label[row])
        home = folder / f"{label:06d}"
        home.mkdir(exist_ok=True)
        if subject.loose:
            source = subject.layout.path_of(row).resolve()
            (home / f"{place:08d}{source.suffix}").symlink_to(source)
        else:
            sample = subject.dataset[place]
            field = next(name for name in pictures if name in sample)
            (home / f"{place:08d}.{field}").write_bytes(sample[field])


class TorchvisionSide:
    """The other process. A window is a line of JSON each way."""

    def __init__(self, folder: Path, batch_size: int, size: int, cold: bool) -> None:
        arguments = [str(folder), str(batch_size), str(size), str(int(cold))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headrace.workbench.torchvision_side", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> TorchvisionSide:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def run(self, workers: int, seconds: float) -> Window:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([workers, seconds]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise WorkerError("the torchvision side of the bench ended; see its message above")
        return Window(*json.loads(answer))
