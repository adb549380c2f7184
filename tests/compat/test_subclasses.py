"""Subclasses of tensorpack's classes find in them what the original's subclasses find."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")

from headrace.compat import tensorpack as tp

POINTS = [[n] for n in range(6)]
SOURCE = tp.DataFromList(POINTS, shuffle=False)


def double(dp: Any) -> Any:
    return [2 * dp[0]]


def values(ds: Any) -> list[Any]:
    return [np.asarray(dp[0]).tolist() for dp in ds]


@pytest.mark.parametrize(
    ("ds", "kept"),
    [
        (SOURCE, {"lst": POINTS, "shuffle": False}),
        (tp.FakeData([[2]], 3), {"shapes": [[2]], "random": True, "dtype": ["float32"]}),
        (tp.ProxyDataFlow(SOURCE), {"ds": SOURCE}),
        (tp.MapData(SOURCE, double), {"ds": SOURCE, "func": double}),
        (
            tp.BatchData(SOURCE, 4, remainder=True, use_list=True),
            {"ds": SOURCE, "batch_size": 4, "remainder": True, "use_list": True},
        ),
        (tp.BatchDataByShape(SOURCE, 2, 0), {"ds": SOURCE, "batch_size": 2, "idx": 0}),
        (tp.FixedSizeData(SOURCE, 4), {"ds": SOURCE, "_size": 4}),
        (tp.RepeatedData(SOURCE, -1), {"ds": SOURCE, "num": -1}),
        (tp.RepeatedDataPoint(SOURCE, 2), {"ds": SOURCE, "num": 2}),
        (tp.RandomChooseData([(SOURCE, 1.0)]), {"df_lists": [(SOURCE, 1.0)]}),
        (tp.JoinData([SOURCE, SOURCE]), {"df_lists": [SOURCE, SOURCE]}),
        (
            tp.LocallyShuffleData(SOURCE, 6),
            {"ds": SOURCE, "num_reuse": 1, "shuffle_interval": 2},
        ),
        (tp.CacheData(SOURCE, shuffle=True), {"ds": SOURCE, "shuffle": True}),
        (tp.PrintData(SOURCE, max_list=2), {"ds": SOURCE, "num": 1, "max_list": 2}),
        (tp.MultiProcessRunner(SOURCE, 4, 2), {"ds": SOURCE, "num_prefetch": 4, "num_proc": 2}),
        (tp.MultiThreadMapData(SOURCE, 2, double), {"num_thread": 2, "map_func": double}),
        (tp.MultiProcessMapData(SOURCE, 2, double), {"num_proc": 2, "map_func": double}),
    ],
    ids=lambda part: type(part).__name__,
)
def test_arguments_are_kept_under_the_names_of_the_original(ds: Any, kept: Any) -> None:
    assert {name: getattr(ds, name) for name in kept} == kept


class Reversed(tp.BatchData):
    def __iter__(self) -> Iterator[Any]:
        held = [dp for dp in self.ds][::-1]
        for start in range(0, len(held), self.batch_size):
            yield self.aggregate_batch(held[start : start + self.batch_size], self.use_list)


def test_a_subclass_of_a_transform_may_iterate_ds_itself() -> None:
    ds = Reversed(SOURCE, 4, remainder=True)
    assert values(ds) == values(tp.MapData(ds, lambda dp: dp)) == [[5, 4, 3, 2], [1, 0]]
    assert len(ds) == len(tp.MapData(ds, lambda dp: dp)) == 2


class Drawn(tp.DataFromList):
    def __iter__(self) -> Iterator[Any]:
        for k in self.rng.permutation(len(self.lst)):
            yield [self.lst[k][0] * 100 + self.rng.randint(100)]


class Doubled(tp.MapData):
    def __iter__(self) -> Iterator[Any]:
        for dp in self.ds:
            yield self.func(dp)


@pytest.mark.parametrize("make", [Drawn, lambda points: Doubled(Drawn(points), double)])
def test_what_a_subclass_draws_is_new_each_pass_and_the_same_in_processes(make: Any) -> None:
    tp.fix_rng_seed(0)
    runner = tp.MultiProcessRunnerZMQ(make(POINTS), 2)
    tp.fix_rng_seed(0)
    inline = tp.MapData(make(POINTS), lambda dp: dp)
    passes = [values(runner) for _ in range(2)]
    assert passes[0] != passes[1] and passes == [values(inline) for _ in range(2)]


class OwnGenerator(tp.RNGDataFlow):
    def reset_state(self) -> None:
        self.rng = np.random.RandomState(3)

    def __iter__(self) -> Iterator[Any]:
        yield [self.rng.randint(1000)]


def test_a_subclass_may_bring_its_own_generator() -> None:
    drawn = [np.random.RandomState(3).randint(1000)]
    assert values(tp.MapData(OwnGenerator(), lambda dp: dp)) == drawn


class Bare(tp.ProxyDataFlow):
    def __init__(self, ds: tp.DataFlow) -> None:
        self.ds = ds


class BareDoubled(Bare):
    def __iter__(self) -> Iterator[Any]:
        for dp in self.ds:
            yield double(dp)


@pytest.mark.parametrize(("kind", "factor"), [(Bare, 1), (BareDoubled, 2)])
def test_a_proxy_may_set_ds_without_calling_init(kind: Any, factor: int) -> None:
    ds, expected = kind(SOURCE), [factor * n for n in range(6)]
    ds.reset_state()
    assert values(ds) == values(tp.MapData(ds, lambda dp: dp)) == expected
    assert len(ds) == len(tp.MapData(ds, lambda dp: dp)) == 6


class Unmapped(tp.MapData):
    def __init__(self, ds: tp.DataFlow) -> None:
        self.ds, self.func = ds, double


def test_a_transform_that_was_not_told_what_to_do_says_so() -> None:
    with pytest.raises(TypeError, match="Unmapped.__init__ must call super"):
        list(Unmapped(SOURCE))
