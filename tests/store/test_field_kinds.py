"""Kinds are joined in any order, and come back from JSON as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptError
from headrace.kinds import Boxes, Image, Kind, Map, Mask, Points, Text
from headrace.store.field_kinds import join_kinds, read_kinds, write_kinds

OF = st.none() | st.sampled_from(["d1", "left"])
COLUMNS = st.lists(st.sampled_from(["labels", "area", "iscrowd"]), unique=True).map(sorted)
KIND = st.one_of(
    st.none(),
    st.sampled_from([Image(), Image("rgb"), Text()]),
    st.builds(Mask, of=OF, fill=st.integers(0, 255), rgb_ids=st.booleans()),
    st.builds(Map, of=OF, scale=st.sampled_from(["none", "x", "xy"]), divisor=st.just(256.0)),
    st.builds(Points, of=OF),
    st.builds(Boxes, of=OF, columns=COLUMNS.map(tuple)),
)
KINDS = st.dictionaries(st.sampled_from(["a.png", "b.npy", "boxes"]), KIND)


def join(*found: dict[str, Kind | None]) -> dict[str, Kind | None]:
    known: dict[str, Kind | None] = {}
    for kinds in found:
        join_kinds(known, kinds)
    return known


@given(KINDS, KINDS, KINDS)
def test_joining_does_not_depend_on_order_or_grouping(
    a: dict[str, Kind | None], b: dict[str, Kind | None], c: dict[str, Kind | None]
) -> None:
    assert join(a, b, c) == join(c, a, b) == join(a, join(b, c))


@given(KINDS)
def test_kinds_come_back_from_json(kinds: dict[str, Kind | None]) -> None:
    text = json.dumps(write_kinds(kinds))
    assert read_kinds(json.loads(text), optional=True) == kinds


def test_boxes_keep_the_columns_that_all_samples_have() -> None:
    boxes = Boxes(columns=("labels", "area"))
    assert join({"boxes": boxes}, {"boxes": replace(boxes, columns=("area", "iscrowd"))}) == {
        "boxes": Boxes(columns=("area",))
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "field_kinds is list, not dict"),
        ({"a": None}, "kind of 'a' is NoneType, not dict"),
        ({"a": {}}, "kind is None"),
        ({"a": {"kind": []}}, "unhashable|kind is"),
        ({"a": {"kind": "sound"}}, "kind is 'sound'"),
        ({"a": {"kind": "mask", "colour": 3}}, "mask has no option 'colour'"),
        ({"a": {"kind": "mask", "of": 3}}, "has the of 3"),
        ({"a": {"kind": "mask", "fill": "0"}}, "has the fill '0'"),
        ({"a": {"kind": "mask", "fill": True}}, "has the fill True"),
        ({"a": {"kind": "mask", "rgb_ids": 1}}, "has the rgb_ids 1"),
        ({"a": {"kind": "map", "divisor": 0}}, "divisor is 0"),
        ({"a": {"kind": "map", "scale": ["x"]}}, "scale must be one of"),
        ({"a": {"kind": "boxes", "columns": "labels"}}, "has the columns 'labels'"),
        ({"a": {"kind": "boxes", "columns": [3]}}, r"has the columns \[3\]"),
    ],
)
def test_anything_else_is_refused(content: Any, reason: str) -> None:
    with pytest.raises(CorruptError, match=reason):
        read_kinds(content)
