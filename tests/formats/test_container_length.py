"""Files that lost their end, by the lengths in their own headers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from formats.making_videos import draw_frames, write_video
from headrace.formats.codecs.container_length import find_missing


def missing_of(path: Path) -> int:
    fd = os.open(path, os.O_RDONLY)
    try:
        return find_missing(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", ["a.mp4", "a.mov", "a.mkv", "a.webm", "a.avi"])
def test_the_bytes_that_are_missing_are_counted(tmp_path: Path, name: str) -> None:
    codec = {"webm": "libvpx", "avi": "mpeg4"}.get(name[2:], "libx264")
    path = write_video(tmp_path / name, draw_frames(8), codec=codec)
    data = path.read_bytes()
    assert missing_of(path) == 0
    path.write_bytes(data + b"\0" * 50)
    assert missing_of(path) == 0
    path.write_bytes(data[:-7])
    assert missing_of(path) == 7


@pytest.mark.parametrize("size", range(40))
def test_a_few_bytes_of_anything_are_read_without_an_error(tmp_path: Path, size: int) -> None:
    for head in (b"\x1a\x45\xdf\xa3", b"RIFF", b"\0\0\0\x20ftyp", b""):
        (tmp_path / "a").write_bytes((head + os.urandom(40))[:size])
        assert missing_of(tmp_path / "a") >= 0
