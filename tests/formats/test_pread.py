"""Stretches that one system call does not read whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.formats.pread import pread_all, pread_into

LIMIT = 100


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1000))
    return path


@pytest.fixture(autouse=True)
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux reads at most 2 GiB at a time; here it is 100 bytes."""
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, LIMIT), at))
    monkeypatch.setattr(
        os, "preadv", lambda fd, parts, at: preadv(fd, [part[:LIMIT] for part in parts], at)
    )


@pytest.mark.parametrize("offset", [0, 1, 899, 901])
@pytest.mark.parametrize("size", [0, 99, 100, 101, 950])
def test_a_stretch_comes_whole_or_as_far_as_the_file_goes(
    file: Path, offset: int, size: int
) -> None:
    expected = file.read_bytes()[offset : offset + size]
    memory = bytearray(size)
    with file.open("rb") as opened:
        assert pread_all(opened.fileno(), size, offset) == expected
        assert pread_into(opened.fileno(), memoryview(memory), offset) == len(expected)
    assert memory[: len(expected)] == expected
