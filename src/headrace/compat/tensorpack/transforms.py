"""tensorpack's transforms of one or several DataFlows: map, batch, repeat, mix, join, shuffle, cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

from headrace.compat.tensorpack.dataflow import (
    DataFlow,
    Derived,
    RNGDataFlow,
    Shell,
    as_flow,
    as_list,
    is_kept,
    length_of,
    length_of_all,
    length_times,
)
from headrace.compat.tensorpack.seed import make_source_seed
from headrace.compat.tensorpack.stack import stack_of, stack_values
from headrace.compat.tensorpack.stages import RepeatItem
from headrace.flow.batching import collate
from headrace.flow.combine import Concat
from headrace.flow.flow import Flow


class MapData(Derived):
    """Apply `func` to a shallow copy of each datapoint; None drops the datapoint."""

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any]) -> None:
        self.func = func
        flow = as_flow(ds).map(partial(_call_on_copy, func), seed=make_source_seed())
        super().__init__(ds, flow.filter(is_kept), length_of(ds))


def _call_on_copy(func: Callable[[Any], Any], item: Any) -> Any:
    return func(copy(item) if isinstance(item, (list, dict)) else item)


class MapDataComponent(Derived):
    """Apply `func` to one component; None drops the datapoint."""

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any], index: Any = 0) -> None:
        self._func, self._index = func, index
        flow = as_flow(ds).map(partial(_map_component, func, index), seed=make_source_seed())
        super().__init__(ds, flow.filter(is_kept), length_of(ds))


def _map_component(func: Callable[[Any], Any], index: Any, item: Any) -> Any:
    value = func(item[index])
    if value is None:
        return None
    changed = dict(item) if isinstance(item, dict) else list(item)
    changed[index] = value
    return changed


class BatchData(Derived):
    """Stack `batch_size` datapoints; keep a shorter last batch only if `remainder`."""

    def __init__(
        self, ds: DataFlow, batch_size: int, remainder: bool = False, use_list: bool = False
    ) -> None:
        self.batch_size, self.remainder, self.use_list = batch_size, remainder, use_list
        length = length_of(ds)
        if not remainder and length is not None and batch_size > length:
            raise ValueError(
                f"batches of {batch_size} from {length} datapoints: there would be none; use "
                "remainder=True or smaller batches"
            )
        flow = as_flow(ds).batch(batch_size, remainder=remainder, stack=stack_of(use_list))
        flow = flow.map(as_list)
        if length is not None and flow.length() is None:
            length = math.ceil(length / batch_size) if remainder else length // batch_size
            super().__init__(ds, flow, length)
        else:
            super().__init__(ds, flow)

    @staticmethod
    def aggregate_batch(data_holder: list[Any], use_list: bool = False) -> Any:
        """Return the batch of these datapoints."""
        return as_list(collate(data_holder, stack_of(use_list)))


class BatchDataByShape(Derived):
    """Batches of datapoints whose component `idx` has one shape; the rest comes at the end."""

    def __init__(self, ds: DataFlow, batch_size: int, idx: Any) -> None:
        self.batch_size, self.idx = batch_size, idx
        flow = as_flow(ds).batch_by_shape(batch_size, idx, stack=stack_values)
        super().__init__(ds, flow.map(as_list))


class FixedSizeData(Derived):
    """Yield exactly `size` datapoints per pass; with `keep_state` each pass continues the last one."""

    def __init__(self, ds: DataFlow, size: int, keep_state: bool = True) -> None:
        self._size, self._keep = size, keep_state
        flow = as_flow(ds)
        flow = flow.fixed_size(size) if keep_state else flow.repeat().take(size)
        super().__init__(ds, flow, size)


class RepeatedData(Derived):
    """Repeat all datapoints `num` times, without end if -1."""

    def __init__(self, ds: DataFlow, num: int) -> None:
        self.num = num
        if num == -1:
            super().__init__(ds, as_flow(ds).repeat())
        else:
            flow = as_flow(ds).repeat(num) if num else as_flow(ds).take(0)
            super().__init__(ds, flow, length_times(ds, num))


class RepeatedDataPoint(Derived):
    """Repeat each datapoint `num` times."""

    def __init__(self, ds: DataFlow, num: int) -> None:
        self.num = num
        super().__init__(ds, Flow(RepeatItem(num), (as_flow(ds),)), length_times(ds, num))


class RandomChooseData(Shell, RNGDataFlow):
    """Each datapoint from a DataFlow drawn at random, [df, …] or [(df, p), …], until one ends."""

    def __init__(self, df_lists: Sequence[Any]) -> None:
        pairs = [entry if isinstance(entry, (list, tuple)) else (entry, 1.0) for entry in df_lists]
        self.df_lists = pairs
        first, *others = [as_flow(ds) for ds, _ in pairs]
        weights = [weight for _, weight in pairs]
        super().__init__(first.choose(*others, weights=weights, seed=self._source_seed))


class RandomMixData(Shell, RNGDataFlow):
    """All datapoints of all DataFlows, in random turns; their lengths must be known.

    Perfectly mixed if those are exact, else in their proportion until one ends.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        self.df_lists = df_lists
        first, *others = flows = [as_flow(ds) for ds in df_lists]
        total = length_of_all(df_lists, sum)
        if total is None:
            raise ValueError("RandomMixData needs the length of each DataFlow: define __len__")
        exact = all(flow.length() is not None for flow in flows)
        weights = None if exact else [length_of(ds) or 1 for ds in df_lists]  # 0 is no weight
        super().__init__(first.mix(*others, weights=weights, seed=self._source_seed), total)


class ConcatData(Shell):
    """Yield one DataFlow after the other."""

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        self.df_lists = df_lists
        flow = Flow(Concat(), tuple(map(as_flow, df_lists)))
        super().__init__(flow, length_of_all(df_lists, sum))


class JoinData(Shell):
    """Join the components of the n-th datapoints of all DataFlows."""

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        self.df_lists = df_lists
        first, *others = map(as_flow, df_lists)
        super().__init__(first.join(*others).map(as_list), length_of_all(df_lists, min))


class SelectComponent(Derived):
    """Keep some components in the given order, as a list, also of dicts."""

    def __init__(self, ds: DataFlow, idxs: Sequence[Any]) -> None:
        super().__init__(ds, as_flow(ds).map(partial(_select, list(idxs))), length_of(ds))


def _select(idxs: list[Any], item: Any) -> list[Any]:
    return [item[index] for index in idxs]


class LocallyShuffleData(Derived, RNGDataFlow):
    """Shuffle in a new order each pass within `buffer_size` positions; each datapoint exactly once."""

    def __init__(
        self,
        ds: DataFlow,
        buffer_size: int,
        num_reuse: int = 1,
        shuffle_interval: int | None = None,
    ) -> None:
        self.buffer_size, self.num_reuse = buffer_size, num_reuse
        self.shuffle_interval = shuffle_interval or buffer_size // 3
        flow = as_flow(ds)
        if num_reuse > 1:
            flow = Flow(RepeatItem(num_reuse), (flow,))
        flow = flow.shuffle(buffer_size, seed=self._source_seed)
        super().__init__(ds, flow, length_times(ds, max(num_reuse, 1)))


class CacheData(Derived, RNGDataFlow):
    """Keep the first complete pass in memory, in a new order each pass if `shuffle`."""

    def __init__(self, ds: DataFlow, shuffle: bool = False) -> None:
        self.shuffle = shuffle
        flow = as_flow(ds).cache()
        super().__init__(
            ds, flow.shuffle(seed=self._source_seed) if shuffle else flow, length_of(ds)
        )
