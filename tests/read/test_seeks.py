from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import penstock
from formats.making import write_tar
from images import encode
from penstock.read.seeks import SeekReader


@pytest.fixture
def index(tmp_path: Path) -> Path:
    write_tar(tmp_path / "a.tar", {f"{i}.jpg": encode(300, 400, seed=i) for i in range(3)})
    penstock.index_dataset(tmp_path)
    return tmp_path / "a.arrow"


@pytest.mark.parametrize("failing", [0, 1], ids=["bounds", "tables"])
def test_tables_that_cannot_be_read_are_no_error(
    index: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    reader, pread, calls = SeekReader(), os.pread, list[int]()
    assert reader.read(index, "jpg.seek", 1, 3) is not None

    def fail_at(fd: int, size: int, at: int) -> bytes:
        calls.append(at)
        if len(calls) > failing:
            raise OSError(errno.EIO, "Input/output error")
        return pread(fd, size, at)

    monkeypatch.setattr(os, "pread", fail_at)
    assert reader.read(index, "jpg.seek", 1, 3) is None
    assert len(calls) == failing + 1


def test_an_index_that_was_cut_or_removed_has_no_tables(index: Path) -> None:
    reader, size = SeekReader(), index.stat().st_size
    whole = reader.read(index, "jpg.seek", 0, 3)
    assert whole is not None and all(bytes(whole.table(i)) for i in range(3))
    for length in range(0, size, max(1, size // 200)):
        cut = index.with_name("cut.arrow")
        cut.write_bytes(index.read_bytes()[:length])
        reader._places[cut, "jpg.seek"] = reader._places[index, "jpg.seek"]
        read = reader.read(cut, "jpg.seek", 0, 3)
        assert read is None or bytes(read.data) == bytes(whole.data)
    index.unlink()
    assert reader.read(index, "jpg.seek", 0, 3) is None
