"""The options of a loader, checked before anything is read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from headrace.arguments import check_choice, keep_integers, read_integer
from headrace.kinds import Kind
from headrace.read.dataset import Dataset
from headrace.recipe.buckets import Buckets
from headrace.recipe.schedule import Schedule
from headrace.render.options import Depth16, check_depth16
from headrace.serve.bad_samples import OnError
from headrace.serve.pictures import IMAGE, LABEL
from headrace.serve.python_batch import Collate, Tokenize
from headrace.serve.rank import Place, check_given
from headrace.serve.sampling import Mixture, Weights
from headrace.work.cores import count_cores


@dataclass(frozen=True, eq=False, repr=False)
class LoaderOptions:
    """Hold the options of a loader; `headrace.Loader` documents them.

    This is the only list of them: loaders derive from it, and so show all options in their signatures. Options cannot
    be changed later. `num_workers`, `rank` and `world_size` are kept as `workers` and `given_place`, since loaders have
    properties of these names that say what was found.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option is out of range.
    """

    source: str | os.PathLike[str] | Dataset | Mixture
    batch_size: int | Schedule
    _: KW_ONLY
    shuffle: bool = False
    transform: Any = None
    collate_fn: Collate | None = None
    num_workers: InitVar[int | None] = None
    seed: int = 0
    drop_last: bool = False
    fields: Sequence[str] = (IMAGE, LABEL)
    weights: Weights = None
    on_error: OnError = "raise"
    window: int | str | None = "auto"
    rank: InitVar[int | None] = None
    world_size: InitVar[int | None] = None
    threads: int | None = None
    prefetch: int = 2
    start_method: str | None = None
    verify: bool = True
    depth16: Depth16 = "clip"
    orient: bool = False
    kinds: Mapping[str, Kind | None] = field(default_factory=dict)
    collate: Literal["stack", "list"] = "stack"
    buckets: Buckets | Sequence[Sequence[int]] | None = None
    repeat: int = 1
    tokenize: Tokenize | None = None
    workers: int = field(init=False)
    given_place: Place | None = field(init=False)

    def __post_init__(
        self, num_workers: int | None, rank: int | None, world_size: int | None
    ) -> None:
        workers = count_cores() if num_workers is None else read_integer("num_workers", num_workers)
        self._set(workers=workers, given_place=check_given(rank, world_size))
        self._check_source()
        self._check_batch_sizes()
        keep_integers(self, "seed", "threads", "prefetch", "repeat")
        for name, value, least in (
            ("repeat", self.repeat, 1),
            ("num_workers", workers, 0),
            ("threads", self.threads, 1),
            ("prefetch", self.prefetch, 1),
        ):
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        check_choice("on_error", self.on_error, get_args(OnError))
        check_depth16(self.depth16)
        check_choice("collate", self.collate, ("stack", "list"))
        self._check_sizes()
        self._check_fields()

    def _check_source(self) -> None:
        source = self.source
        if isinstance(source, (str, os.PathLike)):
            self._set(source=Path(source).absolute())  # abspath resolves `link/..` wrongly
        elif not isinstance(source, (Dataset, Mixture)):
            root = getattr(source, "root", None)
            found = "" if root is None else f", such as its root {os.fspath(root)!r}"
            raise TypeError(
                f"a {type(source).__name__} cannot be loaded; give the path of an image folder or of a packed "
                f"dataset{found}, a Dataset, or a Mixture"
            )

    def _check_batch_sizes(self) -> None:
        if not isinstance(self.batch_size, Schedule):
            return keep_integers(self, "batch_size")
        if self.batch_size.by != "epoch":
            raise ValueError(
                f"batch_size is {self.batch_size}; it may change with the epoch, not with the step"
            )
        sizes = {epoch: read_integer("batch_size", size) for epoch, size in self.batch_size.sizes}
        if min(sizes.values()) < 1:
            raise ValueError(f"batch_size is {self.batch_size}; each size must be at least 1")
        self._set(batch_size=Schedule(sizes))

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The batch sizes of all epochs: one, or those of a schedule."""
        if isinstance(self.batch_size, int):
            return (self.batch_size,)
        return tuple(size for _, size in self.batch_size.sizes if isinstance(size, int))

    def _check_sizes(self) -> None:
        if self.buckets is not None and not isinstance(self.buckets, Buckets):
            self._set(buckets=Buckets(self.buckets))
        if self.buckets is not None and self.collate == "list":
            raise ValueError("buckets make batches of one size: leave collate='list' out")
        if self.repeat > 1 and not self.shuffle:
            raise ValueError(f"repeat is {self.repeat}: it is for training; give shuffle=True")
        if any(size % self.repeat for size in self.batch_sizes):
            each = "it" if isinstance(self.batch_size, int) else "each size"
            raise ValueError(
                f"batch_size is {self.batch_size}; {each} must be a multiple of repeat, {self.repeat}"
            )

    def _check_fields(self) -> None:
        if isinstance(self.fields, str):
            raise TypeError(f"fields is {self.fields!r}; give a tuple of names: ({self.fields!r},)")
        self._set(fields=tuple(self.fields), kinds=dict(self.kinds))
        if twice := {name for name in self.fields if self.fields.count(name) > 1}:
            raise ValueError(f"fields is {self.fields!r}: it has {min(twice)!r} twice")
        if fixed := self.kinds.keys() & {IMAGE, LABEL}:
            raise ValueError(
                f"kinds has {min(fixed)!r}, whose kind is fixed: name the field itself"
            )
        if unknown := self.kinds.keys() - set(self.fields):
            raise ValueError(f"kinds has {min(unknown)!r}, which is not in fields: {self.fields!r}")

    def _set(self, **values: Any) -> None:
        vars(self).update(values)

    def list_values(self) -> dict[str, Any]:
        """Return all options by name, as they were checked."""
        return {option.name: getattr(self, option.name) for option in fields(LoaderOptions)}


LoaderOptions.__init__.__qualname__ = "Loader.__init__"  # in errors about arguments
