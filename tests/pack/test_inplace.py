"""Tars that exist already, indexed where they are: those of the webdataset package, and hostile ones."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import penstock
from penstock.errors import PackError, SourceError


def expected_samples(folder: Path) -> list[tuple[str, dict[str, str]]]:
    expected = json.loads((folder / "expected.json").read_text())
    return [
        (sample["key"], {name: f["sha256"] for name, f in sample["fields"].items()})
        for file in expected["files"]
        for sample in file["samples"]
    ]


@pytest.mark.parametrize("name", ["webdataset", "webdataset-dense"])
def test_webdataset_tars_are_read_where_they_are(shared: Path, tmp_path: Path, name: str) -> None:
    folder = shared / "fixtures" / name
    penstock.index_dataset(folder, out=tmp_path / "index")
    dataset = penstock.open_dataset(tmp_path / "index")
    found = [
        (s.key, {field: hashlib.sha256(data).hexdigest() for field, data in s.items()})
        for s in dataset
    ]
    assert found == expected_samples(folder)
    assert penstock.verify_dataset(tmp_path / "index") == []


def test_labels_come_from_cls_and_sizes_from_the_images(shared: Path, tmp_path: Path) -> None:
    penstock.index_dataset(shared / "fixtures" / "webdataset", out=tmp_path)
    index = penstock.open_dataset(tmp_path).index
    expected = json.loads((shared / "fixtures" / "webdataset" / "expected.json").read_text())
    labels = [s["label"] for file in expected["files"] for s in file["samples"]]
    assert index["label"].to_pylist() == labels
    assert index["jpg.height"][0].as_py() == 32


def test_index_and_manifest_lie_beside_the_tars_unless_told_otherwise(
    shared: Path, tmp_path: Path
) -> None:
    for tar in (shared / "fixtures" / "webdataset").glob("*.tar"):
        shutil.copyfile(tar, tmp_path / tar.name)
    penstock.index_dataset(tmp_path)
    assert (tmp_path / "train-000000.arrow").exists()
    (tmp_path.parent / "moved").mkdir()
    moved = tmp_path.rename(tmp_path.parent / "moved" / "here")
    assert len(penstock.open_dataset(moved)) == 120
    with pytest.raises(PackError, match="exists already"):
        penstock.index_dataset(moved)


HOSTILE = {
    "dup-key-adjacent.tar": "has the field jpg twice",
    "dup-key-apart.tar": "comes again",
    "dup-key-case.tar": "has the field jpg twice",
    "interleaved-keys.tar": "comes again",
    "cls-fields.tar": "not a whole number",
    "bad-checksum.tar": "wrong checksum",
    "truncated-data.tar": "the archive ends",
    "size-base256-huge.tar": "claims",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_tars_are_named_errors_and_leave_no_manifest(
    shared: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(SourceError, match=f"{name}.*{HOSTILE[name]}"):
        penstock.index_dataset(shared / "fixtures" / "hostile" / "tar" / name, out=tmp_path)
    assert not (tmp_path / "penstock.json").exists()


READABLE = {
    "good.tar": 6, "no-eof-blocks.tar": 6, "one-zero-block.tar": 6, "trailing-garbage.tar": 6,
    "only-eof.tar": 0, "name-absolute.tar": 2, "name-dotdot.tar": 3, "name-noext.tar": 1,
    "name-dots.tar": 2, "name-case.tar": 2, "links.tar": 2, "missing-fields.tar": 4,
    "bad-images.tar": 12, "many-fields.tar": 1, "pax-bad-utf8.tar": 3, "symlink-then-through.tar": 1,
    "size-base256-ok.tar": 2, "name-control.tar": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(READABLE))
def test_odd_but_sound_tars_are_read_without_touching_anything_else(
    shared: Path, tmp_path: Path, name: str
) -> None:
    penstock.index_dataset(shared / "fixtures" / "hostile" / "tar" / name, out=tmp_path / "index")
    dataset = penstock.open_dataset(tmp_path / "index")
    assert len(list(dataset)) == READABLE[name]
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == sorted(
        ["penstock.json", name.replace(".tar", ".arrow")]
    )


def test_damaged_images_are_marked_in_the_index(shared: Path, tmp_path: Path) -> None:
    tar = shared / "fixtures" / "hostile" / "tar" / "bad-images.tar"
    penstock.index_dataset(tar, out=tmp_path)
    kinds = penstock.open_dataset(tmp_path).index["jpg.kind"].to_pylist()
    assert kinds[0] == kinds[-1] == "baseline"
    assert "damaged" in kinds and "png" in kinds


def test_compressed_and_missing_tars_are_refused_with_a_reason(
    shared: Path, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match="unpack compressed ones first"):
        penstock.index_dataset(
            shared / "fixtures" / "hostile" / "tar" / "truncated-gzip.tar.gz", out=tmp_path
        )
    with pytest.raises(SourceError, match="no .tar files"):
        penstock.index_dataset(tmp_path, format="webdataset")


def test_a_file_of_someone_elses_beside_the_tars_is_not_overwritten(
    shared: Path, tmp_path: Path
) -> None:
    shutil.copyfile(shared / "fixtures" / "hostile" / "tar" / "good.tar", tmp_path / "good.tar")
    (tmp_path / "good.arrow").write_bytes(b"precious")
    with pytest.raises(PackError, match=r"good\.arrow: exists and is not an index"):
        penstock.index_dataset(tmp_path)
    assert (tmp_path / "good.arrow").read_bytes() == b"precious"
