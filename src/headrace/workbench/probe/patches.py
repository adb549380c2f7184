"""Patches loaders to time them, as soon as the program imports them."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from .batch_sizes import find_batch_size, make_counter
from .timeline import FIRST, WAIT
from .watched_process import Process

Patch = Callable[[ModuleType, Process], None]
_COUNTS = ("epochs", "batches", "images", "first_batches", "first_images")


def watch_imports(process: Process) -> None:
    """Patch each module of `_PATCHES` when it is imported."""
    sys.meta_path.insert(0, _Finder(process))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules through the other finders, and patches them after they have run."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _PATCHES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            _run_after(spec.loader, lambda module: _PATCHES[name](module, self._process))
        return spec


def _run_after(loader: Any, patch: Callable[[ModuleType], None]) -> None:
    run = loader.exec_module

    def run_and_patch(module: ModuleType) -> None:
        run(module)
        patch(module)

    loader.exec_module = run_and_patch


def patch_torch(module: ModuleType, process: Process) -> None:
    """Time `iter(DataLoader)`, which starts workers, and every `next`, in which the loop waits.

    The first batch of workers in an epoch counts as starting: it shows how long that took, not how fast
    they are.
    """
    loader_type: Any = module.DataLoader
    iterator: Any = module._BaseDataLoaderIter
    make, prepare, advance = loader_type.__iter__, iterator.__init__, iterator.__next__

    def make_timed(self: Any) -> Any:
        depth = process.enter(FIRST)
        try:
            made = make(self)
            if hasattr(made, "_headrace_notes"):  # absent if a subclass makes its own iterators
                made._headrace_next = FIRST if self.num_workers else WAIT
                made._headrace_notes["epochs"] += 1
            return made
        finally:
            process.leave(depth, FIRST)

    def prepare_noted(self: Any, loader: Any, *rest: Any, **named: Any) -> None:
        self._headrace_loop, self._headrace_next = object(), FIRST
        self._headrace_notes = _note_torch(process, loader)
        self._headrace_count = make_counter(loader)
        prepare(self, loader, *rest, **named)

    def advance_timed(self: Any) -> Any:
        if not hasattr(self, "_headrace_notes"):
            return advance(self)
        kind, loop = self._headrace_next, None
        depth = process.enter(kind)
        try:
            batch = advance(self)
            loop = self._headrace_loop
            images = self._headrace_count(batch, self._num_yielded)
            _note_batch(self._headrace_notes, kind, images)
            return batch
        finally:
            self._headrace_next = FIRST if loop is None and self._num_workers else WAIT
            process.leave(depth, kind, loop)

    loader_type.__iter__ = make_timed
    iterator.__init__, iterator.__next__ = prepare_noted, advance_timed
    for kind in (iterator, module._MultiProcessingDataLoaderIter):
        _end_loop_first(kind, process)


def _end_loop_first(iterator: Any, process: Process) -> None:
    """End a loop that was left when its iterator is deleted, before the workers end."""
    end = getattr(iterator, "__del__", lambda self: None)

    def end_timed(self: Any) -> None:
        if hasattr(self, "_headrace_loop"):
            process.end_loop(self._headrace_loop)
        end(self)

    iterator.__del__ = end_timed


def _note_batch(notes: dict[str, Any], kind: str, images: int) -> None:
    notes["batches"] += 1
    notes["images"] += images
    if kind == FIRST:
        notes["first_batches"] += 1
        notes["first_images"] += images


def _note_torch(process: Process, loader: Any) -> dict[str, Any]:
    """Return the notes on a DataLoader: made once, shared by its iterators."""
    notes: dict[str, Any] | None = loader.__dict__.get("_headrace_notes")
    if notes is None:
        notes = {
            "kind": "torch DataLoader",
            "workers": int(loader.num_workers),
            "persistent": bool(loader.persistent_workers),
            "batch_size": find_batch_size(loader) or 1,
            **dict.fromkeys(_COUNTS, 0),
            "source": _find_source(loader.dataset),
            "dataset": type(loader.dataset).__name__,
        }
        loader.__dict__["_headrace_notes"] = notes
        process.add_loader(lambda: notes or {})
    return notes


def _find_source(dataset: Any) -> str | None:
    """Return the folder of a torchvision image folder, also inside wrappers such as Subset.

    The `root` of other datasets may hold other files too. Never raises.
    """
    folders = sys.modules.get("torchvision.datasets.folder")
    if folders is None:
        return None
    try:
        for _ in range(4):
            if isinstance(dataset, folders.DatasetFolder):
                return os.path.abspath(str(dataset.root))
            dataset = dataset.dataset
        return None
    except Exception:  # noqa: BLE001 - user code
        return None


def patch_headrace(module: ModuleType, process: Process) -> None:
    """Time every `next` of a Headrace loader."""
    loader: Any = module.Loader
    make = loader.__iter__

    def make_timed(self: Any) -> Iterator[Any]:
        notes = self.__dict__.get("_headrace_notes")
        if notes is None:
            notes = self.__dict__["_headrace_notes"] = dict.fromkeys(_COUNTS, 0)
            process.add_loader(_describe_headrace(self, notes))
        return _iterate_timed(make(self), process, notes, self._producer.counters)

    loader.__iter__ = make_timed


def _iterate_timed(
    batches: Any, process: Process, notes: dict[str, Any], counters: Any
) -> Iterator[Any]:
    loop, kind = object(), FIRST
    notes["epochs"] += 1
    try:
        while True:
            depth, given, before = process.enter(kind), None, counters.images
            try:
                batch = next(batches)
                given = loop
                _note_batch(notes, kind, counters.images - before)
            except StopIteration:
                return
            finally:
                process.leave(depth, kind, given)
            kind = WAIT
            yield batch
            del batch  # its memory is reused only when nobody holds it
    finally:
        process.end_loop(loop)
        batches.close()


def _describe_headrace(loader: Any, notes: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Return a function that describes a loader. It keeps the counters alive, not the loader."""
    counters = loader._producer.counters
    facts = {
        "kind": "headrace Loader",
        "workers": int(loader._producer.threads),
        "batch_size": loader.batch_size,
        "source": str(getattr(loader.dataset, "path", "")) or None,
        "dataset": type(loader.dataset).__name__,
    }

    def tell() -> dict[str, Any]:
        return {
            **facts,
            **notes,
            "read_seconds": counters.read_wait_seconds,
            "render_seconds": counters.render_seconds,
        }

    return tell


def _mark_workers(function: str) -> Patch:
    """Return a patch that marks processes which run the named function as workers."""

    def patch(module: ModuleType, process: Process) -> None:
        work = getattr(module, function)

        @functools.wraps(work)  # spawned processes find it by its name
        def work_marked(*args: Any, **named: Any) -> Any:
            process.mark_worker()
            return work(*args, **named)

        setattr(module, function, work_marked)

    return patch


_PATCHES: dict[str, Patch] = {
    "torch.utils.data.dataloader": patch_torch,
    "torch.utils.data._utils.worker": _mark_workers("_worker_loop"),
    "headrace.serve.loader": patch_headrace,
    "headrace.work.worker_processes": _mark_workers("_work"),
    "headrace.flow.in_process": _mark_workers("_produce"),
}
