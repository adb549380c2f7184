"""The commands on video files: pack with its estimate, info, show and export."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from formats.making_videos import draw_frames, write_class_folders, write_video
from headrace import open_dataset


def headrace(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_class_folders(tmp_path_factory.mktemp("videos") / "videos")
    write_video(root / "dog/sound.mp4", draw_frames(20, 64, 48), audio=True)
    return root


def test_pack_prints_an_estimate_first_and_keeps_stdout_for_json(
    videos: Path, tmp_path: Path
) -> None:
    result = headrace("pack", videos, tmp_path / "out", "--json")
    assert result.returncode == 0, result.stderr
    first, *more = result.stderr.splitlines()
    assert first.startswith("estimate: 7 videos, 86 frames, about ")
    assert any(line.startswith("  with --fps 12: about ") for line in more)
    content = json.loads(result.stdout)
    assert content["videos"] == {
        "frames": 86,
        "seconds": pytest.approx(86 / 25, abs=0.001),
        "fps": [25.0, 25.0],
        "width": [64, 96],
        "height": [48, 48],
        "varying_rate": 0,
    }
    assert content["ignored"] == ["the audio of 1 videos"]


def test_pack_takes_fps_size_and_quality(videos: Path, tmp_path: Path) -> None:
    options = ("--fps", "12.5", "--resize-short", "24", "--quality", "60", "--format", "videos")
    result = headrace("pack", videos, tmp_path / "out", *options)
    assert result.returncode == 0, result.stderr
    assert "12.5 fps, 32 x 24 to 48 x 24" in result.stdout
    assert "the audio of 1 videos" in result.stdout
    index = open_dataset(tmp_path / "out").index
    assert set(index["mjpg.fps"].to_pylist()) == {12.5}


def test_a_broken_video_is_named_with_its_frame(videos: Path, tmp_path: Path) -> None:
    path = write_video(tmp_path / "v/clip.mkv", draw_frames(30))
    write_video(tmp_path / "v/good.mp4", draw_frames(3))
    path.write_bytes(path.read_bytes()[:-300])
    result = headrace("pack", tmp_path / "v", tmp_path / "out")
    assert result.returncode == 2
    assert "clip.mkv: broke at frame " in result.stderr
    result = headrace("pack", tmp_path / "v", tmp_path / "out", "--on-error", "skip")
    assert result.returncode == 0, result.stderr
    assert "rejected clip.mkv: broke at frame " in result.stderr
    assert (tmp_path / "out/rejected.jsonl").exists()


def test_info_describes_video_files_by_their_headers(videos: Path) -> None:
    content = json.loads(headrace("info", videos, "--json").stdout)
    assert (content["format"], content["samples"], content["kinds"]) == ("videos", 7, {"h264": 7})
    assert content["fields"] == ["mjpg"]
    assert content["videos"]["frames"] == 86
    table = headrace("info", videos).stdout
    assert "86 frames, 3.4 s, 25 fps, 64 x 48 to 96 x 48" in table


def test_show_draws_a_strip_of_frames_per_video(videos: Path, tmp_path: Path) -> None:
    headrace("pack", videos, tmp_path / "out")
    for path in (videos, tmp_path / "out"):
        result = headrace("show", path, "--out", tmp_path / "a.png", "--size", 64, "--count", 3, "--force")  # fmt: skip
        assert result.returncode == 0, result.stderr
        with Image.open(tmp_path / "a.png") as sheet:
            assert sheet.size == (8 * 64, 3 * (64 + 14))
            pixels = sheet.convert("L")
        levels = [pixels.getpixel((k * 64 + 50, 40)) for k in range(8)]
        assert len(set(levels)) == 8  # the background of each frame is lighter
        assert levels == sorted(levels)


def test_verify_and_export_work_on_packed_videos(videos: Path, tmp_path: Path) -> None:
    headrace("pack", videos, tmp_path / "out")
    assert headrace("verify", tmp_path / "out").returncode == 0
    for to in ("gulp", "folder"):
        result = headrace("export", tmp_path / "out", tmp_path / to, "--to", to)
        assert result.returncode == 0, result.stderr
        assert json.loads(headrace("info", tmp_path / to, "--json").stdout)["samples"] == 7


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--fps", "5"), "--fps needs video files"),
        (("--quality", "80"), "--quality needs --resize-short, --max-side, --encode, or videos"),
    ],
)
def test_options_for_videos_are_refused_for_images(
    shared: Path, tmp_path: Path, options: tuple[str, str], reason: str
) -> None:
    result = headrace("pack", shared / "fixtures/gulp", tmp_path / "out", *options)
    assert result.returncode == 2
    assert reason in " ".join(result.stderr.replace("│", " ").split())


def test_a_rate_that_is_not_positive_is_refused(videos: Path, tmp_path: Path) -> None:
    result = headrace("pack", videos, tmp_path / "out", "--fps", "0")
    assert (result.returncode, "fps is 0" in result.stderr) == (2, True)


def test_without_pyav_the_extra_is_named(videos: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['av'] = None; from headrace.cli import main; "
        f"sys.argv = ['headrace', 'pack', {str(videos)!r}, {str(tmp_path / 'out')!r}]; main()"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "pip install '.[video]'" in result.stderr
    assert "Traceback" not in result.stderr
