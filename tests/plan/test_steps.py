"""Laws of steps: joining, choosing, ordering and taking keep every operation of every image, in order."""

from __future__ import annotations

import importlib
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.operations import PARAMETERS, Op
from headrace.plan.steps import NONE, Steps


def make_steps(rows: list[list[int]], slots: int) -> Steps:
    """Steps whose parameters tell where they come from."""
    steps = Steps.empty(len(rows), slots)
    for row, codes in enumerate(rows):
        steps.codes[row, : len(codes)] = codes
        steps.params[row, : len(codes), 0] = [1000 * row + place for place in range(len(codes))]
    return steps


def read(steps: Steps) -> list[list[tuple[int, float]]]:
    starts, codes, params = steps.arrays()
    assert starts.dtype == np.int32 and codes.dtype == np.uint8 and params.dtype == np.float64
    assert params.shape == (len(codes), PARAMETERS) and starts[0] == 0 and starts[-1] == len(codes)
    pairs = list(zip(codes.tolist(), params[:, 0].tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]


@st.composite
def batches(draw: st.DrawFn, count: int = 3) -> list[Steps]:
    rows = draw(st.integers(0, 5))
    made = []
    for _ in range(count):
        slots = draw(st.integers(0, 3))
        codes = st.lists(st.integers(NONE, len(Op) - 1), max_size=slots)
        made.append(make_steps([draw(codes) for _ in range(rows)], slots))
    return made


@given(batches())
def test_joined_steps_come_one_after_the_other(parts: list[Steps]) -> None:
    joined = read(Steps.join(parts))
    assert joined == [[*chain(*row)] for row in zip(*map(read, parts), strict=True)]


@given(batches(), st.data())
def test_chosen_steps_are_those_of_one_part(parts: list[Steps], data: st.DataObject) -> None:
    rows = len(parts[0].codes)
    choices = data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    chosen = read(Steps.choose(parts, np.array(choices, np.int64)))
    assert chosen == [read(parts[choice])[row] for row, choice in enumerate(choices)]


@given(batches(), st.data())
def test_ordered_steps_are_all_parts_in_the_order_of_each_image(
    parts: list[Steps], data: st.DataObject
) -> None:
    rows = len(parts[0].codes)
    orders = data.draw(st.lists(st.permutations([0, 1, 2]), min_size=rows, max_size=rows))
    ordered = read(Steps.order(parts, np.array(orders, np.int64).reshape(rows, 3)))
    lists = [read(part) for part in parts]
    assert ordered == [
        [step for part in order for step in lists[part][row]] for row, order in enumerate(orders)
    ]


@given(batches(1), st.data())
def test_steps_stay_where_they_are_kept(parts: list[Steps], data: st.DataObject) -> None:
    rows = len(parts[0].codes)
    kept = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    results = read(parts[0].where(np.array(kept, bool)))
    assert results == [row if keep else [] for row, keep in zip(read(parts[0]), kept, strict=True)]


@given(st.lists(st.integers(NONE, len(Op) - 1), max_size=12), st.sampled_from([1, 2, 3]))
def test_folded_rows_are_the_slots_of_an_image(codes: list[int], slots: int) -> None:
    codes = codes[: len(codes) // slots * slots]
    rows = make_steps([[code] for code in codes], 1)
    alone = read(rows)
    assert read(rows.fold(slots)) == [
        [*chain(*alone[first : first + slots])] for first in range(0, len(codes), slots)
    ]


def test_the_plan_and_the_core_number_operations_alike() -> None:
    """The core's numbers are in `headrace.render.program`."""
    program = pytest.importorskip("headrace.render.program")
    assert {op.name: int(op) for op in Op} == {op.name: int(op) for op in program.Op}
    assert program.PARAMETERS == importlib.import_module("headrace.plan.operations").PARAMETERS
