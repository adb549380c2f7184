"""Rows of an index as values, and the bytes of their fields."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.errors import CorruptError
from headrace.store import rows as store_rows
from headrace.store.index_schema import IndexBuilder
from headrace.store.rows import read_fields, read_row, read_rows
from trees import make_folder


@pytest.fixture
def packed(tmp_path: Path) -> headrace.Dataset:
    headrace.pack_dataset(make_folder(tmp_path / "in"), tmp_path / "packed")
    return headrace.open_dataset(tmp_path / "packed")


def test_rows_are_the_same_in_groups_of_any_size(
    packed: headrace.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = packed.index
    rows = list(read_rows(table))
    assert rows == [read_row(table, number) for number in range(len(table))]
    monkeypatch.setattr(store_rows, "_ROWS", 2)
    assert list(read_rows(table)) == rows


def test_a_row_makes_the_sample_that_the_dataset_gives(packed: headrace.Dataset) -> None:
    row = read_row(packed.index, 1)
    assert row.make_sample(read_fields(packed.root, row, row.fields)) == packed[1]


def test_a_field_that_the_sample_lacks_is_not_in_its_row() -> None:
    index = IndexBuilder(None)
    for number, field in enumerate(["a.bin", "b.bin"]):
        index.add_sample(str(number), None, "x.tar", {})
        index.add_field(field, 0, b"data", None)
    rows = list(read_rows(index.finish()))
    assert [list(row.fields) for row in rows] == [["a.bin"], ["b.bin"]]


def test_damage_is_named_by_file_field_and_key(packed: headrace.Dataset, tmp_path: Path) -> None:
    row = read_row(packed.index, 0)
    (tmp_path / row.file).write_bytes(b"")
    with pytest.raises(CorruptError, match=rf"{row.file}: cls of '{row.key}': .* 0 are there"):
        read_fields(tmp_path, row, ["cls"])
    with pytest.raises(CorruptError, match=f"No such file or directory, for sample '{row.key}'"):
        read_fields(tmp_path / "nowhere", row, ["cls"])
