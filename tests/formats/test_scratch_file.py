"""The scratch file: whole, and gone with its object."""

from __future__ import annotations

import os

import pytest

from headrace.formats.scratch_file import Spool


def test_bytes_that_take_several_system_calls_are_all_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:2], at))
    spool = Spool()
    assert [spool.append(b"abcdefg"), spool.append(b"hi")] == [0, 7]
    assert (spool.size, spool.read(0, 9)) == (9, b"abcdefghi")


def test_its_file_is_closed_when_it_is_gone() -> None:
    spool = Spool()
    fd = spool.fd
    del spool
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
