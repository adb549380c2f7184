"""Which layout a path has is found by what is in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from formats.fixtures import FIXTURES
from formats.making import make_example, photos, write_arrow, write_parquet, write_tfrecord
from penstock.errors import SourceError
from penstock.formats.detect import OPENERS, find_format, open_source


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("efficient-pytorch", "lmdb"),
        ("efficient-pytorch/val.lmdb", "lmdb"),
        ("tensorpack-raw-dir/data.lmdb", "lmdb"),
        ("tensorpack-raw-dir/data.lmdb/data.mdb", "lmdb"),
        ("unified-doc", "unified-doc"),
        ("unified-doc-merged/merged.lmdb", "unified-doc"),
        ("gulp", "gulp"),
        ("gulp-source", "frames"),
        ("gulp-source/list.csv", "frames"),
        ("gulp-source/frames", "folder"),
        ("webdataset", "webdataset"),
        ("webdataset/train-000001.tar", "webdataset"),
        ("webdataset/train-{000000..000002}.tar", "webdataset"),
        ("hostile/lmdb/struct-bad-magic.lmdb", "lmdb"),
    ],
)
def test_the_originals_are_recognised(shared: Path, path: str, name: str) -> None:
    assert find_format(FIXTURES / path)[0] == name


def test_a_file_is_known_by_its_content_and_not_by_its_name(shared: Path, tmp_path: Path) -> None:
    copies = {
        "lmdb": FIXTURES / "tensorpack-pickle/data.lmdb",
        "webdataset": FIXTURES / "webdataset/train-000000.tar",
        "parquet": write_parquet(tmp_path / "a.parquet", photos(1)),
        "tfrecord": write_tfrecord(tmp_path / "a", [make_example({"image": photos(1)[0]})]),
    }
    for name, path in copies.items():
        shutil.copy(path, tmp_path / "unnamed")
        assert find_format(tmp_path / "unnamed")[0] == name


def test_hugging_face_folders_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "hub/data").mkdir(parents=True)
    write_parquet(tmp_path / "hub/data/train.parquet", photos(1))
    assert find_format(tmp_path / "hub")[0] == "parquet"
    (tmp_path / "saved").mkdir()
    write_arrow(tmp_path / "saved/data-00000-of-00001.arrow", photos(1))
    (tmp_path / "saved/state.json").write_text("{}")
    assert find_format(tmp_path / "saved")[0] == "arrow"


def test_classes_beside_the_tars_they_came_in_are_an_image_folder(tmp_path: Path) -> None:
    for name in ("n01", "n02"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.JPEG").write_bytes(photos(1)[0])
        (tmp_path / f"{name}.tar").write_bytes(b"")
    assert find_format(tmp_path)[0] == "folder"


def test_several_databases_in_a_folder_are_not_guessed_at(shared: Path) -> None:
    with pytest.raises(SourceError, match="several databases .*say which one"):
        open_source(FIXTURES / "tensorpack-arrays")


def test_the_layout_can_be_named(shared: Path) -> None:
    source = open_source(FIXTURES / "unified-doc/warp24.lmdb", format="lmdb")
    assert len(source.names) == 12
    assert set(source.read(0)) == {"image.npy", "label.npy"}
    assert len(open_source(FIXTURES / "gulp-source", format="frames").names) == 12
    with pytest.raises(ValueError, match=f"must be one of {', '.join(OPENERS)}"):
        open_source(FIXTURES / "gulp", format="zip")


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="neither a file nor a folder"):
        open_source(tmp_path / "pipe")


def test_what_is_nothing_we_know_is_an_error_that_names_the_choices(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"what is this?")
    with pytest.raises(SourceError, match="no layout that is known.*--format"):
        open_source(tmp_path / "x.bin")
    with pytest.raises(SourceError, match="no such file"):
        open_source(tmp_path / "nothing")
