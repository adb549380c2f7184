"""tensorpack's DataFlow: the base classes, and the thin wrappers over Flow that all others are.

A datapoint is a list or dict of components. Every pass of a wrapper is finite and exact, and each
`iter` begins the next epoch. `reset_state()` may be called any number of times, or never.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.tensorpack.seed import make_source_seed
from headrace.flow.flow import Flow
from headrace.flow.flow_source import Source
from headrace.flow.stage import At, Items, Length, Opener

if TYPE_CHECKING:
    from typing_extensions import Self

_epoch: ContextVar[int | None] = ContextVar("epoch", default=None)  # that a flow resets for


class NoLengthError(NotImplementedError, TypeError):
    """`len` of a DataFlow that has none. A TypeError too, so that `list` goes on without it."""


class DataFlowTerminated(BaseException):
    """Raised by a DataFlow that is exhausted. Headrace's own DataFlows never raise it."""


class DataFlowReentrantGuard:
    """`with` it around a pass that must have ended before the next may begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise threading.ThreadError("this DataFlow is not reentrant: a pass has not ended yet")

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class DataFlow:
    """What users subclass: `__iter__` yields datapoints, `__len__` is optional.

    A subclass may define them by their old names, `get_data` and `size`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for old, new in (("get_data", "__iter__"), ("size", "__len__")):
            if old in vars(cls) and new not in vars(cls):
                setattr(cls, new, vars(cls)[old])

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __len__(self) -> int:
        raise NoLengthError(f"{type(self).__name__} has no length: it does not define __len__")

    def __bool__(self) -> bool:
        return length_of(self) != 0  # one of unknown length is not empty

    def reset_state(self) -> None:
        """Do nothing: iteration needs no preparation."""

    def get_data(self) -> Iterator[Any]:
        """Iterate; the old name of `__iter__`."""
        return iter(self)

    def size(self) -> int:
        """Return the length; the old name of `__len__`."""
        return len(self)


class RNGDataFlow(DataFlow):
    """A DataFlow with a generator of its own, `self.rng`, seeded by `fix_rng_seed`.

    A flow that runs it resets it to its seed and the epoch first, in whatever process.
    """

    _source_seed: int
    rng: np.random.RandomState

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Draw the seed here, so that subclasses need not call `__init__`."""
        made = super().__new__(cls)
        made._source_seed = make_source_seed()
        made.rng = np.random.RandomState(made._source_seed & 0xFFFFFFFF)
        return made

    def reset_state(self) -> None:
        epoch = _epoch.get()
        if epoch is not None:
            words = np.random.SeedSequence((self._source_seed, epoch))
            self.rng = np.random.RandomState(np.random.MT19937(words))


class Shell(DataFlow):
    """A DataFlow that is a Flow: `flow` is that, and `length` what `len` says if a Flow cannot.

    Arguments of the constructors are kept under the original's names, for subclasses to read.
    """

    _length: int | None = None
    _passes = 0

    def __init__(self, flow: Flow, length: int | None = None) -> None:
        self.flow = flow
        self._length = length

    @cached_property
    def flow(self) -> Flow:
        """What it runs, as `__init__` was told."""
        raise TypeError(f"{type(self).__name__}.__init__ must call super().__init__")

    def __iter__(self) -> Iterator[Any]:
        self.flow.set_epoch(self._passes)
        self._passes += 1
        return iter(self.flow)

    def reset_state(self) -> None:
        super().reset_state()
        epoch = _epoch.get()
        if epoch is not None:  # in another process this object has no passes behind it
            self._passes = epoch

    def __len__(self) -> int:
        length = self.flow.length() if self._length is None else self._length
        if length is None:
            raise NoLengthError(f"{type(self).__name__} cannot tell its length before it has ended")
        if length == math.inf:
            raise NoLengthError(f"{type(self).__name__} does not end, so that it has no length")
        return int(length)


class ProxyDataFlow(Shell):
    """Pass everything on to `ds`; subclasses override what they want to change.

    They may set `ds` themselves instead of calling `__init__`.
    """

    ds: DataFlow

    def __init__(self, ds: DataFlow) -> None:
        self.ds = ds

    @cached_property
    def flow(self) -> Flow:
        """The flow of `ds`, made at first use."""
        return as_flow(self.ds)

    def __len__(self) -> int:
        return len(self.ds)

    def reset_state(self) -> None:
        super().reset_state()
        self.ds.reset_state()


class Derived(ProxyDataFlow):
    """A wrapper over `flow`, which was made from `ds`."""

    flow = Shell.flow
    __len__ = Shell.__len__

    def __init__(self, ds: DataFlow, flow: Flow, length: int | None = None) -> None:
        super().__init__(ds)
        Shell.__init__(self, flow, length)

    def reset_state(self) -> None:
        Shell.reset_state(self)
        if type(self).__iter__ is not Shell.__iter__:  # it may read `ds` past the flow
            self.ds.reset_state()


def as_flow(ds: Iterable[Any]) -> Flow:
    """Return the flow of a wrapper, or one that iterates the user's own DataFlow."""
    if isinstance(ds, Shell) and type(ds).__iter__ is Shell.__iter__:
        return ds.flow
    return ds if isinstance(ds, Flow) else Flow(Written(ds))


def length_of(ds: Any) -> int | None:
    """Return len(ds), or None if it has no length."""
    try:
        return len(ds)
    except (TypeError, NotImplementedError):
        return None


def length_of_all(df_lists: Sequence[DataFlow], combine: Callable[[list[int]], int]) -> int | None:
    """Return the lengths combined, or None if one of them is None."""
    known = [length for length in map(length_of, df_lists) if length is not None]
    return combine(known) if len(known) == len(df_lists) else None


def length_times(ds: DataFlow, times: int) -> int | None:
    """Return len(ds) * times, or None if it has no length."""
    length = length_of(ds)
    return None if length is None else length * times


def reset_for(ds: DataFlow, epoch: int) -> None:
    """Call `reset_state`, which wrappers forward to what they wrap, for a pass of that epoch."""
    token = _epoch.set(epoch)
    try:
        ds.reset_state()
    finally:
        _epoch.reset(token)


@dataclass(frozen=True)
class Written(Source):
    """A DataFlow that the user wrote. Its `len` may be wrong, so that no stage is told it."""

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        if isinstance(self.iterable, DataFlow):
            reset_for(self.iterable, at.epoch)
        yield from islice(self.iterable, at.start, None, at.step)

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None


def as_list(item: Any) -> Any:
    """Return what was made of several datapoints as a list, since functions assign to it."""
    return list(item) if isinstance(item, tuple) else item


def is_kept(item: Any) -> bool:
    """Return whether a map function kept a datapoint: it drops one by returning None."""
    return item is not None
