"""Packing video files: the same bytes for any number of workers and kills, options in the recipe, bad files, sizes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace
from formats.making import photos
from formats.making_videos import draw_frames, write_class_folders, write_video
from headrace.errors import PackError
from headrace.formats.layouts.videos import open_videos
from headrace.pack.encode_arrays import Encode
from headrace.pack.estimate_videos import estimate_videos
from headrace.pack.export import export_samples
from headrace.pack.shrink_images import Shrink
from headrace.work.progress import Progress
from images import encode
from trees import digests

KILLED_AFTER = """
import os, signal, sys, headrace
source, destination, shard_size, samples = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def kill(done):
    if done.samples >= samples:
        os.kill(os.getpid(), signal.SIGKILL)
fps = float(sys.argv[5]) if len(sys.argv) > 5 else None
headrace.pack_dataset(source, destination, shard_size=shard_size, workers=2, progress=kill, fps=fps)
"""

KILLED_AT = """
import os, signal, sys, headrace
from headrace.formats.codecs import video_frames
source, destination, shard_size, frames = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
original, count = video_frames.encode_frame, 0
def encode(*arguments):
    global count
    count += 1
    if count >= frames:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments)
video_frames.encode_frame = encode
headrace.pack_dataset(source, destination, shard_size=shard_size, workers=2)
"""


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_class_folders(tmp_path_factory.mktemp("videos") / "videos")


def read_recipe(path: Path) -> dict[str, Any]:
    recipe: dict[str, Any] = json.loads((path / "headrace.json").read_text())["recipe"]
    return recipe


def kill_pack(code: str, *arguments: object) -> None:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, check=False)
    assert result.returncode == -signal.SIGKILL, result.stderr


def test_a_pack_has_the_frames_labels_and_rates_of_the_files(videos: Path, tmp_path: Path) -> None:
    summary = headrace.pack_dataset(videos, tmp_path / "out", order="source")
    dataset, source = headrace.open_dataset(tmp_path / "out"), open_videos(videos)
    assert dataset.classes == ["cat", "dog"]
    assert headrace.verify_dataset(tmp_path / "out") == []
    assert summary.source_bytes == source.sizes.sum()
    for i, sample in enumerate(dataset):
        assert sample["mjpg"] == source.read(i)["mjpg"]
        assert (sample.label, sample.fps) == (i // 3, {"mjpg": 25.0})
        assert len(sample.split_frames()) == 10 + i % 3
    assert dataset.index["mjpg.times"].null_count == 6
    assert dataset.index["mjpg.width"].to_pylist() == [64, 80, 96] * 2


def test_times_of_a_varying_rate_are_packed(tmp_path: Path) -> None:
    write_video(tmp_path / "v/a.mp4", draw_frames(4), ticks=[0, 1, 5, 6])
    headrace.pack_dataset(tmp_path / "v", tmp_path / "out")
    assert headrace.open_dataset(tmp_path / "out")[0].times == {"mjpg": [0.0, 0.04, 0.2, 0.24]}


@pytest.mark.parametrize("shard_size", [3000, 1 << 28])
def test_the_number_of_workers_does_not_change_a_byte(
    videos: Path, tmp_path: Path, shard_size: int
) -> None:
    for workers in (1, 2, 5):
        headrace.pack_dataset(videos, tmp_path / str(workers), shard_size=shard_size, workers=workers)  # fmt: skip
    assert digests(tmp_path / "1") == digests(tmp_path / "2") == digests(tmp_path / "5")


def test_several_threads_encode_the_videos_of_one_shard(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two reads wait for each other: one thread alone would wait for ever."""
    import threading

    from headrace.formats.video_files import VideoFiles

    both, original = threading.Barrier(2, timeout=60), VideoFiles.read

    def read(self: VideoFiles, i: int) -> Any:
        both.wait()
        return original(self, i)

    monkeypatch.setattr(VideoFiles, "read", read)
    summary = headrace.pack_dataset(videos, tmp_path / "out", workers=2)
    assert (summary.shards, summary.samples) == (1, 6)


@pytest.mark.parametrize("shard_size", [9000, 1 << 28])
def test_packing_killed_at_random_moments_ends_with_the_same_bytes(
    videos: Path, tmp_path: Path, shard_size: int
) -> None:
    headrace.pack_dataset(videos, tmp_path / "whole", shard_size=shard_size)
    for frames in (19, 8, 1):  # fewer each time, since finished shards are not encoded again
        kill_pack(KILLED_AT, videos, tmp_path / "out", shard_size, frames)
        assert not (tmp_path / "out/headrace.json").exists()
    kill_pack(KILLED_AFTER, videos, tmp_path / "out", shard_size, 4)
    headrace.pack_dataset(videos, tmp_path / "out", shard_size=shard_size)
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


@pytest.fixture(scope="module")
def real(beside: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Sixty real videos, and what packing them at 6 frames per second gives."""
    root = tmp_path_factory.mktemp("real")
    with tarfile.open(beside / "data/videos.tar") as tar:
        tar.extractall(root, filter="data")
    headrace.pack_dataset(root / "videos", root / "whole", shard_size=4 << 20, fps=6)
    return root / "videos", digests(root / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_packing_real_videos_killed_five_times_ends_with_the_same_bytes(
    real: tuple[Path, dict[str, str]], tmp_path: Path, seed: int
) -> None:
    source, expected = real
    for samples in sorted(random.Random(seed).choices(range(1, 61), k=5)):
        kill_pack(KILLED_AFTER, source, tmp_path / "out", 4 << 20, samples, 6)
    headrace.pack_dataset(source, tmp_path / "out", shard_size=4 << 20, fps=6)
    assert digests(tmp_path / "out") == expected


def test_options_and_versions_are_in_the_recipe(videos: Path, tmp_path: Path) -> None:
    import av

    headrace.pack_dataset(videos, tmp_path / "out", fps=5, shrink=Shrink(short=24), quality=70)
    recipe = read_recipe(tmp_path / "out")["video"]
    assert (recipe["fps"], recipe["short"], recipe["quality"]) == (5, 24, 70)
    assert recipe["av"] == av.__version__
    assert recipe["libavcodec"].split(".")[0].isdigit()
    dataset = headrace.open_dataset(tmp_path / "out")
    assert set(dataset.index["mjpg.fps"].to_pylist()) == {5.0}
    assert set(dataset.index["mjpg.height"].to_pylist()) == {24}


@pytest.mark.parametrize("options", [{"fps": 5}, {"quality": 80}, {"shrink": Shrink(short=24)}])
def test_a_pack_with_other_options_is_another_pack(
    videos: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    headrace.pack_dataset(videos, tmp_path / "out")
    with pytest.raises(PackError, match="other options"):
        headrace.pack_dataset(videos, tmp_path / "out", **options)


def test_shards_of_a_killed_pack_with_another_pyav_are_not_reused(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_pack(KILLED_AFTER, videos, tmp_path / "out", 3000, 5)
    kept = shutil.copytree(tmp_path / "out", tmp_path / "kept")
    assert headrace.pack_dataset(videos, tmp_path / "out", shard_size=3000).resumed > 0
    monkeypatch.setattr("av.__version__", "99.0")
    assert headrace.pack_dataset(videos, kept, shard_size=3000).resumed == 0


def test_a_finished_pack_is_recognised_and_a_touched_file_compared(
    videos: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(videos, tmp_path / "source")
    with open(source / "cat/000.mp4", "ab") as file:
        file.write(bytes(2000))  # room for another video of the same size
    first = headrace.pack_dataset(source, tmp_path / "out")
    os.utime(source / "cat/000.mp4")
    assert headrace.pack_dataset(source, tmp_path / "out").resumed == first.shards
    other = write_video(tmp_path / "other.mp4", draw_frames(10, 64, 48, seed=9))
    data, size = other.read_bytes(), (source / "cat/000.mp4").stat().st_size
    (source / "cat/000.mp4").write_bytes(data.ljust(size, b"\0"))
    assert (source / "cat/000.mp4").stat().st_size == size
    with pytest.raises(PackError, match="cat/000.mp4 changed after it was packed"):
        headrace.pack_dataset(source, tmp_path / "out")


def test_a_broken_file_is_named_with_the_frame_and_skipped_on_request(
    videos: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(videos, tmp_path / "source")
    path = write_video(source / "cat/broken.mkv", draw_frames(40))
    path.write_bytes(path.read_bytes()[:-400])
    (source / "dog/empty.mp4").write_bytes(b"")
    with pytest.raises(PackError, match=r"cat/broken\.mkv: broke at frame \d+: "):
        headrace.pack_dataset(source, tmp_path / "out")
    summary = headrace.pack_dataset(source, tmp_path / "out", on_error="skip")
    assert summary.samples == 6
    lines = (tmp_path / "out/rejected.jsonl").read_text().splitlines()
    names = [json.loads(line)["name"] for line in lines]
    assert sorted(names) == ["cat/broken.mkv", "dog/empty.mp4"]
    assert headrace.verify_dataset(tmp_path / "out") == []


def test_shards_have_about_the_size_that_was_asked_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(12):
        noise = [np.kron(rng.integers(0, 256, (12, 16, 3)), np.ones((8, 8, 1))).astype(np.uint8) for _ in range(20)]  # fmt: skip
        write_video(tmp_path / "v" / f"{number}.mp4", noise)
    summary = headrace.pack_dataset(tmp_path / "v", tmp_path / "out", shard_size=300_000)
    sizes = [path.stat().st_size for path in (tmp_path / "out").glob("*.tar")]
    assert 3 <= summary.shards <= 12
    assert max(sizes) < 900_000


def test_a_video_larger_than_a_shard_has_its_own(videos: Path, tmp_path: Path) -> None:
    assert headrace.pack_dataset(videos, tmp_path / "out", shard_size=1).shards == 6


def test_progress_runs_over_the_estimated_sizes(videos: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    headrace.pack_dataset(videos, tmp_path / "out", progress=seen.append)
    total = int(open_videos(videos).estimate_sizes().sum())
    assert seen[-1] == (6, 6, total, total)


def test_a_video_beyond_max_file_size_is_rejected_and_its_file_may_be_larger(
    videos: Path, tmp_path: Path
) -> None:
    with pytest.raises(PackError, match=r"--max-file-size.*--fps"):
        headrace.pack_dataset(videos, tmp_path / "out", max_file_size=2000)
    source = shutil.copytree(videos, tmp_path / "source")
    with open(source / "cat/000.mp4", "ab") as file:
        file.write(b"\0\0\x40\x08free" + bytes(0x400000))
    headrace.pack_dataset(source, tmp_path / "large", max_file_size=1 << 20, on_error="raise")


def test_fps_and_quality_are_refused_where_there_are_no_video_files(tmp_path: Path) -> None:
    (tmp_path / "i").mkdir()
    (tmp_path / "i/a.jpg").write_bytes(photos(1)[0])
    for options in ({"fps": 5}, {"quality": 80}):
        with pytest.raises(ValueError, match="applies to video files"):
            headrace.pack_dataset(tmp_path / "i", tmp_path / "out", **options)


def test_options_for_an_open_source_are_refused(videos: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pass its path instead"):
        headrace.pack_dataset(open_videos(videos), tmp_path / "out", fps=5)


def test_a_destination_inside_the_videos_is_refused(videos: Path) -> None:
    with pytest.raises(PackError, match="lies inside the folder of videos"):
        headrace.pack_dataset(videos, videos / "out")


@pytest.mark.parametrize("to", ["gulp", "folder"])
def test_packed_videos_are_exported_and_read_back(videos: Path, tmp_path: Path, to: str) -> None:
    headrace.pack_dataset(videos, tmp_path / "out", order="source")
    dataset = headrace.open_dataset(tmp_path / "out")
    export_samples(dataset, tmp_path / "there", to=to, classes=dataset.classes)
    back = headrace.open_source(tmp_path / "there")
    assert list(back.classes or ()) == ["cat", "dog"]
    found = {sample.key: sample for sample in map(back.read, range(6))}
    for sample in dataset:
        again = found[sample.key]
        assert again.label == sample.label
        frames = [frame.rstrip(b"\0") for frame in again.split_frames()]
        assert frames == sample.split_frames()
    if to == "folder":
        names = sorted(path.name for path in (tmp_path / "there/frames/cat/000").iterdir())
        assert names == [f"{k:05d}.jpg" for k in range(1, 11)]


def test_verify_finds_a_damaged_frame(videos: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(videos, tmp_path / "out")
    row = headrace.open_dataset(tmp_path / "out").index["mjpg.offset"][0].as_py()
    shard = next((tmp_path / "out").glob("*.tar"))
    data = bytearray(shard.read_bytes())
    data[row + 300] ^= 1
    shard.write_bytes(data)
    assert any("mjpg" in str(problem) for problem in headrace.verify_dataset(tmp_path / "out"))


def write_frame_folders(root: Path, kind: str) -> Path:
    for name in ("1", "2"):
        (root / name).mkdir(parents=True)
        for number in range(3):
            data = encode(24, 32, seed=number, format=kind)
            (root / name / f"{number}.{kind.lower()}").write_bytes(data)
    (root / "list.csv").write_text("1;a\n2;b\n")
    return root


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_frames_that_are_not_jpegs_are_encoded_on_request_only(tmp_path: Path, kind: str) -> None:
    source = write_frame_folders(tmp_path / "v", kind)
    with pytest.raises(PackError, match=f"frames are {kind}; give --encode jpg"):
        headrace.pack_dataset(source, tmp_path / "out")
    with pytest.raises(PackError, match="give --encode jpg"):
        headrace.pack_dataset(source, tmp_path / "out", encode=Encode("png"))
    headrace.pack_dataset(source, tmp_path / "out", encode=Encode("jpg", quality=80))
    sample = headrace.open_dataset(tmp_path / "out")[0]
    assert [frame[:2] for frame in sample.split_frames()] == [b"\xff\xd8"] * 3
    small = headrace.pack_dataset(source, tmp_path / "less", encode=Encode("jpg", quality=20))
    assert small.bytes <= headrace.open_dataset(tmp_path / "out").manifest.bytes


def test_frames_that_are_jpegs_keep_their_bytes_whatever_is_asked_for(tmp_path: Path) -> None:
    source = write_frame_folders(tmp_path / "v", "JPEG")
    (source / "1/9.png").write_bytes(encode(24, 32, format="PNG"))  # not a frame, beside JPEGs
    headrace.pack_dataset(source, tmp_path / "out", encode=Encode("jpg", quality=20), order="source")  # fmt: skip
    sample = headrace.open_dataset(tmp_path / "out")[0]
    files = sorted((source / "1").glob("*.jpeg"))
    assert sample.split_frames() == [path.read_bytes() for path in files]


def test_the_estimate_comes_close_and_says_what_options_save(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(4):
        noise = [np.kron(rng.integers(0, 256, (288, 512, 3)), np.ones((2, 2, 1))).astype(np.uint8) for _ in range(10)]  # fmt: skip
        write_video(tmp_path / "v" / f"{number}.mp4", noise)
    (tmp_path / "v/broken.mp4").write_bytes(b"nothing")
    source = open_videos(tmp_path / "v")
    estimate = estimate_videos(source)
    assert estimate is not None
    packed = sum(len(source.read(i)["mjpg"]) for i in range(4))
    assert estimate.frames == pytest.approx(40, abs=1)
    assert 0.7 * packed < estimate.bytes < 1.4 * packed
    assert estimate.seconds > 0
    assert set(estimate.other) == {"--fps 12", "--resize-short 256", "--quality 75"}
    assert estimate.other["--fps 12"] == pytest.approx(estimate.bytes * 12 / 25, rel=0.2)


def test_nothing_can_be_estimated_from_broken_files(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"nothing")
    assert estimate_videos(open_videos(tmp_path)) is None


def test_a_strip_of_frames_is_drawn_from_a_dataset(videos: Path, tmp_path: Path) -> None:
    from headrace.cli.show import draw_sheet

    headrace.pack_dataset(videos, tmp_path / "out")
    sheet = draw_sheet(headrace.open_dataset(tmp_path / "out"), [0, 1], 32)
    assert isinstance(sheet, Image.Image)
    assert sheet.width == 8 * 32
