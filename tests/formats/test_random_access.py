"""Gzipped files: every member, and nothing of what is behind the last."""

from __future__ import annotations

import gzip
from pathlib import Path

from headrace.formats.random_access import PlainFile


def test_a_gzipped_file_may_have_members_and_zeros_behind_them(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"abc") + gzip.compress(b"de") + bytes(512))
    file = PlainFile(path)
    assert (file.size, file.read(0, 5)) == (5, b"abcde")
