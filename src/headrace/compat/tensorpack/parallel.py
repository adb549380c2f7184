"""tensorpack's runners and parallel maps. Ordered, exact, finite; errors and deaths are raised.

The original's `strict` and buffer arguments are accepted: every pass is what `strict=True` meant.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.compat.tensorpack.dataflow import (
    DataFlow,
    Derived,
    Shell,
    as_flow,
    as_list,
    is_kept,
    length_of,
)
from headrace.compat.tensorpack.seed import build_alike, make_source_seed
from headrace.compat.tensorpack.stack import stack_of
from headrace.flow.flow import Flow


class MultiProcessRunner(Derived):
    """Run `ds` in `num_proc` processes, each of which gives its share: same data, same order."""

    def __init__(self, ds: DataFlow, num_prefetch: int, num_proc: int) -> None:
        self.num_prefetch, self.num_proc = num_prefetch, num_proc
        flow = as_flow(ds).in_process(num_proc, buffer=max(num_prefetch, num_proc))
        super().__init__(ds, flow, length_of(ds))


class MultiProcessRunnerZMQ(MultiProcessRunner):
    """The same under its other name; `hwm` is how many datapoints may wait."""

    def __init__(self, ds: DataFlow, num_proc: int = 1, hwm: int = 50) -> None:
        self._hwm = hwm
        super().__init__(ds, hwm, num_proc)


class MultiThreadRunner(Shell):
    """Run `num_thread` instances of `get_df()` in threads, each of which gives its share."""

    def __init__(self, get_df: Callable[[], DataFlow], num_prefetch: int, num_thread: int) -> None:
        self.num_thread = num_thread
        ahead = max(1, num_prefetch // num_thread)
        instances = build_alike(get_df, num_thread)
        flows = [as_flow(ds) for ds in instances]
        shares = [flow.shard(i, num_thread).prefetch(ahead) for i, flow in enumerate(flows)]
        super().__init__(Flow.interleave(*shares), length_of(instances[0]))


class MultiThreadMapData(Derived):
    """`map_func` on `num_thread` threads; None drops the datapoint."""

    kind = "threads"

    def __init__(
        self,
        ds: DataFlow,
        num_thread: int,
        map_func: Callable[[Any], Any],
        *,
        buffer_size: int = 200,
        strict: bool = False,
    ) -> None:
        self.num_thread, self.map_func = num_thread, map_func
        self._buffer_size, self._strict = buffer_size, strict
        buffer = max(buffer_size, num_thread)
        flow = as_flow(ds).map(
            map_func, num_thread, self.kind, buffer=buffer, seed=make_source_seed()
        )
        super().__init__(ds, flow.filter(is_kept), length_of(ds))


class MultiProcessMapDataZMQ(MultiThreadMapData):
    """`map_func` in `num_proc` processes; arrays come back through shared memory."""

    kind = "processes"

    def __init__(
        self,
        ds: DataFlow,
        num_proc: int,
        map_func: Callable[[Any], Any],
        *,
        buffer_size: int = 200,
        strict: bool = False,
    ) -> None:
        self.num_proc = num_proc
        super().__init__(ds, num_proc, map_func, buffer_size=buffer_size, strict=strict)


class MultiProcessMapAndBatchDataZMQ(Derived):
    """`map_func` in `num_proc` processes, then batches."""

    def __init__(
        self,
        ds: DataFlow,
        num_proc: int,
        map_func: Callable[[Any], Any],
        batch_size: int,
        buffer_size: int | None = None,
    ) -> None:
        self.num_proc, self.map_func = num_proc, map_func
        self.batch_size, self.buffer_size = batch_size, buffer_size
        mapped = MultiProcessMapDataZMQ(ds, num_proc, map_func, buffer_size=buffer_size or 200)
        flow = mapped.flow.batch(batch_size, remainder=False, stack=stack_of(False))
        super().__init__(ds, flow.map(as_list))


class AugmentImageComponent(Derived):
    """Augment one component; `catch_exceptions` drops and logs what fails."""

    def __init__(
        self,
        ds: DataFlow,
        augmentors: Any,
        index: Any = 0,
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        from headrace.compat.tensorpack.imgaug import AugmentorList

        self.augs, self._index, self._copy = AugmentorList(augmentors), index, copy
        on_error = "skip" if catch_exceptions else "raise"
        fn = partial(_augment, self.augs.augment, (index,), copy)
        flow = as_flow(ds).map(fn, on_error=on_error, seed=make_source_seed())
        super().__init__(ds, flow, length_of(ds))


class AugmentImageComponents(Derived):
    """Augment several components by the same random choices."""

    def __init__(
        self,
        ds: DataFlow,
        augmentors: Any,
        index: tuple[Any, ...] = (0, 1),
        coords_index: tuple[Any, ...] = (),
        copy: bool = True,
        catch_exceptions: bool = False,
    ) -> None:
        if coords_index:
            raise ValueError(f"coords_index is {coords_index}, but only images are augmented")
        from headrace.compat.tensorpack.imgaug import AugmentorList

        self.augs, self._index, self._copy = AugmentorList(augmentors), index, copy
        fn = partial(_augment_alike, self.augs, index, copy)
        on_error = "skip" if catch_exceptions else "raise"
        flow = as_flow(ds).map(fn, on_error=on_error, seed=make_source_seed())
        super().__init__(ds, flow, length_of(ds))


def _augment(fn: Callable[[Any], Any], indices: tuple[Any, ...], copy: bool, item: Any) -> Any:
    changed = dict(item) if isinstance(item, dict) else list(item)
    for index in indices:
        changed[index] = fn(item[index].copy() if copy else item[index])
    return changed


def _augment_alike(augmentors: Any, indices: tuple[Any, ...], copy: bool, item: Any) -> Any:
    transform = augmentors.get_transform(item[indices[0]])
    return _augment(transform.apply_image, indices, copy, item)


MultiProcessMapData = MultiProcessMapDataZMQ
MultiProcessMapAndBatchData = MultiProcessMapAndBatchDataZMQ
PrefetchData = MultiProcessPrefetchData = MultiProcessRunner
PrefetchDataZMQ = MultiProcessRunnerZMQ
MultiThreadPrefetchData = MultiThreadRunner
