"""Which files of a folder are data, and what they are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.making import (
    make_example,
    photos,
    write_arrow,
    write_parquet,
    write_tar,
    write_tfrecord,
)
from headrace.errors import SourceError
from headrace.formats.detect import open_source
from headrace.formats.layouts.parquet import open_parquet
from images import encode


def write_numbered_tar(path: Path, images: list[bytes]) -> Path:
    return write_tar(path, {f"{path.stem}{i}.jpg": data for i, data in enumerate(images)})


def write_records(path: Path, images: list[bytes]) -> Path:
    return write_tfrecord(path, [make_example({"image": data}) for data in images])


WRITERS: dict[str, Callable[[Path, list[bytes]], Path]] = {
    "parquet": write_parquet,
    "arrow": write_arrow,
    "tfrecord": write_records,
    "tar": write_numbered_tar,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_hidden_files_and_folders_named_like_files_are_skipped(tmp_path: Path, suffix: str) -> None:
    WRITERS[suffix](tmp_path / f"a.{suffix}", photos(2))
    WRITERS[suffix](tmp_path / f".b.{suffix}", photos(1))
    (tmp_path / f"._a.{suffix}").write_bytes(b"\0\5\x16\7")
    (tmp_path / f"folder.{suffix}").mkdir()
    (tmp_path / ".ipynb_checkpoints").mkdir()
    WRITERS[suffix](tmp_path / ".ipynb_checkpoints" / f"c.{suffix}", photos(1))
    assert len(open_source(tmp_path).names) == 2


@pytest.mark.parametrize("suffix", WRITERS)
def test_suffixes_may_be_in_capitals(tmp_path: Path, suffix: str) -> None:
    path = WRITERS[suffix](tmp_path / f"A.{suffix.upper()}", photos(2))
    assert len(open_source(path).names) == len(open_source(tmp_path).names) == 2


def test_a_folder_that_is_called_like_a_file_is_searched(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").mkdir()
    write_parquet(tmp_path / "train.parquet/part-0.snappy.parquet", photos(2))
    (tmp_path / "train.parquet/_SUCCESS").touch()
    for path in (tmp_path, tmp_path / "train.parquet"):
        assert len(open_source(path).names) == len(open_parquet(path).names) == 2


def test_values_in_the_names_of_folders_are_reported_as_not_read(tmp_path: Path) -> None:
    for name in ("label=0", "label=1"):
        (tmp_path / name).mkdir()
        write_parquet(tmp_path / name / "part-0.parquet", photos(1))
    source = open_source(tmp_path)
    assert list(source.ignored) == ["column boxes", "column label (of the names of folders)"]


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_files_of_one_name_in_several_folders_are_called_by_their_paths(
    tmp_path: Path, suffix: str
) -> None:
    for name in ("label=0", "label=1"):
        (tmp_path / name).mkdir()
        WRITERS[suffix](tmp_path / name / f"part-0.{suffix}", photos(1))
    source = open_source(tmp_path / f"*/part-0.{suffix}")
    assert [source.read(i).key for i in range(2)] == [
        "label=0/part-0/000000",
        "label=1/part-0/000000",
    ]


@pytest.mark.parametrize("suffix", [".tar", ".parquet", ".tfrecord"])
def test_a_link_to_a_file_that_is_gone_is_an_error(tmp_path: Path, suffix: str) -> None:
    if suffix == ".tar":
        write_tar(tmp_path / "0.tar", {"0.jpg": encode(8, 8)})
    elif suffix == ".parquet":
        pq.write_table(pa.table({"image": [encode(8, 8)]}), tmp_path / "0.parquet")
    else:
        write_tfrecord(tmp_path / "0.tfrecord", [make_example({"image/encoded": encode(8, 8)})])
    assert len(open_source(tmp_path).names) == 1
    (tmp_path / f"1{suffix}").symlink_to("nowhere")
    with pytest.raises(SourceError, match=rf"1{suffix}: .*[Nn]o such file"):
        open_source(tmp_path)
