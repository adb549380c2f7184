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
from headrace.files import pread
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
    starts, stops = merge_ranges(ranges)
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
def test_clips_are_read_with_one_request_each(
    videos: Path, clip: Clip, monkeypatch: pytest.MonkeyPatch
) -> None:
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
