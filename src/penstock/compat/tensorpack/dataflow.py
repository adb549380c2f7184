"""tensorpack's DataFlow: the base classes, sources and transforms as thin shells over Flow.

A datapoint is a list or dict of components. Every pass of a shell is finite and exact, and each
`iter` begins the next epoch. `reset_state()` may be called any number of times, or never.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.compat.tensorpack.seed import get_seed, make_source_seed
from penstock.compat.tensorpack.stack import stack_of, stack_values
from penstock.compat.tensorpack.stages import RepeatItem
from penstock.run.flow import Flow
from penstock.run.seeding import item_rng
from penstock.run.source import Source
from penstock.run.stage import At, Items, Length, Opener

if TYPE_CHECKING:
    from typing_extensions import Self

_epoch: ContextVar[int | None] = ContextVar("epoch", default=None)  # that a flow resets for


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

    def reset_state(self) -> None:
        """Nothing has to be prepared before iteration, so there is nothing to reset."""

    def get_data(self) -> Iterator[Any]:
        """The old name of `__iter__`."""
        return iter(self)

    def size(self) -> int:
        """The old name of `__len__`."""
        return len(self)  # type: ignore[arg-type]


class RNGDataFlow(DataFlow):
    """A DataFlow with a generator of its own, `self.rng`, seeded by `fix_rng_seed`.

    A flow that runs it resets it to its seed and the epoch first, in whatever process.
    """

    _source_seed: int

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Seeded here, so that subclasses need not call `__init__`."""
        made = super().__new__(cls)
        made._source_seed = make_source_seed()
        return made

    @property
    def rng(self) -> np.random.RandomState:
        """Made at first use."""
        if "_rng" not in self.__dict__:
            self._rng = np.random.RandomState(self._source_seed & 0xFFFFFFFF)
        return self._rng

    def reset_state(self) -> None:
        epoch = _epoch.get()
        if epoch is not None:
            words = np.random.SeedSequence((self._source_seed, epoch))
            self._rng = np.random.RandomState(np.random.MT19937(words))


class Shell(DataFlow):
    """A DataFlow that is a Flow: `flow` is that, and `length` what `len` says if a Flow cannot."""

    def __init__(self, flow: Flow, length: int | None = None) -> None:
        self.flow = flow
        self._length = length
        self._passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.flow.set_epoch(self._passes)
        self._passes += 1
        return iter(self.flow)

    def reset_state(self) -> None:
        epoch = _epoch.get()
        if epoch is not None:  # in another process this object has no passes behind it
            self._passes = epoch

    def __len__(self) -> int:
        return len(self.flow) if self._length is None else self._length


class ProxyDataFlow(Shell):
    """Pass everything on to `ds`; subclasses override what they want to change."""

    def __init__(self, ds: DataFlow) -> None:
        super().__init__(as_flow(ds), length_of(ds))
        self.ds = ds

    def reset_state(self) -> None:
        super().reset_state()
        self.ds.reset_state()


def as_flow(ds: Iterable[Any]) -> Flow:
    """The flow of a shell, or one that iterates a DataFlow that the user wrote."""
    if isinstance(ds, Shell) and type(ds).__iter__ is Shell.__iter__:
        return ds.flow
    return ds if isinstance(ds, Flow) else Flow(Written(ds))


def length_of(ds: Any) -> int | None:
    """len(ds), or None where it has none."""
    try:
        return len(ds)
    except (TypeError, NotImplementedError):
        return None


def length_of_all(df_lists: Sequence[DataFlow], combine: Callable[[list[int]], int]) -> int | None:
    """The lengths combined, or None where one of them is None."""
    known = [length for length in map(length_of, df_lists) if length is not None]
    return combine(known) if len(known) == len(df_lists) else None


def length_times(ds: DataFlow, times: int) -> int | None:
    """len(ds) * times, or None where it has none."""
    length = length_of(ds)
    return None if length is None else length * times


def reset_for(ds: DataFlow, epoch: int) -> None:
    """`reset_state`, which wrappers pass on to what they wrap, for a pass of that epoch."""
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


def is_kept(item: Any) -> bool:
    """A map function drops a datapoint by returning None."""
    return item is not None


# Sources


class FakeData(Shell):
    """`size` datapoints of random arrays, or always the same one if not `random`."""

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        size: int = 1000,
        random: bool = True,
        dtype: Any = "float32",
        domain: Any = (0, 1),
    ) -> None:
        dtypes = dtype if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes)
        domains = domain if isinstance(domain[0], (list, tuple)) else [domain] * len(shapes)
        fields = [
            (tuple(s), np.dtype(d).str, r) for s, d, r in zip(shapes, dtypes, domains, strict=True)
        ]
        numbers = range(size) if random else [0] * size
        make = partial(_make_fake, fields, random)
        super().__init__(Flow.of(numbers).map(make, seed=make_source_seed()))


def _make_fake(fields: list[tuple[Any, str, Any]], random: bool, number: int) -> list[Any]:
    rng = item_rng() if random else np.random.default_rng(0)
    return [(rng.random(shape) * (b - a) + a).astype(dtype) for shape, dtype, (a, b) in fields]


class DataFromList(Shell):
    """The elements of a list, in a new order each pass if `shuffle`."""

    def __init__(self, lst: Sequence[Any], shuffle: bool = True) -> None:
        flow = Flow.of(lst)
        super().__init__(flow.shuffle(seed=get_seed()) if shuffle else flow)


class DataFromGenerator(Shell):
    """What a generator yields (one pass), or a function that makes one (any number)."""

    def __init__(self, gen: Any) -> None:
        super().__init__(Flow.of(gen))


class DataFromIterable(Shell):
    """What an iterable yields."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        super().__init__(Flow.of(iterable))


# Transforms


class MapData(Shell):
    """`func(datapoint)` for each, on a shallow copy; None drops the datapoint."""

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any]) -> None:
        flow = as_flow(ds).map(partial(_call_on_copy, func), seed=get_seed())
        super().__init__(flow.filter(is_kept), length_of(ds))


def _call_on_copy(func: Callable[[Any], Any], item: Any) -> Any:
    return func(copy(item) if isinstance(item, (list, dict)) else item)


class MapDataComponent(Shell):
    """`func(component)` in the place of one component; None drops the datapoint."""

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any], index: Any = 0) -> None:
        flow = as_flow(ds).map(partial(_map_component, func, index), seed=get_seed())
        super().__init__(flow.filter(is_kept), length_of(ds))


def _map_component(func: Callable[[Any], Any], index: Any, item: Any) -> Any:
    value = func(item[index])
    if value is None:
        return None
    changed = dict(item) if isinstance(item, dict) else list(item)
    changed[index] = value
    return changed


class BatchData(Shell):
    """`batch_size` datapoints at a time, stacked; the last partial batch only if `remainder`."""

    def __init__(
        self, ds: DataFlow, batch_size: int, remainder: bool = False, use_list: bool = False
    ) -> None:
        length = length_of(ds)
        if not remainder and length is not None and batch_size > length:
            raise ValueError(
                f"batches of {batch_size} from {length} datapoints: there would be none; use "
                "remainder=True or smaller batches"
            )
        flow = as_flow(ds).batch(batch_size, remainder=remainder, stack=stack_of(use_list))
        if length is not None and flow.length() is None:
            length = math.ceil(length / batch_size) if remainder else length // batch_size
            super().__init__(flow, length)
        else:
            super().__init__(flow)


class BatchDataByShape(Shell):
    """Batches of datapoints whose component `idx` has one shape; the rest comes at the end."""

    def __init__(self, ds: DataFlow, batch_size: int, idx: Any) -> None:
        super().__init__(as_flow(ds).batch_by_shape(batch_size, idx, stack=stack_values))


class FixedSizeData(Shell):
    """Passes of exactly `size`; with `keep_state` each goes on where the one before stopped."""

    def __init__(self, ds: DataFlow, size: int, keep_state: bool = True) -> None:
        flow = as_flow(ds)
        super().__init__(flow.fixed_size(size) if keep_state else flow.repeat().take(size), size)


class RepeatedData(Shell):
    """All datapoints `num` times over, without end if -1."""

    def __init__(self, ds: DataFlow, num: int) -> None:
        if num == -1:
            super().__init__(as_flow(ds).repeat())
        else:
            super().__init__(as_flow(ds).repeat(num), length_times(ds, num))


class RepeatedDataPoint(Shell):
    """Each datapoint `num` times in a row."""

    def __init__(self, ds: DataFlow, num: int) -> None:
        super().__init__(Flow(RepeatItem(num), (as_flow(ds),)), length_times(ds, num))


class RandomChooseData(Shell):
    """Each datapoint from a DataFlow drawn at random, [df, …] or [(df, p), …], until one ends."""

    def __init__(self, df_lists: Sequence[Any]) -> None:
        pairs = [entry if isinstance(entry, (list, tuple)) else (entry, 1.0) for entry in df_lists]
        first, *others = [as_flow(ds) for ds, _ in pairs]
        weights = [weight for _, weight in pairs]
        super().__init__(first.choose(*others, weights=weights, seed=get_seed()))


class RandomMixData(Shell):
    """All datapoints of all DataFlows, in random turns; their lengths must be known.

    Perfectly mixed if those are exact, else in their proportion until one ends.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        first, *others = flows = [as_flow(ds) for ds in df_lists]
        total = length_of_all(df_lists, sum)
        if total is None:
            raise ValueError("RandomMixData needs the length of each DataFlow: define __len__")
        exact = all(flow.length() is not None for flow in flows)
        weights = None if exact else [length_of(ds) or 1 for ds in df_lists]  # 0 is no weight
        super().__init__(first.mix(*others, weights=weights, seed=get_seed()), total)


class ConcatData(Shell):
    """One DataFlow after the other."""

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        first, *others = map(as_flow, df_lists)
        super().__init__(first.concat(*others), length_of_all(df_lists, sum))


class JoinData(Shell):
    """The components of the n-th datapoints of all DataFlows side by side."""

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        first, *others = map(as_flow, df_lists)
        super().__init__(first.join(*others), length_of_all(df_lists, min))


class SelectComponent(Shell):
    """Some components, in the given order."""

    def __init__(self, ds: DataFlow, idxs: Sequence[Any]) -> None:
        super().__init__(as_flow(ds).map(partial(_select, list(idxs))), length_of(ds))


def _select(idxs: list[Any], item: Any) -> Any:
    if isinstance(item, dict):
        return {index: item[index] for index in idxs}
    return [item[index] for index in idxs]


class LocallyShuffleData(Shell):
    """A new order each pass in which nothing moves `buffer_size` places; each exactly once."""

    def __init__(
        self,
        ds: DataFlow,
        buffer_size: int,
        num_reuse: int = 1,
        shuffle_interval: int | None = None,
    ) -> None:
        flow = as_flow(ds)
        if num_reuse > 1:
            flow = Flow(RepeatItem(num_reuse), (flow,))
        flow = flow.shuffle(buffer_size, seed=get_seed())
        super().__init__(flow, length_times(ds, max(num_reuse, 1)))


class CacheData(Shell):
    """The first complete pass kept in memory, in a new order each pass if `shuffle`."""

    def __init__(self, ds: DataFlow, shuffle: bool = False) -> None:
        flow = as_flow(ds).cache()
        super().__init__(flow.shuffle(seed=get_seed()) if shuffle else flow, length_of(ds))
