from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path

import numpy as np
import pytest

import headrace
from formats.making import write_tar
from headrace._core import build_seek
from headrace.read.seeks import NO_TABLES, read_seeks
from headrace.read.table import Table
from images import encode


def test_tables_are_found_by_their_offset_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.seek").write_bytes(bytes(range(100)))
    tables = read_seeks(tmp_path / "a.seek", 10, 30)
    assert bytes(tables.table(12, 3)) == bytes([12, 13, 14])


@pytest.mark.parametrize("stop", [101, 10_000])
def test_a_truncated_or_missing_file_has_no_tables_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stop: int
) -> None:
    path = tmp_path / "a.seek"
    path.write_bytes(bytes(100))
    for content in (bytes(100), None):
        if content is None:
            path.unlink()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert read_seeks(path, 0, stop) is NO_TABLES
        assert "seek tables" in caplog.text


def test_a_pipe_in_place_of_the_file_has_no_tables(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.seek")
    assert read_seeks(tmp_path / "a.seek", 0, 10) is NO_TABLES


def test_a_stale_handle_is_opened_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.seek").write_bytes(bytes(100))
    pread, left = os.pread, [1]

    def fail_once(fd: int, size: int, at: int) -> bytes:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return pread(fd, size, at)

    monkeypatch.setattr(os, "pread", fail_once)
    assert len(read_seeks(tmp_path / "a.seek", 0, 100).data) == 100
    left[0] = 2
    assert read_seeks(tmp_path / "a.seek", 0, 100) is NO_TABLES


def test_tables_are_found_among_tables_of_other_fields_samples_and_shards(tmp_path: Path) -> None:
    files = {}
    for i in range(6):
        files[f"{i}.jpg"] = encode(300 + i, 400, seed=i)
        if i % 2:
            files[f"{i}.a.jpg"] = encode(200, 300, seed=100 + i)
    names = sorted(files, key=lambda name: name[0])
    write_tar(tmp_path / "a.tar", {n: files[n] for n in names if n[0] < "2"})
    write_tar(tmp_path / "b.tar", {n: files[n] for n in names if n[0] >= "2"})
    headrace.index_dataset(tmp_path)
    table = Table([headrace.open_dataset(tmp_path)], (), image=True)
    seek, image = table.columns.seek, table.columns.image
    for row in range(6):
        name = "a" if row < 2 else "b"
        file = (tmp_path / f"{name}.seek").read_bytes()
        expected = build_seek(files[f"{row}.jpg"])[1]
        assert file[seek.offset[row] :][: seek.size[row]] == expected != b""
        assert image.size[row] == len(files[f"{row}.jpg"])


def test_the_manifest_has_the_checksum_of_the_seek_file(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.jpg": encode(300, 400)})
    headrace.index_dataset(tmp_path)
    record = json.loads((tmp_path / "headrace.json").read_text())["shards"][0]["seek"]
    assert record["bytes"] == (tmp_path / "a.seek").stat().st_size
    data = np.frombuffer((tmp_path / "a.seek").read_bytes(), np.uint8).copy()
    data[5] ^= 1
    (tmp_path / "a.seek").write_bytes(data.tobytes())
    (problem,) = headrace.verify_dataset(tmp_path)
    assert problem.shard == "a.seek"
