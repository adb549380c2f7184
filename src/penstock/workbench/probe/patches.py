"""Puts clocks into the loaders that a program uses, as soon as it imports them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from .process import Process
from .timeline import FIRST, WAIT

Patch = Callable[[ModuleType, Process], None]


def watch_imports(process: Process) -> None:
    """Patches each module of `_PATCHES` when it is imported."""
    sys.meta_path.insert(0, _Finder(process))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules in question as the others would, and patches them once they have run."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _PATCHES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(
            filter(None, specs), None
        )  # whoever finds it: editable installs have finders too
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
    """Times `iter(DataLoader)`, which starts workers, and every `next`, in which the loop waits.

    The first batch of an epoch counts with the start of the workers: it says how long that took, not
    how fast they are.
    """
    loader_type: Any = module.DataLoader
    iterator: Any = module._BaseDataLoaderIter
    make, prepare, advance = loader_type.__iter__, iterator.__init__, iterator.__next__

    def make_timed(self: Any) -> Any:
        depth = process.enter(FIRST)
        try:
            return make(self)
        finally:
            process.leave(depth, FIRST, going_on=False)

    def prepare_noted(self: Any, loader: Any, *rest: Any, **named: Any) -> None:
        self._penstock_notes, self._penstock_next = _note_torch(process, loader), FIRST
        prepare(self, loader, *rest, **named)

    def advance_timed(self: Any) -> Any:
        kind, going_on = self._penstock_next, False
        depth = process.enter(kind)
        try:
            batch = advance(self)
            going_on = True
            self._penstock_notes["batches"] += 1
            return batch
        finally:
            self._penstock_next = WAIT if going_on else FIRST
            process.leave(depth, kind, going_on)

    loader_type.__iter__ = make_timed
    iterator.__init__, iterator.__next__ = prepare_noted, advance_timed


def _note_torch(process: Process, loader: Any) -> dict[str, Any]:
    """What the record says of a DataLoader: made once, added to by its iterators."""
    notes: dict[str, Any] | None = loader.__dict__.get("_penstock_notes")
    if notes is None:
        notes = {
            "kind": "torch DataLoader",
            "workers": loader.num_workers,
            "batch_size": loader.batch_size or getattr(loader.batch_sampler, "batch_size", 1),
            "batches": 0,
            "source": _find_source(loader.dataset),
            "dataset": type(loader.dataset).__name__,
        }
        loader.__dict__["_penstock_notes"] = notes
        process.loaders.append(lambda: notes or {})
    return notes


def _find_source(dataset: Any) -> str | None:
    """The folder of a data set, through wrappers such as Subset."""
    for _ in range(4):
        root = getattr(dataset, "root", None)
        if isinstance(root, (str, os.PathLike)):
            return os.path.abspath(os.fspath(root))
        dataset = getattr(dataset, "dataset", None)
    return None


def patch_penstock(module: ModuleType, process: Process) -> None:
    """Times every `next` on a Penstock loader."""
    loader: Any = module.Loader
    make = loader.__iter__

    def iterate_timed(self: Any) -> Iterator[Any]:
        if "_penstock_notes" not in self.__dict__:
            self.__dict__["_penstock_notes"] = True
            process.loaders.append(_describe_penstock(self))
        batches, kind = make(self), FIRST
        try:
            while True:
                depth, going_on = process.enter(kind), False
                try:
                    batch = next(batches)
                    going_on = True
                except StopIteration:
                    return
                finally:
                    process.leave(depth, kind, going_on)
                kind = WAIT
                yield batch
                del batch  # memory is used again only when nobody holds it
        finally:
            batches.close()

    loader.__iter__ = iterate_timed


def _describe_penstock(loader: Any) -> Callable[[], dict[str, Any]]:
    """What the record says of a loader. Holds its counters and not the loader, which may go when it is done."""
    counters = loader._counters
    facts = {
        "kind": "penstock Loader",
        "workers": loader._threads,
        "batch_size": loader.batch_size,
        "source": str(getattr(loader.dataset, "path", "")) or None,
        "dataset": type(loader.dataset).__name__,
    }

    def tell() -> dict[str, Any]:
        return {
            **facts,
            "batches": counters.batches,
            "read_seconds": counters.read_wait_seconds,
            "render_seconds": counters.render_seconds,
        }

    return tell


_PATCHES: dict[str, Patch] = {
    "torch.utils.data.dataloader": patch_torch,
    "penstock.serve.loader": patch_penstock,
}
