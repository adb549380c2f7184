"""Sources larger than memory, pipes in place of files, and disks that fail: errors that say where."""

from __future__ import annotations

import errno
import json
import os
import re
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.making import (
    make_example,
    photos,
    write_arrow,
    write_gulp,
    write_parquet,
    write_tar,
    write_tfrecord,
)
from headrace import index_dataset, open_dataset, open_source, pack_dataset
from headrace._core import crc32c
from headrace.errors import PackError, SourceError
from headrace.files.limits import check_size, current_limit, limit_file_size, read_file
from headrace.formats.codecs.parquet_columns import open_parquet_file, read_rows
from headrace.formats.detect import LAYOUTS, detect
from headrace.store.tar import padded
from trees import make_folder

BY_PATH = sorted(LAYOUTS.keys() - {"coco"})
"""Layouts that need no more than a path."""
GIANT = 1 << 40
"""Bytes of a file that lies on no disk: almost all of it is a hole."""


def write_giant(path: Path, head: bytes = b"\xff\xd8\xff") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head)
    os.truncate(path, GIANT)


def giant_folder(root: Path) -> Path:
    (root / "a").mkdir(parents=True)
    (root / "a/0.jpg").write_bytes(photos(1)[0])
    write_giant(root / "a/1.jpg")
    return root


def giant_listing(root: Path) -> Path:
    giant_folder(root)
    (root / "list.csv").write_text("path\na/0.jpg\na/1.jpg\n")
    return root / "list.csv"


def giant_frames(root: Path) -> Path:
    for name in ("v0/0.jpg", "v1/0.jpg"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(photos(1)[0])
    write_giant(root / "v1/1.jpg")
    (root / "list.csv").write_text("v0;a\nv1;b\n")
    return root / "list.csv"


def giant_tar(root: Path) -> Path:
    root.mkdir()
    image = photos(1)[0]
    path = write_tar(root / "a.tar", {"0.jpg": image})
    info = tarfile.TarInfo("1.jpg")
    info.size = GIANT
    head = path.read_bytes()[: 512 + padded(len(image))]
    path.write_bytes(head + info.tobuf(tarfile.GNU_FORMAT))
    os.truncate(path, len(head) + 512 + GIANT + 1024)
    return path


def giant_gulp(root: Path) -> Path:
    path = write_gulp(root, {"0": photos(1), "1": photos(1)}, {"0": "a", "1": "a"})
    os.truncate(path / "data_0.gulp", GIANT)
    meta = json.loads((path / "meta_0.gmeta").read_text())
    start = meta["1"]["frame_info"][0][0]
    meta["1"]["frame_info"] = [[start, 0, GIANT - start]]
    (path / "meta_0.gmeta").write_text(json.dumps(meta))
    return path


def giant_record(root: Path) -> Path:
    root.mkdir()
    path = write_tfrecord(root / "a.tfrecord", [make_example({"image": photos(1)[0]})])
    length = struct.pack("<Q", GIANT)
    crc = crc32c(length)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    size = path.stat().st_size
    with open(path, "ab") as file:
        file.write(length + struct.pack("<I", masked))
    os.truncate(path, size + 12 + GIANT + 4)
    return path


GIANTS = [giant_folder, giant_listing, giant_frames, giant_tar, giant_gulp, giant_record]


@pytest.mark.parametrize("make", GIANTS)
def test_a_huge_sparse_file_is_a_rejected_sample(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path / "in")
    summary = pack_dataset(path, tmp_path / "out", on_error="skip", workers=1)
    assert summary.samples == 1
    assert len(summary.rejected) == 1
    assert f"bytes are more than {1 << 30}; raise max_file_size" in summary.rejected[0][1]
    with pytest.raises(PackError, match="--max-file-size"):
        pack_dataset(path, tmp_path / "again", workers=1)


@pytest.mark.parametrize("layout", ["webdataset", "gulp", "tfrecord"])
def test_a_sample_beyond_the_limit_is_not_indexed(tmp_path: Path, layout: str) -> None:
    small, large = photos(1)[0], photos(1)[0] + bytes(5000)
    path = {
        "webdataset": lambda: write_tar(tmp_path / "a.tar", {"0.jpg": small, "1.jpg": large}),
        "gulp": lambda: write_gulp(
            tmp_path / "g", {"0": [small], "1": [large]}, {"0": "a", "1": "a"}
        ),
        "tfrecord": lambda: write_tfrecord(
            tmp_path / "a.tfrecord", [make_example({"image": data}) for data in (small, large)]
        ),
    }[layout]()
    limit = len(large) - 1
    out = tmp_path / "out"
    manifest = index_dataset(path, format=layout, out=out, on_error="skip", max_file_size=limit)
    assert manifest.samples == 1
    with pytest.raises((PackError, SourceError), match="--max-file-size"):
        index_dataset(path, format=layout, out=tmp_path / "again", max_file_size=limit)


def test_a_huge_listing_or_metadata_file_is_refused_too(tmp_path: Path) -> None:
    write_giant(tmp_path / "list.csv", b"path\n")
    write_giant(tmp_path / "list.jsonl", b"{}\n")
    gulp = write_gulp(tmp_path / "g", {"0": photos(1)}, {"0": "a"})
    write_giant(gulp / "label2idx.json", b"{}")
    for path in (tmp_path / "list.csv", tmp_path / "list.jsonl", gulp):
        with pytest.raises(SourceError, match="more than"):
            open_source(path)


def test_only_a_limit_other_than_the_default_is_part_of_the_recipe(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "in", classes=1, per_class=2)
    largest = max(path.stat().st_size for path in root.rglob("*.*"))
    out = tmp_path / "out"
    pack_dataset(root, out, max_file_size=largest - 1, on_error="skip")
    assert len(open_dataset(out)) == 1
    with pytest.raises(PackError, match="with other options"):
        pack_dataset(root, out, max_file_size=largest, on_error="skip")
    pack_dataset(root, tmp_path / "default")
    pack_dataset(root, tmp_path / "default", max_file_size=1 << 30)


def test_a_limit_holds_for_what_is_opened_inside(tmp_path: Path) -> None:
    root = make_folder(tmp_path, classes=1, per_class=2)
    before = current_limit()
    with limit_file_size(10):
        source = LAYOUTS["folder"].open(root)
        with pytest.raises(SourceError, match="11 bytes are more than 10"):
            check_size(11)
    assert current_limit() == before
    with pytest.raises(SourceError, match="more than 10"):
        source.read(0)


@pytest.mark.parametrize("size", [0, -1])
def test_a_limit_is_at_least_a_byte(tmp_path: Path, size: int) -> None:
    with pytest.raises(ValueError, match=f"max_file_size is {size}"):
        open_source(tmp_path, max_file_size=size)


def replace_by_pipe(path: Path) -> Path:
    path.unlink()
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("format", BY_PATH)
def test_a_pipe_is_not_a_source_in_any_layout(tmp_path: Path, format: str) -> None:
    pipe = tmp_path / "list.csv"
    os.mkfifo(pipe)
    with pytest.raises(SourceError, match=r"list\.csv"):
        open_source(pipe, format=format)
    with pytest.raises(SourceError):
        open_source(tmp_path, listing=pipe, format="frames" if format == "frames" else "listing")
    with pytest.raises(SourceError):
        open_source(tmp_path, listing=pipe)


def test_annotations_are_neither_a_pipe_nor_a_path_that_is_too_long(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "instances.json")
    for path in (tmp_path / "instances.json", tmp_path / ("x" * 300)):
        with pytest.raises(SourceError, match=re.escape(path.name)):
            open_source(make_folder(tmp_path / "photos"), annotations=path)


@pytest.mark.parametrize("name", ["meta_0.gmeta", "data_0.gulp", "label2idx.json"])
def test_a_pipe_in_a_gulp_is_an_error(tmp_path: Path, name: str) -> None:
    path = write_gulp(tmp_path / "g", {"0": photos(1)}, {"0": "a"})
    replace_by_pipe(path / name)
    with pytest.raises(SourceError):
        open_source(path).read(0)


def test_a_file_that_became_a_pipe_is_an_error(tmp_path: Path) -> None:
    source = open_source(make_folder(tmp_path, classes=1, per_class=1))
    replace_by_pipe(tmp_path / source.names[0])
    with pytest.raises(SourceError, match="not a regular file"):
        source.read(0)


def write_layouts(root: Path) -> dict[str, Path]:
    """The layouts whose files are read by offset."""
    image = photos(1)[0]
    (root / "f/a").mkdir(parents=True)
    (root / "f/a/0.jpg").write_bytes(image)
    return {
        "folder": root / "f",
        "webdataset": write_tar(root / "a.tar", {"0.jpg": image}),
        "gulp": write_gulp(root / "g", {"0": [image]}, {"0": "a"}),
        "tfrecord": write_tfrecord(root / "a.tfrecord", [make_example({"image": image})]),
        "lmdb": write_lmdb(root / "a.lmdb", image),
    }


def write_lmdb(path: Path, image: bytes) -> Path:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(path), subdir=False) as environment, environment.begin(write=True) as t:
        t.put(b"0", image)
    return path


@pytest.mark.parametrize("layout", ["folder", "webdataset", "gulp", "tfrecord", "lmdb"])
def test_a_disk_that_fails_is_an_error_of_the_sample(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(write_layouts(tmp_path)[layout], format=layout)

    def fail(fd: int, size: int, offset: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(SourceError, match="Input/output error"):
        source.read(0)


@pytest.mark.parametrize("layout", ["webdataset", "gulp", "tfrecord", "lmdb"])
def test_a_disk_that_fails_while_opening_is_an_error_with_the_path(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_layouts(tmp_path)[layout]

    def fail(fd: int, size: int, offset: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(SourceError, match=f"{path.name}.*: Input/output error"):
        open_source(path, format=layout)
    if layout != "gulp":
        with pytest.raises(SourceError, match=f"{path.name}: Input/output error"):
            index_dataset(path, format=layout, out=tmp_path / "out")


@pytest.mark.parametrize("format", [None, *BY_PATH])
def test_a_path_that_is_too_long_is_an_error_with_the_path(
    tmp_path: Path, format: str | None
) -> None:
    path = tmp_path / ("x" * 300)
    for call in (
        lambda: open_source(path, format=format),
        lambda: pack_dataset(path, tmp_path / "out", format=format),
        lambda: index_dataset(path, format=format, out=tmp_path / "out"),
        lambda: detect(path),
    ):
        with pytest.raises(SourceError, match="xxx.*: File name too long"):
            call()


def test_a_listed_path_that_is_too_long_is_an_error_with_the_path(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(f"path\n{'x' * 5000}.jpg\n")
    with pytest.raises(SourceError, match="xxx.*File name too long"):
        open_source(tmp_path / "list.csv")


def test_a_file_is_read_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert read_file(path, 3) == b"abc"
    with pytest.raises(SourceError, match=f"{path}: 3 bytes are more than 2"):
        read_file(path, 2)


@pytest.mark.parametrize("write", [write_parquet, write_arrow])
def test_a_cell_beyond_the_limit_is_an_error_of_its_row(
    tmp_path: Path, write: Callable[..., Path]
) -> None:
    small, large = photos(1)[0], photos(1)[0] + bytes(5000)
    images = [small, small, large, small]
    suffix = "parquet" if write is write_parquet else "arrow"
    path = write(tmp_path / f"a.{suffix}", images)
    source = open_source(path, max_file_size=len(large) - 1)
    for i, image in enumerate(images):
        if image is large:
            with pytest.raises(SourceError, match=f"{len(large)} bytes are more than"):
                source.read(i)
        else:
            assert source.read(i)["jpg"] == image


def test_rows_that_a_parquet_file_says_are_too_large_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": [photos(1)[0] + bytes(1 << 20)]}), path, compression="zstd")
    assert path.stat().st_size < 1 << 16
    source = open_source(path, max_file_size=1 << 20)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    with pytest.raises(SourceError, match=f"bytes are more than {1 << 20}"):
        source.read(0)


def test_text_that_repeats_in_a_parquet_file_does_not_unfold_beyond_the_limit(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.parquet"
    text = pa.array(["x" * 10_000] * 2000)
    pq.write_table(pa.table({"image": photos(1) * 2000, "text": text}), path, compression="zstd")
    assert path.stat().st_size < 1 << 16
    assert len(open_source(path).names) == 2000
    with pytest.raises(SourceError, match=rf"a\.parquet: \d+ bytes are more than {1 << 20}"):
        open_source(path, max_file_size=1 << 20)


def test_rows_are_read_by_as_many_as_the_limit_has_room_for(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": [bytes(1000)] * 100}), path)
    with open_parquet_file(path) as file:
        batches = list(read_rows(file, 0, ["image"], 5000))
        assert max(batch.nbytes for batch in batches) <= 5000 + 100
        assert sum(batch.num_rows for batch in batches) == 100
        assert [batch.num_rows for batch in read_rows(file, 0, ["image"], 1)] == [1] * 100


def test_a_parquet_file_may_not_claim_rows_without_end(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": pa.nulls(1_000_000, pa.binary())}), path)
    with pytest.raises(SourceError, match=r"a\.parquet: claims 1000000 rows in \d+ bytes"):
        open_source(path)
