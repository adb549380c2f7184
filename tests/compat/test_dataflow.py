"""tensorpack's names keep their meaning, and what was a defect is right."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")

from headrace.compat import tensorpack as tp
from headrace.errors import WorkerError
from headrace.work.seeding import item_rng


def numbers(count: int = 10) -> tp.DataFromList:
    return tp.DataFromList([[n] for n in range(count)], shuffle=False)


def values(ds: Any) -> list[Any]:
    return [int(dp[0]) for dp in ds]


class Counting(tp.RNGDataFlow):
    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Iterator[Any]:
        for n in range(6):
            yield [n]


def test_every_name_of_the_star_import_exists() -> None:
    assert all(hasattr(tp, name) for name in tp.__all__) and sorted(tp.__all__) == tp.__all__


def test_names_of_the_original_exist_or_are_listed_as_not_carried_over() -> None:
    theirs = pytest.importorskip("tensorpack.dataflow", exc_type=ImportError)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "drop-in.md").read_text()
    absent = {name for name in theirs.__all__ if not hasattr(tp, name)}
    assert absent and [name for name in absent if f"`{name}`" not in page] == []


def test_a_written_dataflow_goes_through_everything() -> None:
    ds = tp.BatchData(
        tp.MultiThreadMapData(Counting(), 2, lambda dp: [dp[0] * 2]), 4, remainder=True
    )
    assert [batch[0].tolist() for batch in ds] == [[0, 2, 4, 6], [8, 10]]
    assert len(ds) == 2


class Drawing(tp.RNGDataFlow):
    def __iter__(self) -> Iterator[Any]:
        for _ in range(6):
            yield [self.rng.randint(1 << 30)]


class Passing(tp.ProxyDataFlow):
    def __iter__(self) -> Iterator[Any]:
        yield from self.ds


class OldSource(tp.DataFlow):
    def size(self) -> int:
        return 3

    def get_data(self) -> Iterator[Any]:
        for n in range(3):
            yield [n]


class OldProxy(tp.ProxyDataFlow):
    def size(self) -> int:
        return 2 * self.ds.size()

    def get_data(self) -> Iterator[Any]:
        for dp in self.ds.get_data():
            yield from (dp, dp)


@pytest.mark.parametrize(
    ("ds", "expected"), [(OldSource(), [0, 1, 2]), (OldProxy(numbers(2)), [0, 0, 1, 1])]
)
def test_the_old_names_get_data_and_size_may_be_overridden(ds: Any, expected: list[int]) -> None:
    assert values(ds) == values(tp.MapData(ds, lambda dp: dp)) == expected
    assert len(ds) == len(tp.MapData(ds, lambda dp: dp)) == len(expected)


@pytest.mark.parametrize(
    "make",
    [Drawing, lambda: Passing(Drawing()), lambda: Passing(tp.LocallyShuffleData(Drawing(), 3))],
    ids=["alone", "wrapped", "shuffled"],
)
def test_randomness_is_new_each_pass_and_the_same_in_processes(make: Any) -> None:
    tp.fix_rng_seed(0)
    runner = tp.MultiProcessRunnerZMQ(make(), 2)
    tp.fix_rng_seed(0)
    inline = tp.MapData(make(), lambda dp: dp)
    passes = [values(runner) for _ in range(3)]
    assert len({number for each in passes for number in each}) == 18
    assert passes == [values(inline) for _ in range(3)]


@pytest.mark.parametrize("make", [Drawing, lambda: tp.FakeData([[1]], 6, domain=(0, 1 << 20))])
def test_two_random_sources_differ_and_do_so_alike_in_each_run(make: Any) -> None:
    def run() -> list[list[int]]:
        tp.fix_rng_seed(0)
        ds = tp.JoinData([make(), make()])
        return [[int(np.squeeze(value)) for value in dp] for dp in [*ds, *ds]]

    drawn = run()
    assert drawn == run() and len({value for dp in drawn for value in dp}) == 24


def add_noise(dp: Any) -> Any:
    return [item_rng().integers(1 << 30)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tp.DataFromList([[n] for n in range(50)]),
        lambda: tp.CacheData(numbers(50), shuffle=True),
        lambda: tp.LocallyShuffleData(numbers(50), 20),
        lambda: tp.RandomMixData([numbers(20), numbers(30)]),
        lambda: tp.RandomChooseData([tp.RepeatedData(numbers(9), -1), numbers(30)]),
        lambda: tp.MapData(numbers(), add_noise),
        lambda: tp.MapDataComponent(numbers(), lambda n: add_noise([n])[0]),
        lambda: tp.MultiThreadMapData(numbers(), 2, add_noise),
    ],
)
def test_two_that_are_built_alike_draw_for_themselves_and_the_same_each_run(make: Any) -> None:
    def run() -> list[list[int]]:
        tp.fix_rng_seed(0)
        return [values(ds) for ds in (make(), make())]

    first, second = run()
    assert first != second and run() == [first, second]


def test_the_instances_of_a_threaded_runner_draw_alike() -> None:
    tp.fix_rng_seed(0)
    inline = values(tp.MapData(Drawing(), lambda dp: dp))
    tp.fix_rng_seed(0)
    assert values(tp.MultiThreadRunner(Drawing, 8, 3)) == inline


def test_reset_state_may_be_called_never_or_often() -> None:
    ds = numbers(3)
    ds.reset_state()
    ds.reset_state()
    assert values(ds) == values(ds.get_data()) == [0, 1, 2] and ds.size() == 3


def test_shuffled_lists_have_a_new_order_each_pass_and_the_same_each_run() -> None:
    tp.fix_rng_seed(0)
    first = tp.DataFromList([[n] for n in range(50)])
    tp.fix_rng_seed(0)
    second = tp.DataFromList([[n] for n in range(50)])
    one, two = values(first), values(first)
    assert one != two and sorted(one) == sorted(two) and values(second) == one


def test_map_drops_none_and_does_not_touch_its_input() -> None:
    points = [[n] for n in range(4)]
    ds = tp.MapData(tp.DataFromList(points, shuffle=False), lambda dp: dp if dp.pop() % 2 else None)
    assert len(list(ds)) == 2 and points == [[0], [1], [2], [3]]
    component = tp.MapDataComponent(numbers(4), lambda n: None if n == 1 else n + 1)
    assert values(component) == [1, 3, 4]


def test_map_does_not_touch_a_dict_that_its_function_changes() -> None:
    def double(dp: dict[str, int]) -> dict[str, int]:
        dp["n"] *= 2
        return dp

    ds = tp.MapData(tp.DataFromList([{"n": 1}], shuffle=False), double)
    assert [[dp["n"] for dp in ds] for _ in range(3)] == [[2], [2], [2]]


def test_batches_have_the_original_dtypes_but_bool_stays_bool() -> None:
    ds = tp.DataFromList([[1, 1.5, True, "a", np.float64(2)]] * 2, shuffle=False)
    (batch,) = tp.BatchData(ds, 2)
    assert [column.dtype.str for column in batch] == ["<i4", "<f4", "|b1", "<U1", "<f8"]


@pytest.mark.parametrize(
    "texts",
    [
        [b"ab\0", b"c\0\0"],
        [b"a", b"\0"],
        ["a\0", "b"],
        ["a\0", 1],
        [np.bytes_(b"a\0"), np.bytes_(b"b")],
        [["a", "b\0"], ["c", "d"]],
    ],
)
def test_batches_keep_the_nuls_at_the_end_of_text_and_bytes(texts: list[Any]) -> None:
    ds = tp.DataFromList([[text] for text in texts], shuffle=False)
    (batch,) = tp.BatchData(ds, 2)
    assert batch[0].dtype == object and batch[0].tolist() == texts


def test_what_is_made_of_tuples_is_a_list() -> None:
    pairs = tp.DataFromList([(1, 2)] * 2, shuffle=False)
    made = [
        tp.BatchData(pairs, 2),
        tp.BatchData(pairs, 2, use_list=True),
        tp.BatchDataByShape(pairs, 2, 0),
        tp.MultiProcessMapAndBatchData(pairs, 1, lambda dp: dp, 2),
        tp.JoinData([pairs, pairs]),
    ]
    assert [type(next(iter(ds))) for ds in made] == [list] * 5
    assert type(tp.BatchData.aggregate_batch([(1, 2)])) is list


def test_a_batch_larger_than_the_data_is_refused_with_words() -> None:
    with pytest.raises(ValueError, match="there would be none"):
        tp.BatchData(numbers(3), 4)


def test_batches_by_shape_lose_nothing() -> None:
    ds = tp.DataFromList([[np.zeros(n % 3 + 1)] for n in range(10)], shuffle=False)
    assert sum(len(batch[0]) for batch in tp.BatchDataByShape(ds, 3, 0)) == 10


def test_fixed_size_keeps_its_state() -> None:
    ds = tp.FixedSizeData(numbers(5), 3)
    assert [values(ds) for _ in range(3)] == [[0, 1, 2], [3, 4, 0], [1, 2, 3]]
    again = tp.FixedSizeData(numbers(5), 3, keep_state=False)
    assert [values(again) for _ in range(2)] == [[0, 1, 2]] * 2


def test_repeating_joining_and_selecting() -> None:
    assert values(tp.RepeatedData(numbers(2), 2)) == [0, 1, 0, 1]
    assert values(tp.RepeatedDataPoint(numbers(2), 2)) == [0, 0, 1, 1]
    joined = tp.JoinData([numbers(3), numbers(2)])
    assert list(joined) == [[0, 0], [1, 1]] and len(joined) == 2
    assert list(tp.SelectComponent(joined, [1])) == [[0], [1]]
    named = tp.DataFromList([{"a": 1, "b": 2, "c": 3}])
    assert list(tp.SelectComponent(named, ["c", "a"])) == [[3, 1]]
    assert values(tp.ConcatData([numbers(2), numbers(1)])) == [0, 1, 0]
    assert sorted(values(tp.RandomMixData([numbers(3), numbers(2)]))) == [0, 0, 1, 1, 2]
    chosen = tp.RandomChooseData([(numbers(50), 0.3), (numbers(50), 0.7)])
    assert 50 <= len(list(chosen)) <= 100


@pytest.mark.parametrize("make", [lambda: tp.ConcatData([]), lambda: tp.RepeatedData(numbers(), 0)])
def test_nothing_in_a_row_is_an_empty_flow(make: Any) -> None:
    assert list(make()) == [] and len(make()) == 0


def mapped(count: int) -> tp.MapData:
    return tp.MapData(numbers(count), lambda dp: dp)


@pytest.mark.parametrize("source", [mapped, lambda count: Passing(numbers(count))])
def test_len_goes_through_everything_even_where_it_is_nominal(source: Any) -> None:
    lengths = {
        12: tp.RepeatedData(source(4), 3),
        8: tp.RepeatedDataPoint(source(4), 2),
        9: tp.ConcatData([source(4), numbers(5)]),
        3: tp.JoinData([source(4), source(3)]),
        4: tp.CacheData(source(4), shuffle=True),
        6: tp.LocallyShuffleData(source(3), 2, num_reuse=2),
        7: tp.RandomMixData([source(4), numbers(3)]),
        5: tp.MultiThreadRunner(lambda: source(5), 4, 2),
    }
    for length, ds in lengths.items():
        assert len(ds) == len(list(ds)) == length, type(ds).__name__


@pytest.mark.parametrize(
    "ds",
    [
        Drawing(),
        tp.MapData(Drawing(), lambda dp: dp),
        tp.DataFromGenerator(lambda: [[n] for n in range(6)]),
        tp.RepeatedData(numbers(6), -1),
        tp.RepeatedData(Passing(numbers(6)), -1),
    ],
)
@pytest.mark.parametrize("error", [NotImplementedError, TypeError])
def test_len_where_there_is_none_is_the_error_of_the_original_and_of_python(
    ds: tp.DataFlow, error: type[Exception]
) -> None:
    with pytest.raises(error, match=rf"{type(ds).__name__} .*length"):
        len(ds)
    with pytest.raises(error):
        ds.size()


def test_list_and_bool_need_no_length() -> None:
    for ds in Drawing(), tp.DataFromGenerator(lambda: [[n] for n in range(6)]):
        assert len(list(ds)) == 6 and ds
    assert numbers(1) and not numbers(0)


def test_mixing_gives_everything_once_in_proportion_to_nominal_lengths() -> None:
    few = tp.MapData(numbers(100), lambda dp: [-1])
    mixed = values(tp.RandomMixData([mapped(300), few, mapped(0)]))
    assert [n for n in mixed if n >= 0] == [*range(300)] and mixed.count(-1) == 100
    assert 30 <= mixed[:200].count(-1) <= 70
    with pytest.raises(ValueError, match="length of each"):
        tp.RandomMixData([numbers(3), Drawing()])


class Overstated(tp.DataFlow):
    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Iterator[Any]:
        for n in range(7):
            yield [n]


def test_a_length_that_is_overstated_does_not_move_the_data() -> None:
    ds = tp.FixedSizeData(Overstated(), 4)
    passes = [[0, 1, 2, 3], [4, 5, 6, 0], [1, 2, 3, 4], [5, 6, 0, 1]]
    assert [values(ds) for _ in range(4)] == passes
    repeated = tp.RepeatedData(Overstated(), 2)
    assert values(tp.MultiProcessRunnerZMQ(repeated, 2)) == [*range(7)] * 2
    assert sorted(values(tp.RandomMixData([Overstated(), numbers(2)]))) == sorted([*range(7), 0, 1])


@pytest.mark.parametrize(
    ("source", "size", "expected"),
    [(Overstated, 4, [2, 3, 4, 5]), (Counting, 6, [*range(6)])],
    ids=["overstated", "one pass each"],
)
def test_fixed_size_does_not_read_again_what_it_has_counted(
    source: Any, size: int, expected: list[int]
) -> None:
    read: list[int] = []

    class Reading(source):
        def __iter__(self) -> Iterator[Any]:
            for dp in super().__iter__():
                read.append(dp[0])
                yield dp

    ds = tp.FixedSizeData(Reading(), size)
    for _ in range(19):
        read.clear()
        list(ds)
    assert read == expected


def test_a_guard_lets_one_pass_in_at_a_time() -> None:
    guard = tp.DataFlowReentrantGuard()
    with guard, pytest.raises(threading.ThreadError, match="not reentrant"), guard:
        pass
    with guard:
        pass
    assert issubclass(tp.DataFlowTerminated, BaseException)


def test_local_shuffle_ends_and_has_each_once() -> None:
    ds = tp.LocallyShuffleData(numbers(100), 10)
    first, second = values(ds), values(ds)
    assert sorted(first) == sorted(second) == list(range(100)) and first != second
    assert len(tp.LocallyShuffleData(numbers(10), 5, num_reuse=2)) == 20


def test_an_interrupted_cache_is_not_kept() -> None:
    ds = tp.CacheData(numbers(5))
    next(iter(ds))
    assert values(ds) == values(ds) == [0, 1, 2, 3, 4]


def test_fake_data_has_its_shapes_types_and_domain() -> None:
    ds = tp.FakeData([[3, 2], [1]], 4, dtype=["uint8", "float32"], domain=[(0, 10), (5, 6)])
    points = list(ds)
    assert len(ds) == len(points) == 4
    assert points[0][0].dtype == np.uint8 and points[0][1].shape == (1,)
    assert all(5 <= point[1][0] <= 6 for point in points)
    constant = list(tp.FakeData([[2]], 3, random=False))
    assert np.array_equal(constant[0][0], constant[2][0])


@pytest.mark.parametrize("kind", [tp.MultiThreadMapData, tp.MultiProcessMapData])
@pytest.mark.parametrize("strict", [False, True])
def test_parallel_maps_are_exact_ordered_and_finite(kind: Any, strict: bool) -> None:
    ds = kind(numbers(40), 3, lambda dp: [dp[0] + 1], buffer_size=10, strict=strict)
    assert values(ds) == values(ds) == list(range(1, 41))


def fail(dp: Any) -> Any:
    raise KeyError("no")


@pytest.mark.parametrize("kind", [tp.MultiThreadMapData, tp.MultiProcessMapData])
def test_an_error_in_a_worker_arrives_where_the_original_hangs(kind: Any) -> None:
    with pytest.raises(WorkerError, match="KeyError"):
        list(kind(numbers(40), 3, fail))


def test_an_error_in_a_runner_arrives_where_the_original_hangs() -> None:
    with pytest.raises(WorkerError, match="KeyError"):
        list(tp.MultiProcessRunnerZMQ(tp.MapData(numbers(5), fail), 2))


@pytest.mark.parametrize("processes", [1, 3])
def test_runners_give_each_datapoint_once_and_in_order(processes: int) -> None:
    assert values(tp.MultiProcessRunnerZMQ(numbers(20), processes)) == list(range(20))
    assert values(tp.PrefetchData(Counting(), 8, processes)) == list(range(6))
    assert values(tp.MultiThreadRunner(lambda: numbers(20), 8, processes)) == list(range(20))


def test_map_and_batch_has_a_default_buffer() -> None:
    ds = tp.MultiProcessMapAndBatchData(numbers(9), 2, lambda dp: [dp[0] * 2], 4)
    assert [batch[0].tolist() for batch in ds] == [[0, 2, 4, 6], [8, 10, 12, 14]]


def test_speed_and_printing(capsys: pytest.CaptureFixture[str]) -> None:
    speed = tp.TestDataSpeed(numbers(20), size=10, warmup=2).start()
    assert speed.stages[0].items == 10
    assert capsys.readouterr().out == f"{speed}\n"
    ds = tp.PrintData(tp.DataFromList([[np.zeros((2, 3)), 7]], shuffle=False))
    assert len(list(ds)) == len(list(ds)) == 1
    assert capsys.readouterr().out.count("array float64[2, 3] from 0.0 to 0.0") == 1
