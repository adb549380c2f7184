"""Several databases of documents are one dataset."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import headrace
from headrace.errors import SourceError
from headrace.formats.detect import detect, open_source
from headrace.kinds import Image, Points


@pytest.fixture
def docs(shared: Path, tmp_path: Path) -> Path:
    """A database, and the one that it was merged into under other keys."""
    for name, source in (("warp1", "unified-doc/warp24"), ("warp2", "unified-doc-merged/merged")):
        shutil.copytree(shared / f"fixtures/{source}.lmdb", tmp_path / f"docs/{name}.lmdb")
    return tmp_path / "docs"


@pytest.mark.parametrize("below", ["", "*.lmdb", "warp{1,2}.lmdb"])
def test_a_folder_or_a_pattern_of_databases_is_one_dataset(docs: Path, below: str) -> None:
    assert detect(docs / below).name == "unified-doc"
    source = open_source(docs / below)
    assert len(source.names) == 9
    samples = {name: source.read(i) for i, name in enumerate(source.names)}
    for name in open_source(docs / "warp1.lmdb").names:
        assert dict(samples[name].fields) == dict(samples[f"1_{name}"].fields)


def test_documents_of_several_databases_are_packed_with_their_kinds(
    docs: Path, tmp_path: Path
) -> None:
    headrace.pack_dataset(docs, tmp_path / "out")
    dataset = headrace.open_dataset(tmp_path / "out")
    assert len(dataset) == 9
    assert dataset.manifest.field_kinds == {
        **dict.fromkeys(["d1.npy", "d2.npy", "di.npy", "w1.npy"], Image()),
        "d1.label.npy": Points("d1"),
        "d2.label.npy": Points("d2"),
    }


def test_a_document_in_two_databases_is_an_error_that_names_them(docs: Path) -> None:
    shutil.copytree(docs / "warp1.lmdb", docs / "warp3.lmdb")
    places = (re.escape(str(docs / f"warp{k}.lmdb/data.mdb")) for k in (1, 3))
    with pytest.raises(SourceError, match="the document .* is in both {} and {};".format(*places)):
        open_source(docs)


def test_databases_of_several_splits_are_not_merged(docs: Path) -> None:
    (docs / "warp1.lmdb").rename(docs / "train.lmdb")
    (docs / "warp2.lmdb").rename(docs / "val.lmdb")
    with pytest.raises(SourceError, match="several splits"):
        open_source(docs)


def test_databases_of_which_one_has_no_documents_are_ambiguous(docs: Path, shared: Path) -> None:
    other = shared / "fixtures/efficient-pytorch/val.lmdb"
    (shutil.copytree if other.is_dir() else shutil.copy)(other, docs / "x.lmdb")
    with pytest.raises(SourceError, match="several databases"):
        open_source(docs)


def test_a_pattern_of_folders_that_are_not_databases_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    with pytest.raises(SourceError, match="patterns are for tars"):
        open_source(tmp_path / "[ab]")
