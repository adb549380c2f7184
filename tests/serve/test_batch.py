"""What a batch knows of itself stays with it, or its loss is noticed."""

from __future__ import annotations

import copy
import pickle
from collections import UserDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from headrace import Loader
from headrace.serve.batch import Batch

ABOUT = ("valid", "rows", "draws", "errors", "epoch", "step", "finished")


class Movable:
    """Anything with `to` and `pin_memory`."""

    def __init__(self, place: str = "host") -> None:
        self.place = place

    def to(self, device: str, **options: Any) -> Movable:
        return Movable(f"{device} {options}" if options else device)

    def pin_memory(self) -> Movable:
        return Movable("pinned")


class Encoding(UserDict[str, Any]):
    """A mapping that moves itself, as tokenizers return it."""

    def to(self, device: str) -> Encoding:
        return Encoding({"place": device})


class Pair(NamedTuple):
    first: Any
    second: Any


def make_batch(*values: Any) -> Batch:
    return Batch(
        values,
        valid=np.array([True, False]),
        rows=np.array([5, 7]),
        draws=np.array([5, 8]),
        errors=(("a", "bad"),),
        epoch=3,
        step=4,
        finished=True,
    )


def assert_same_origin(batch: Any, other: Batch) -> None:
    assert type(batch) is Batch
    for name in ABOUT:
        assert np.array_equal(getattr(batch, name), getattr(other, name)), name


def test_moving_keeps_everything_and_reaches_every_tensor() -> None:
    nested = {"a": [Movable(), ("text", Pair(Movable(), 1))]}
    batch = make_batch(Movable(), nested, np.arange(2), None)
    moved = batch.to("cuda:1")
    assert_same_origin(moved, batch)
    first, second, array, nothing = moved
    inner = second["a"][1][1]
    assert [value.place for value in (first, second["a"][0], inner.first)] == ["cuda:1"] * 3
    assert type(inner) is Pair and inner.second == 1 and second["a"][1][0] == "text"
    assert array is batch[2] and nothing is None
    assert batch[0].place == "host"


def test_copies_may_go_on_after_the_call() -> None:
    batch = make_batch(Movable(), Encoding())
    assert batch.to(device="gpu")[1]["place"] == "gpu"
    assert make_batch(Movable()).to("gpu", non_blocking=True)[0].place == (
        "gpu {'non_blocking': True}"
    )


def test_pinning_keeps_everything() -> None:
    batch = make_batch(Movable(), [Movable()], "text")
    pinned = batch.pin_memory()
    assert_same_origin(pinned, batch)
    assert (pinned[0].place, pinned[1][0].place, pinned[2]) == ("pinned", "pinned", "text")


def test_tensors_are_moved(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader as TorchLoader

    batch = next(iter(TorchLoader(packed, 4, fields=("label", "key"))))
    moved = batch.to("meta")
    assert (moved[0].device, moved[1]) == (torch.device("meta"), batch[1])
    assert_same_origin(moved, batch)


@pytest.mark.parametrize("name", ABOUT)
def test_a_batch_that_was_rebuilt_from_its_values_says_what_is_lost(name: str) -> None:
    batch = make_batch(1, 2)
    rebuilt = type(batch)(value for value in batch)
    assert tuple(rebuilt) == (1, 2)
    for lost in (
        rebuilt,
        pickle.loads(pickle.dumps(rebuilt)),
        rebuilt.replace((3,)),
        rebuilt.to(0),
    ):
        with pytest.raises(RuntimeError, match=rf"batch.{name} is lost: .*batch\.to\(device\)"):
            getattr(lost, name, None)


def test_a_batch_has_no_other_attributes() -> None:
    assert not hasattr(make_batch(), "_fields") and not hasattr(Batch(()), "size")


def test_copies_and_pickles_keep_everything() -> None:
    batch = make_batch(1, "b")
    for again in (copy.copy(batch), copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        assert again == batch
        assert_same_origin(again, batch)


def test_a_part_of_a_batch_knows_its_samples() -> None:
    part = make_batch(1, 2).take(np.array([1]))
    assert (part.rows.tolist(), part.valid.tolist(), part.step) == ([7], [False], 4)


def test_a_batch_of_a_loader_has_nothing_lost(packed: Path) -> None:
    batch = next(iter(Loader(packed, 4, fields=("label",))))
    assert [hasattr(batch, name) for name in ABOUT] == [True] * len(ABOUT)


def test_what_the_user_sets_on_a_batch_moves_with_it() -> None:
    flags, rows = np.ones(1, np.bool_), np.zeros(1, np.int64)
    batch = Batch((rows,), valid=flags, rows=rows, draws=rows, step=3)
    batch.note = 1  # type: ignore[attr-defined]
    for moved in (batch.to("cpu"), batch.replace(()), pickle.loads(pickle.dumps(batch))):
        assert moved.note == 1 and moved.step == batch.step
    rebuilt = Batch(tuple(batch))
    rebuilt.valid = batch.valid
    assert rebuilt.to("cpu").valid is batch.valid
