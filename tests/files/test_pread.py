"""Stretches that one system call does not read whole, and what is opened at all."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from headrace.errors import SourceChangedError
from headrace.files.pread import open_regular, open_unchanged, pread_all, pread_into

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
def test_bytes_are_read_completely_or_up_to_the_end_of_the_file(
    file: Path, offset: int, size: int
) -> None:
    expected = file.read_bytes()[offset : offset + size]
    memory = bytearray(size)
    with file.open("rb") as opened:
        assert pread_all(opened.fileno(), size, offset) == expected
        assert pread_into(opened.fileno(), memoryview(memory), offset) == len(expected)
    assert memory[: len(expected)] == expected


def _make(kind: str, path: Path) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to(os.devnull)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_what_is_not_a_regular_file_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thing"
    _make(kind, path)
    with pytest.raises(OSError, match="not a regular file") as caught:
        open_regular(path)
    assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, str(path))
    with pytest.raises(SourceChangedError, match="not a regular file"):
        open_unchanged(path, 0, 0)


def test_a_regular_file_and_a_link_to_one_are_opened(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    for path in (file, str(link)):
        fd = open_regular(path)
        assert os.pread(fd, 10, 5) == file.read_bytes()[5:15]
        assert not os.get_inheritable(fd)
        os.close(fd)


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        open_regular(tmp_path / "none")
    assert caught.value.filename == str(tmp_path / "none")
