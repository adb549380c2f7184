"""What a step reads: the spans of its clips, in few requests and few bytes beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Loader, open_dataset
from headrace._core import read_cached
from headrace.files import pread
from headrace.read import run_layout
from headrace.read.frames import VideoFrames, read_frames
from headrace.read.reading import merge_ranges
from headrace.transforms import CenterCrop, Clip
from videos import make_video, save_videos

ranges = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 60)).map(lambda r: (r[0], r[0] + r[1])),
    max_size=12,
)


@given(ranges)
def test_merged_ranges_hold_all_bytes_and_few_others(ranges: list[tuple[int, int]]) -> None:
    wanted = {byte for start, stop in ranges for byte in range(start, stop)}
    starts, stops, _ = merge_ranges(ranges)
    read = [byte for s, e in zip(starts.tolist(), stops.tolist()) for byte in range(s, e)]
    assert read == sorted(set(read)) and wanted <= set(read)
    assert len(read) <= 1.25 * sum(stop - start for start, stop in ranges)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples = [make_video(i, 60, (40, 40)) for i in range(12)]
    return save_videos(tmp_path_factory.mktemp("videos") / "packed", samples)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all reads of data from now on."""
    sizes: list[int] = []
    read = os.preadv

    def counted(fd: int, buffers: Any, offset: int, *rest: Any) -> int:
        got = read(fd, buffers, offset, *rest)
        sizes.append(got)
        return got

    monkeypatch.setattr(pread.os, "preadv", counted)
    return sizes


@pytest.mark.parametrize(
    "clip", [Clip(4, step=3), Clip(3, clips=2, at="uniform"), Clip(2, step=2, clips=3)], ids=str
)
def test_clips_are_read_with_one_request_each_from_a_disk(
    videos: Path, clip: Clip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_layout, "read_cached", lambda fd, ranges, memory: False)
    sizes = open_dataset(videos).index["mjpg.frames"].to_pylist()
    loader = Loader(videos, 4, shuffle=True, transform=[clip, CenterCrop(8)])
    reads, spans, clips = count_reads(monkeypatch), 0, 0
    for batch in loader:
        frames = batch.clips if batch.clips.ndim == 3 else batch.clips[:, None]
        for row, video in zip(batch.rows.tolist(), frames, strict=True):
            for taken in video:
                spans += sum(sizes[row][taken.min() : taken.max() + 1])
                clips += 1
    assert len(reads) <= clips
    assert sum(reads) == loader.stats().bytes_read <= 1.3 * spans


def check_page_cache(path: Path) -> None:
    with open(path, "rb") as file:
        if not read_cached(file.fileno(), np.array([[0, 1, 0]]), np.zeros(1, np.uint8)):
            pytest.skip("this file system cannot tell what is in memory")


def test_only_the_frames_of_a_clip_are_read_from_the_page_cache(videos: Path) -> None:
    check_page_cache(videos / "headrace.json")
    sizes = open_dataset(videos).index["mjpg.frames"].to_pylist()
    loader = Loader(videos, 4, shuffle=True, transform=[Clip(4, step=3), CenterCrop(8)])
    used = spans = 0
    for batch in loader:
        for row, frames in zip(batch.rows.tolist(), batch.clips.tolist(), strict=True):
            used += sum(sizes[row][frame] for frame in frames)
            spans += sum(sizes[row][frames[0] : frames[-1] + 1])
    assert used <= loader.stats().bytes_read < (used + spans) / 2


def test_ranges_are_read_only_if_all_are_in_memory_and_fit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))
    check_page_cache(path)
    memory = np.zeros(20, np.uint8)
    with open(path, "rb") as file:
        assert read_cached(file.fileno(), np.array([[100, 3, 0], [7, 2, 18]]), memory)
        assert memory.tolist() == [100, 101, 102, *[0] * 15, 7, 8]
        assert not read_cached(file.fileno(), np.array([[199, 2, 0]]), memory)  # beyond the end
        for wrong in ([0, 21, 0], [0, 1, 20], [-1, 1, 0], [0, -1, 0], [0, 1, -1], [0, 1, 1 << 62]):
            with pytest.raises(ValueError, match="lies outside the memory"):
                read_cached(file.fileno(), np.array([wrong]), memory)
    assert not read_cached(-1, np.array([[0, 1, 0]]), memory)


def test_frames_lie_where_their_sizes_say(videos: Path) -> None:
    index = open_dataset(videos).read_index()
    found, sizes = read_frames(index, "mjpg"), index["mjpg.frames"].to_pylist()
    rows, frames = np.array([3, 0, 3]), np.array([[5, 59], [0, 1], [7, 7]])
    ranges = found.locate(rows, frames)
    for i, row in enumerate(rows.tolist()):
        for j, frame in enumerate(frames[i].tolist()):
            assert ranges.offset[i, j] == sum(sizes[row][:frame])
            assert ranges.size[i, j] == sizes[row][frame]
    joined = VideoFrames.join([found, found])
    for part, whole in zip(ranges, joined.locate(rows + 12, frames), strict=True):
        assert np.array_equal(part, whole)


def test_seek_tables_are_those_of_the_frames(tmp_path: Path) -> None:
    """Rendering with the tables of another frame would be noticed, and be slow: so they are compared."""
    from headrace.render import build_seek

    samples = [make_video(i, 4, (300, 400)) for i in range(3)]
    path = save_videos(tmp_path / "packed", samples)
    index = open_dataset(path).read_index()
    (seeks,) = (file.read_bytes() for file in path.glob("*.seek"))
    place = 0
    for row, sample in enumerate(samples):
        tables = [build_seek(frame) for frame in sample.split_frames()]
        assert index["mjpg.frame_seek"][row].as_py() == [len(table) for table in tables]
        assert seeks[place : place + sum(map(len, tables))] == b"".join(tables)
        place += sum(map(len, tables))
    assert any(map(len, tables)) and place == len(seeks)
    assert len(seeks) <= 0.015 * sum(len(sample["mjpg"]) for sample in samples)
