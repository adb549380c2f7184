"""The data file of a shard is complete, however much a system call writes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.store.write_shard import _HashedFile


def write(path: Path, parts: list[bytes]) -> str:
    file = _HashedFile(path)
    try:
        for part in parts:
            file.write(part)
        return file.finish()
    finally:
        file.close()


def test_more_parts_than_one_system_call_takes_are_written(tmp_path: Path) -> None:
    digest = write(tmp_path / "x", [b"a"] * 3000)
    assert (tmp_path / "x").read_bytes() == b"a" * 3000
    assert digest == hashlib.sha256(b"a" * 3000).hexdigest()


def test_parts_that_one_system_call_does_not_write_whole_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writev, calls = os.writev, []

    def write_little_at_first(fd: int, parts: list[Any]) -> int:
        calls.append(len(parts))
        return os.write(fd, bytes(parts[0])[:3]) if len(calls) == 1 else writev(fd, parts)

    monkeypatch.setattr(os, "writev", write_little_at_first)
    write(tmp_path / "x", [b"abcdefg", b"", b"hi"])
    assert (tmp_path / "x").read_bytes() == b"abcdefghi"
