from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from trees import make_folder


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    headrace.pack_dataset(make_folder(tmp_path / "in"), tmp_path / "out", shard_size=8000)
    return tmp_path / "out"


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x20
    path.write_bytes(data)


def test_an_intact_dataset_has_no_problems(packed: Path) -> None:
    assert headrace.verify_dataset(packed) == []


def test_a_flipped_byte_is_found_with_shard_key_and_offset(packed: Path) -> None:
    index = headrace.open_dataset(packed).index
    row = index.slice(2, 1).to_pylist()[0]
    field = "jpg" if row["jpg.offset"] is not None else "png"
    flip(packed / row["file"], row[f"{field}.offset"] + 5)
    problems = headrace.verify_dataset(packed)
    assert [(p.shard, p.key, p.offset) for p in problems] == [
        (row["file"], None, None),
        (row["file"], row["key"], row[f"{field}.offset"]),
    ]
    assert "SHA-256" in problems[0].reason and "CRC-32C" in problems[1].reason


def test_a_flipped_byte_outside_the_samples_is_found_too(packed: Path) -> None:
    flip(packed / "shard-000001.tar", 400)  # inside the first tar header
    (problem,) = headrace.verify_dataset(packed)
    assert (problem.shard, problem.key) == ("shard-000001.tar", None)


def test_a_changed_index_is_found(packed: Path) -> None:
    path = packed / "shard-000000.arrow"
    flip(path, path.read_bytes().index(b"class0/"))
    assert [p.shard for p in headrace.verify_dataset(packed)] == ["shard-000000.arrow"]


def test_a_changed_manifest_is_found_whatever_was_changed(tmp_path: Path) -> None:
    headrace.pack_dataset(make_folder(tmp_path / "in", 2, 1), tmp_path / "out")
    path = tmp_path / "out" / "headrace.json"
    whole = path.read_bytes()
    for position in range(len(whole)):
        if not whole[position : position + 1].isspace():
            flip(path, position)
            with pytest.raises(headrace.CorruptError, match="headrace.json: "):
                headrace.verify_dataset(tmp_path / "out")
            path.write_bytes(whole)
    assert headrace.verify_dataset(tmp_path / "out") == []


def test_a_manifest_that_was_edited_by_hand_is_reported(packed: Path) -> None:
    path = packed / "headrace.json"
    path.write_text(path.read_text().replace("class1", "cat"))
    with pytest.raises(headrace.CorruptError, match="was changed after it was written"):
        headrace.open_dataset(packed)


def test_a_truncated_or_missing_shard_is_found(packed: Path) -> None:
    cut = packed / "shard-000000.tar"
    cut.write_bytes(cut.read_bytes()[:3000])
    (packed / "shard-000001.tar").unlink()
    problems = headrace.verify_dataset(packed)
    assert {p.shard for p in problems} == {"shard-000000.tar", "shard-000001.tar"}
    assert any("the manifest says" in p.reason for p in problems)
    assert any("missing" in p.reason for p in problems)


def test_no_manifest_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(headrace.CorruptError, match="no manifest"):
        headrace.verify_dataset(tmp_path)
