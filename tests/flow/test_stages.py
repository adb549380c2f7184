"""Every stage that does its work in the consumer keeps the contract; then what is its own."""

from __future__ import annotations

import json
import math
import pickle
from collections import Counter, namedtuple
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flow.functions import fail_on_threes, is_even, pair, record, shaped, square
from headrace import Flow
from headrace.errors import SourceError, WorkerError
from headrace.testing.flow_contract import COUNT, FlowContract, read
from headrace.work.seeding import item_rng

Sizes = st.integers(0, 60)


class TestOf(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source)

    def expect(self) -> list[Any]:
        return list(range(COUNT))


class TestMap(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(square)

    def expect(self) -> list[Any]:
        return [n * n for n in range(COUNT)]


class TestMapThatSkips(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(fail_on_threes, on_error="skip")

    def expect(self) -> list[Any]:
        return [n for n in range(COUNT) if n % 3]


class TestBatchesOfMapThatSkips(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(fail_on_threes, on_error="skip").shuffle(4).batch(3)

    def expect(self) -> list[Any]:
        kept = [n for n in range(COUNT) if n % 3]
        return read(Flow.of(kept).map(int).shuffle(4).batch(3))


class TestMapField(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(pair).map_field(square, 1)

    def expect(self) -> list[Any]:
        return [[n, n * n] for n in range(COUNT)]


class TestSelect(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(record).select("b")

    def expect(self) -> list[Any]:
        return [{"b": -n} for n in range(COUNT)]


class TestFilter(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).filter(is_even)

    def expect(self) -> list[Any]:
        return list(range(0, COUNT, 2))


class TestShuffle(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).shuffle(5, seed=7)

    def expect(self) -> list[Any]:
        return read(Flow.of(list(range(COUNT))).shuffle(5, seed=7))


class TestShuffleAll(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).shuffle(seed=7)

    def expect(self) -> list[Any]:
        return read(Flow.of(list(range(COUNT))).shuffle(1000, seed=7))


class TestShard(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).shard(1, 4)

    def expect(self) -> list[Any]:
        return list(range(1, COUNT, 4))


class TestTake(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).take(12)

    def expect(self) -> list[Any]:
        return list(range(12))


class TestRepeat(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).repeat(3)

    def expect(self) -> list[Any]:
        return list(range(COUNT)) * 3


class TestRepeatOfUnknownLength(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).filter(is_even).repeat(2)

    def expect(self) -> list[Any]:
        return list(range(0, COUNT, 2)) * 2


class TestCache(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).cache()

    def expect(self) -> list[Any]:
        return list(range(COUNT))


class TestFixedSize(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).fixed_size(30)

    def expect(self) -> list[Any]:
        return (list(range(COUNT)) * 2)[:30]

    def test_an_empty_input_ends(self) -> None:
        with pytest.raises(ValueError, match="needs items"):
            read(self.make([]))


class TestBatch(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).batch(4)

    def expect(self) -> list[Any]:
        return [list(range(COUNT))[i : i + 4] for i in range(0, COUNT, 4)]


class TestBatchWithoutRemainder(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(pair).batch(4, remainder=False)

    def expect(self) -> list[Any]:
        rows = [list(range(i, i + 4)) for i in range(0, COUNT - 3, 4)]
        return [[row, [-n for n in row]] for row in rows]


class TestBatchByShape(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(shaped).batch_by_shape(3)

    def expect(self) -> list[Any]:
        full = [
            [[k + r] * (r + 1) for k in (9 * g, 9 * g + 3, 9 * g + 6)]
            for g in range(2)
            for r in range(3)
        ]
        return [*full, [[18], [21]], [[19] * 2, [22] * 2], [[20] * 3]]


class TestUnbatch(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(pair).batch(4).unbatch()

    def expect(self) -> list[Any]:
        return [[n, -n] for n in range(COUNT)]


class TestConcat(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).concat(Flow.of(range(5)), Flow.of([]))

    def expect(self) -> list[Any]:
        return [*range(COUNT), *range(5)]

    def expect_of_nothing(self) -> list[Any]:
        return list(range(5))


class TestZip(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).zip(Flow.of(range(100, 112)))

    def expect(self) -> list[Any]:
        return [[n, 100 + n] for n in range(12)]


class TestJoin(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(pair).join(Flow.of(range(100)).map(pair))

    def expect(self) -> list[Any]:
        return [[n, -n, n, -n] for n in range(COUNT)]


class TestMix(FlowContract):
    ordered = False  # random turns, which the tests below look at

    def make(self, source: Any) -> Flow:
        return Flow.of(source).mix(Flow.of(range(100, 110)), weights=[1, 3], seed=2)

    def expect(self) -> list[Any]:
        return [*range(COUNT), *range(100, 110)]

    def expect_of_nothing(self) -> list[Any]:
        return list(range(100, 110))


class TestChoose(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).choose(Flow.of(range(100, 200)), weights=[3, 1], seed=2)

    def expect(self) -> list[Any]:
        return read(
            Flow.of(list(range(COUNT))).choose(Flow.of(range(100, 200)), weights=[3, 1], seed=2)
        )

    def expect_of_nothing(self) -> list[Any]:
        return [100]  # of the other flow, until the empty one is drawn


@given(
    count=Sizes, window=st.integers(1, 80), seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 9)
)
def test_shuffle_is_a_permutation_that_moves_less_than_the_window(
    count: int, window: int, seed: int, epoch: int
) -> None:
    flow = Flow.of(range(count)).shuffle(window, seed)
    flow.set_epoch(epoch)
    items = list(flow)
    assert sorted(items) == list(range(count))
    assert all(abs(place - item) < window for place, item in enumerate(items))


@given(count=Sizes, window=st.integers(1, 30), start=st.integers(0, 70), step=st.integers(1, 4))
def test_shuffle_begins_anywhere(count: int, window: int, start: int, step: int) -> None:
    flow = Flow.of(lambda: iter(range(count))).shuffle(window, seed=1)
    whole = list(flow)
    flow.load_state_dict({**flow.state_dict(), "position": start})
    assert list(flow) == whole[start:]
    assert list(flow.shard(0, step)) == whole[::step]


@pytest.mark.parametrize("batch", [Flow.batch, Flow.batch_by_shape])
def test_a_stack_that_says_neither_yes_nor_how_is_refused(batch: Any) -> None:
    with pytest.raises(TypeError, match="stack must be True, False or a function .* not 'x'"):
        batch(Flow.of(range(4)), 2, stack="x")


def test_an_endless_flow_is_shuffled_within_a_window_only() -> None:
    endless = Flow.of(range(10)).repeat()
    assert len(list(endless.shuffle(5).take(30))) == 30
    with pytest.raises(ValueError, match=r"endless flow needs a window, as in shuffle\(10_000\)"):
        endless.shuffle()


def test_two_shuffles_of_one_seed_are_independent() -> None:
    once, twice = Flow.of(range(50)).shuffle(), Flow.of(range(50)).shuffle().shuffle()
    order = list(once)
    assert list(twice) != [order[n] for n in order]
    assert sorted(twice) == list(range(50))


def draw_bit(bits: list[bool]) -> list[bool]:
    return [*bits, bool(item_rng().random() < 0.5)]


@pytest.mark.parametrize("workers", [0, 1])
def test_stages_draw_numbers_of_their_own(workers: int) -> None:
    flow = Flow.of([[]] * 200).map(draw_bit, workers, "threads").map(draw_bit)
    found = list(flow)
    assert {tuple(bits) for bits in found} == {(a, b) for a in (False, True) for b in (False, True)}
    first = [bits[:1] for bits in found]
    assert first == list(Flow.of([[]] * 200).map(draw_bit)), (
        "what is added changes nothing before it"
    )
    assert found == list(flow.in_process(2, start="fork"))


def test_a_flow_inside_a_function_leaves_its_randomness_alone() -> None:
    def nested(n: int) -> float:
        list(Flow.of(range(2)).map(abs))
        return item_rng().random()

    alone = list(Flow.of(range(4)).map(lambda n: item_rng().random()))
    assert list(Flow.of(range(4)).map(nested)) == alone and len(set(alone)) == 4
    with pytest.raises(RuntimeError, match="no current item"):
        item_rng()


def test_a_filter_draws_and_fails_like_a_map() -> None:
    kept = [list(Flow.of(range(99)).filter(lambda n: item_rng().random() < 0.5)) for _ in "ab"]
    assert kept[0] == kept[1] and 20 < len(kept[0]) < 80
    with pytest.raises(WorkerError, match="failed on item 2: StopIteration") as caught:
        list(Flow.of(range(9)).filter(lambda n: next(iter([True] * (2 - n)))))
    assert caught.value.position == 2


@pytest.mark.parametrize(
    "flow",
    [
        Flow.of(iter(range(9))),
        Flow.of({"a", "b"}),
        Flow.of(frozenset("ab")).map(str),
        Flow.of(range(9)).map(square, 2, "threads", ordered=False),
    ],
)
def test_what_cannot_be_repeated_is_not_shared_out(flow: Flow) -> None:
    with pytest.raises(ValueError, match="cannot be shared out among processes"):
        flow.in_process(2)


def test_a_set_is_read_but_not_resumed() -> None:
    flow = Flow.of({1, 2})
    assert sorted(flow) == [1, 2] and list(Flow.of({1: 2}.keys()).in_process(2)) == [1]
    with pytest.raises(ValueError, match=r"of\(set\): a set has a different order .*; sort it"):
        flow.state_dict()


def test_shuffle_differs_between_epochs_and_seeds() -> None:
    flow = Flow.of(range(50)).shuffle(20, seed=1)
    first = list(flow)
    flow.set_epoch(1)
    assert list(flow) != first != list(Flow.of(range(50)).shuffle(20, seed=2))


def test_a_window_as_long_as_the_flow_makes_every_order_equally_likely() -> None:
    firsts = np.zeros(4, int)
    for seed in range(2000):
        firsts[next(iter(Flow.of(range(4)).shuffle(4, seed)))] += 1
    assert firsts.min() > 430 and firsts.max() < 570  # 500 each, 5 standard deviations are 97


@given(count=Sizes, size=st.integers(1, 20), remainder=st.booleans(), start=st.integers(0, 8))
def test_batches_are_consecutive_items_and_their_number_is_exact(
    count: int, size: int, remainder: bool, start: int
) -> None:
    flow = Flow.of(range(count)).batch(size, remainder=remainder)
    batches = read(flow)
    whole = count if remainder else count - count % size
    assert list(chain.from_iterable(batches)) == list(range(whole))
    assert [len(batch) for batch in batches[:-1]] == [size] * max(0, len(batches) - 1)
    assert len(flow) == len(batches)
    flow.load_state_dict({**flow.state_dict(), "position": start})
    assert read(flow) == batches[start:]


@given(count=Sizes, world=st.integers(1, 9))
def test_shards_are_a_partition_with_exact_lengths(count: int, world: int) -> None:
    shards = [Flow.of(range(count)).map(square).shard(rank, world) for rank in range(world)]
    assert sorted(chain.from_iterable(map(read, shards))) == [n * n for n in range(count)]
    assert [len(shard) for shard in shards] == [len(read(shard)) for shard in shards]


def test_a_shard_computes_only_its_own_items() -> None:
    seen: list[int] = []
    assert list(Flow.of(range(9)).map(seen.append).shard(1, 3)) == [None] * 3
    assert seen == [1, 4, 7]


def test_resuming_does_not_compute_what_was_given() -> None:
    seen: list[int] = []
    flow = Flow.of(range(20)).map(seen.append).batch(4, stack=False)
    flow.load_state_dict({**flow.state_dict(), "position": 3})
    list(flow)
    assert seen == list(range(12, 20))


def test_batch_keeps_dtypes_and_leaves_text_alone() -> None:
    items = [(np.float32(1), True, 2, "a", b"x", np.zeros(2, np.uint8)) for _ in range(3)]
    floats, flags, numbers, texts, blobs, arrays = next(iter(Flow.of(items).batch(3)))
    assert (floats.dtype, flags.dtype, numbers.dtype) == (np.float32, np.bool_, np.int64)
    assert (texts, blobs) == (["a"] * 3, [b"x"] * 3)
    assert (arrays.dtype, arrays.shape) == (np.uint8, (3, 2))


def test_a_batch_of_tensors_is_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    (batch,) = Flow.of([torch.ones(2), torch.zeros(2)]).batch(2)
    assert isinstance(batch, torch.Tensor) and batch.tolist() == [[1, 1], [0, 0]]


def test_batch_of_named_tuples_and_dicts_keeps_the_kind() -> None:
    point = namedtuple("point", "x y")
    assert next(iter(Flow.of([point(1, 2)]).batch(1)))._fields == ("x", "y")
    assert list(next(iter(Flow.of([{"x": 1}]).batch(1)))) == ["x"]


def test_batch_of_dicts_with_other_fields_is_an_error() -> None:
    for items in ([{"a": 1}, {"a": 2, "b": 3}], [{"a": 2, "b": 3}, {"a": 1}]):
        with pytest.raises(ValueError, match=r"different fields: .*\['a', 'b'\]"):
            list(Flow.of(items).batch(2))


def test_batch_makes_no_text_of_numbers() -> None:
    assert list(Flow.of([1, "a"]).batch(2)) == [[1, "a"]]


@pytest.mark.parametrize(
    "ids",
    [
        [0xDEADBEEFDEADBEEF, 0x1234567812345677],
        [np.uint64(2**63 + 1), np.int64(2**62 + 1)],
        [np.array([2**63 + 1], np.uint64), np.array([2**62 + 1])],
    ],
    ids=["int", "scalars", "arrays"],
)
def test_batch_rounds_no_integers(ids: list[Any]) -> None:
    (batch,) = Flow.of(ids).batch(2)
    assert batch.dtype == np.uint64
    assert [int(n) for n in batch.ravel()] == [int(n) for n in np.ravel(np.array(ids, object))]


@pytest.mark.parametrize("numbers", [[-1, 2**63 + 1], [2**64, 1], [np.int64(-1), np.uint64(1)]])
def test_integers_without_a_common_dtype_stay_a_list(numbers: list[Any]) -> None:
    assert list(Flow.of(numbers).batch(2)) == [numbers]


@pytest.mark.parametrize("turn", [1, -1])
def test_batch_keeps_masks(turn: int) -> None:
    items = [np.ma.array([1, 2], mask=[True, False]), np.array([3, 4])][::turn]
    (batch,) = Flow.of(items).batch(2)
    assert batch.tolist() == [[None, 2], [3, 4]][::turn]
    assert batch.dtype == np.int64


@pytest.mark.parametrize("odd", [None, {1}, "a"])
def test_a_batch_with_something_else_than_numbers_is_a_list_in_any_order(odd: Any) -> None:
    assert list(Flow.of([(1, odd), (odd, 1)]).batch(2)) == [([1, odd], [odd, 1])]


def test_a_batch_with_something_else_than_tensors_is_a_list() -> None:
    torch = pytest.importorskip("torch")
    assert list(Flow.of([torch.tensor(1), None]).batch(2)) == [[torch.tensor(1), None]]


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"a": 1}, {"a": 2}, 3], "item 0 is of type dict, item 2 of type int"),
        ([(1, 2), 3], "item 0 is of type tuple, item 1 of type int"),
        ([3, [1, 2]], "item 0 is of type int, item 1 of type list"),
        ([None, {"a": 1}], "item 0 is of type NoneType, item 1 of type dict"),
    ],
)
def test_batch_of_items_of_different_kinds_names_them(items: list[Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"items of one batch have different structures: {words}"):
        list(Flow.of(items).batch(len(items)))


def test_batch_of_unequal_shapes_says_which_field() -> None:
    flow = Flow.of([[np.zeros(2)], [np.zeros(3)]]).batch(2)
    with pytest.raises(ValueError, match=r"shapes of field 0 in one batch: \(2,\), \(3,\)"):
        list(flow)
    assert [len(x[0]) for x in Flow.of([[np.zeros(2)], [np.zeros(3)]]).batch(2, stack=False)] == [2]


@pytest.mark.parametrize("lengths", [(3, 1), (2, 2)])
def test_unbatch_gives_back_arrays_that_were_not_stacked(lengths: tuple[int, ...]) -> None:
    arrays = [np.arange(length) for length in lengths]
    flow = Flow.of(arrays).batch(2, stack=False)
    assert all(isinstance(batch, list) for batch in flow)
    for batches in (flow, flow.in_process(start="spawn")):
        assert read(batches.unbatch()) == [list(range(length)) for length in lengths]


@pytest.mark.parametrize("name", ["saved", "saved.lmdb"])
def test_a_batch_of_arrays_that_were_not_stacked_is_saved_as_a_list(
    tmp_path: Path, name: str
) -> None:
    Flow.of([np.arange(3), np.arange(1)]).batch(2, stack=False).save(tmp_path / name)
    assert read(Flow.load(tmp_path / name)) == [[[0, 1, 2], [0]]]


def test_unbatch_gives_back_tensors_that_were_not_stacked() -> None:
    torch = pytest.importorskip("torch")
    flow = Flow.of([torch.arange(3), torch.arange(1)]).batch(2, stack=False).unbatch()
    assert [tensor.tolist() for tensor in flow] == [[0, 1, 2], [0]]


@pytest.mark.parametrize("batch", [{"a": [1, 2], "b": [3]}, (np.arange(2), [3])])
def test_unbatch_refuses_fields_of_different_lengths(batch: Any) -> None:
    with pytest.raises(ValueError, match=r"fields of one length, not \[2, 1\]"):
        list(Flow.of([batch]).unbatch())


def test_a_function_may_do_the_stacking() -> None:
    assert list(Flow.of(range(4)).batch(2, stack=sum)) == [1, 5]


def test_mix_without_weights_needs_lengths_and_mixes_all() -> None:
    flow = Flow.of(range(500)).mix(Flow.of(range(500, 1000)), seed=4)
    assert sorted(flow) == list(range(1000))
    assert 200 < sum(n < 500 for n in list(flow)[:500]) < 300
    with pytest.raises(ValueError, match="mix needs weights"):
        Flow.of(range(5)).mix(Flow.of(range(5)).filter(is_even))


def test_mix_without_weights_makes_every_interleaving_equally_likely() -> None:
    flows = (Flow.of("aa").mix(Flow.of("bb"), seed=seed) for seed in range(1200))
    counts = Counter("".join(flow) for flow in flows)
    assert len(counts) == 6
    assert min(counts.values()) > 135 and max(counts.values()) < 265  # 200 each, 5 sigma are 65


@pytest.mark.parametrize("method", ["mix", "choose"])
def test_the_turns_of_flows_differ_between_epochs(method: str) -> None:
    flow = getattr(Flow.of("a" * 50), method)(Flow.of("b" * 50), seed=1)
    first = "".join(flow)
    flow.set_epoch(1)
    assert "".join(flow) != first


def test_choose_follows_the_weights_and_stops_when_one_ends() -> None:
    flow = Flow.of([0]).repeat().choose(Flow.of([1]).repeat(), weights=[1, 3], seed=5)
    assert flow.length() == math.inf
    assert 2800 < sum(flow.take(4000)) < 3200


@pytest.mark.parametrize("position", [0, 5])
def test_a_filled_cache_is_resumed_by_an_empty_one(position: int) -> None:
    filled, empty = (Flow.of(range(10)).shuffle(seed=1).cache() for _ in range(2))
    whole = list(filled)
    filled.set_epoch(1)
    begun = iter(filled)
    assert [next(begun) for _ in range(position)] == whole[:position]
    empty.load_state_dict(filled.state_dict())
    assert list(begun) == list(empty) == whole[position:]


def test_fixed_size_of_an_unknown_length_reads_no_epoch_twice() -> None:
    read: list[int] = []

    def read_seven() -> Iterator[int]:
        for n in range(7):
            read.append(n)
            yield n

    flow = Flow.of(read_seven).fixed_size(4).prefetch(1)  # which does not keep the input open
    for epoch in range(20):
        flow.set_epoch(epoch)
        read.clear()
        assert list(flow) == [n % 7 for n in range(4 * epoch, 4 * epoch + 4)]
    assert read == [*range(7), 0, 1, 2]


def test_fixed_size_goes_on_where_the_epoch_before_stopped() -> None:
    flow = Flow.of(range(5)).fixed_size(3)
    epochs = []
    for epoch in range(4):
        flow.set_epoch(epoch)
        epochs.append(list(flow))
    assert epochs == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]


def test_fixed_size_reads_an_endless_input_once() -> None:
    source = count()
    flow = Flow.of(lambda: source).fixed_size(4)  # what were made again would be lost
    for epoch in range(3):
        flow.set_epoch(epoch)
        assert list(flow) == [*range(4 * epoch, 4 * epoch + 4)]


def test_fixed_size_goes_on_with_its_input_only_where_it_stopped() -> None:
    flow = Flow.of(range(50)).filter(is_even).fixed_size(4)
    list(flow)
    flow.set_epoch(1)
    begun = iter(flow)
    assert [next(begun), *flow, *begun] == [8, 8, 10, 12, 14, 10, 12, 14]
    assert list(flow) == [8, 10, 12, 14]
    flow.load_state_dict({**flow.state_dict(), "epoch": 2, "position": 1})
    assert list(flow) == [18, 20, 22]
    flow.set_epoch(3)
    assert list(pickle.loads(pickle.dumps(flow))) == list(flow) == [24, 26, 28, 30]
    flow.set_epoch(4)
    (other,) = Flow.of([0]).map(lambda n: list(flow), 1, start="fork")
    assert other == list(flow) == [32, 34, 36, 38]


def test_fixed_size_keeps_its_input_open_until_it_is_dropped() -> None:
    closed: list[int] = []

    def give() -> Iterator[int]:
        try:
            yield from range(50)
        finally:
            closed.append(len(closed))

    flow = Flow.of(give).fixed_size(4)
    list(flow)
    assert closed == []
    list(flow)  # the first epoch again: what was open waits for the second
    assert closed == [0]
    del flow
    assert closed == [0, 1]


@pytest.mark.parametrize("kind", ["known", "unknown", "endless", "endless that cannot seek"])
def test_an_endless_repeat_of_fixed_size_is_one_of_its_input_in_every_epoch(kind: str) -> None:
    flow = Flow.of(range(10)).shuffle(seed=1)
    flow = {
        "known": flow,
        "unknown": flow.filter(is_even),
        "endless": flow.repeat(),
        "endless that cannot seek": flow.repeat().choose(flow.repeat()),
    }[kind]
    three_epochs = flow.fixed_size(4).repeat().take(23).repeat(3)
    assert list(three_epochs) == list(flow.repeat().take(23).repeat(3))


def keep_first_of_four(*, kept: int) -> Flow:
    """Epochs of one item or none."""
    return Flow.of(range(4)).shuffle(seed=1).take(1).filter(lambda n: n == kept)


def test_an_empty_epoch_does_not_end_a_repetition() -> None:
    flow = keep_first_of_four(kept=0)
    epochs = []
    for epoch in range(12):
        flow.set_epoch(epoch)
        epochs.append(list(flow))
    assert epochs[0] == [] and len(list(flow.repeat(12))) == sum(map(len, epochs)) >= 2
    assert list(flow.repeat().take(2)) == list(flow.fixed_size(2)) == [0, 0]


@pytest.mark.parametrize("method", ["repeat", "fixed_size"])
def test_an_endless_repetition_of_nothing_is_an_error(method: str) -> None:
    flow = keep_first_of_four(kept=4)
    endless = flow.repeat() if method == "repeat" else flow.fixed_size(2)
    with pytest.raises(ValueError, match="1000 epochs in a row without items"):
        list(endless)
    assert list(flow.repeat(2000)) == list(Flow.of([]).repeat()) == []


def test_fixed_size_remembers_empty_epochs() -> None:
    flow = keep_first_of_four(kept=0).map(lambda n: n + 5).fixed_size(2)
    for epoch in (0, 1, 2, 1):
        flow.set_epoch(epoch)
        assert list(flow) == [5, 5]


def test_repeat_gives_each_repetition_its_own_order() -> None:
    items = list(Flow.of(range(20)).shuffle(seed=1).repeat(2))
    assert items[:20] != items[20:] and sorted(items[:20]) == sorted(items[20:])


def test_endless_repetitions_inside_each_other_have_an_order_in_every_epoch() -> None:
    flow = Flow.of(range(10)).shuffle().repeat().take(10).repeat().take(20)
    orders = set()
    for epoch in range(3):
        flow.set_epoch(epoch)
        items = list(flow)
        orders |= {tuple(items[:10]), tuple(items[10:])}
    assert len(orders) == 6


def test_an_endless_flow_says_so() -> None:
    flow = Flow.of(range(3)).repeat()
    assert flow.describe().rows[-1].length == "endless"
    assert list(flow.take(7)) == [0, 1, 2, 0, 1, 2, 0]


def test_an_interrupted_pass_is_not_cached() -> None:
    seen: list[int] = []
    flow = Flow.of(range(5)).map(lambda n: seen.append(n) or n).cache()
    next(iter(flow))
    assert list(flow) == list(flow) == list(range(5))
    assert seen == [0, 0, 1, 2, 3, 4]


def test_an_iterator_is_read_once_and_then_refused() -> None:
    flow = Flow.of(iter(range(3)))
    assert list(flow) == [0, 1, 2]
    with pytest.raises(SourceError, match="was already read"):
        list(flow)
    with pytest.raises(ValueError, match=r"cannot be resumed: of\(range_iterator\)"):
        flow.state_dict()


def test_an_iterator_that_was_read_in_another_process_is_refused_here() -> None:
    flow = Flow.of(iter(range(3))).in_process(start="fork")
    assert list(flow.in_process(start="fork")) == [0, 1, 2]
    for again in (flow, flow.in_process(start="fork")):
        with pytest.raises(SourceError, match="was already read"):
            list(again)


def test_a_source_that_lies_about_its_length_is_found_out() -> None:
    class Liar:
        def __len__(self) -> int:
            return 5

        def __iter__(self) -> Any:
            return iter(range(3))

    with pytest.raises(SourceError, match="states a length of 5 but yielded 3"):
        list(Flow.of(Liar()))


def test_a_state_of_another_flow_is_refused() -> None:
    state = Flow.of(range(3)).batch(2).state_dict()
    with pytest.raises(ValueError, match="belongs to another flow"):
        Flow.of(range(3)).load_state_dict(state)


@pytest.mark.parametrize("wrong", [{"position": -1}, {"epoch": -1}, {"position": 1.5}])
def test_a_state_with_impossible_numbers_is_refused(wrong: Any) -> None:
    flow = Flow.of(range(3))
    with pytest.raises(ValueError, match="must be an integer of at least 0"):
        flow.load_state_dict({**flow.state_dict(), **wrong})


def test_counts_may_be_numpys_integers() -> None:
    two = np.int64(2)
    flow = Flow.of(range(40)).shuffle(two, seed=two).shard(two - 2, two).map(square, two, "threads")
    flow = flow.take(two * 8).fixed_size(two * 6).repeat(two).batch(two).prefetch(two)
    flow.set_epoch(two)
    assert len(list(flow)) == len(flow) == 12
    assert json.loads(json.dumps(flow.state_dict()))["epoch"] == 2
    flow.load_state_dict({**flow.state_dict(), "position": two})
    assert json.loads(json.dumps(flow.state_dict()))["position"] == 2
    assert len(list(Flow.of(range(4)).in_process(two, buffer=two))) == 4
    assert read(Flow.of([[1, 2]]).map_field(square, two - 1)) == [[1, 4]]


@pytest.mark.parametrize("wrong", [True, np.True_, 2.0, np.float64(2), "2", None])
def test_counts_are_whole_numbers(wrong: Any) -> None:
    with pytest.raises(ValueError, match="count must be an integer of at least 0"):
        Flow.of(range(3)).take(wrong)


def test_set_epoch_after_loading_keeps_the_position_of_that_epoch_only() -> None:
    flow = Flow.of(range(6))
    flow.load_state_dict({**flow.state_dict(), "epoch": 2, "position": 4})
    flow.set_epoch(2)
    assert list(flow) == [4, 5]
    flow.set_epoch(3)
    assert len(list(flow)) == 6


def test_a_loaded_position_is_the_beginning_of_one_pass_only() -> None:
    flow = Flow.of(range(6))
    flow.load_state_dict({**flow.state_dict(), "position": 4})
    assert list(flow) == [4, 5]
    assert list(flow) == list(range(6))


def test_the_state_after_loading_is_the_loaded_one() -> None:
    flow = Flow.of(range(6))
    state = {**flow.state_dict(), "epoch": 2, "position": 4}
    flow.load_state_dict(state)
    assert flow.state_dict() == state


def test_join_refuses_dicts_that_share_a_key() -> None:
    with pytest.raises(ValueError, match="share a key"):
        list(Flow.of([{"a": 1}]).join(Flow.of([{"a": 2}])))


def test_join_of_tuples_is_a_tuple() -> None:
    assert list(Flow.of([(1, 2)]).join(Flow.of([(3,)]))) == [(1, 2, 3)]


def test_map_field_leaves_the_item_as_it_was() -> None:
    item = [1, 2]
    assert list(Flow.of([item]).map_field(square, 1)) == [[1, 4]]
    assert item == [1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda flow: flow.batch(0),
        lambda flow: flow.shuffle(0),
        lambda flow: flow.shuffle(seed=-1),
        lambda flow: flow.shard(3, 3),
        lambda flow: flow.take(-1),
        lambda flow: flow.map(square, kind="magic"),
        lambda flow: flow.map(square, on_error="ignore"),
        lambda flow: flow.map(square, workers=2, buffer=1),
        lambda flow: flow.map(square, start="teleport"),
        lambda flow: flow.mix(flow, weights=[1]),
        lambda flow: flow.choose(flow, weights=[1, -1]),
        lambda flow: flow.choose(flow, weights=[1, 0]),
    ],
)
def test_a_wrong_argument_is_refused_when_the_flow_is_built(make: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make(Flow.of(range(3)))


@pytest.mark.parametrize("method", ["concat", "zip", "join", "interleave", "mix", "choose"])
def test_what_is_no_flow_cannot_be_combined(method: str) -> None:
    with pytest.raises(TypeError, match=r"not a flow: list; wrap it in Flow\.of\(\.\.\.\)"):
        getattr(Flow.of(range(3)), method)([1, 2, 3])


def test_an_inline_error_has_the_position_and_the_cause() -> None:
    with pytest.raises(WorkerError, match="failed on item 2: ZeroDivisionError") as caught:
        list(Flow.of([2, 1, 0]).map(lambda n: 1 // n))
    assert caught.value.position == 2
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
