"""The layout `videos`: class folders, listings and 20BN's CSV of video files, and how it is told from others."""

from __future__ import annotations

import builtins
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from formats.making import photos
from formats.making_videos import draw_frames, write_class_folders, write_video
from headrace.errors import MissingExtraError, SourceChangedError, SourceError
from headrace.formats.detect import detect, open_source
from headrace.formats.layouts.videos import open_videos
from headrace.formats.video_files import VideoFiles
from headrace.formats.video_options import VideoOptions


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of 30 frames at 25 per second."""
    return write_video(tmp_path_factory.mktemp("clip") / "clip.mp4", draw_frames(30))


def place(clip: Path, *paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(clip, path)


def open_detected(path: Path, **options: Any) -> VideoFiles:
    layout = detect(path, **options)
    assert layout.name == "videos"
    source = layout.open()
    assert isinstance(source, VideoFiles)
    return source


def test_class_folders_have_labels_and_other_files_are_ignored(clip: Path, tmp_path: Path) -> None:
    place(clip, tmp_path / "b/x.MP4", tmp_path / "a/deep/y.webm", tmp_path / "a/z.ts")
    (tmp_path / "README.txt").write_text("hello")
    (tmp_path / "c").mkdir()
    source = open_detected(tmp_path)
    assert source.names == ["a/z.ts", "a/deep/y.webm", "b/x.MP4"]
    assert source.classes == ["a", "b", "c"]
    samples = [source.read(i) for i in range(3)]
    assert [sample.label for sample in samples] == [0, 0, 1]
    assert [sample.key for sample in samples] == ["a/z", "a/deep/y", "b/x"]
    assert source.ignored == ["README.txt"]
    assert samples[0].fps == {"mjpg": 25.0}
    assert samples[0].times == {}
    assert len(samples[0].split_frames()) == 30


def test_a_flat_folder_has_no_labels(clip: Path, tmp_path: Path) -> None:
    place(clip, tmp_path / "a.mp4", tmp_path / "b.mkv")
    source = open_detected(tmp_path)
    assert source.classes is None
    assert [source.read(i).label for i in range(2)] == [None, None]


@pytest.mark.parametrize("image", ["a/i.jpg", "b/i.png"])
def test_images_and_videos_in_one_folder_are_ambiguous(
    clip: Path, tmp_path: Path, image: str
) -> None:
    place(clip, tmp_path / "a/x.mp4")
    (tmp_path / image).parent.mkdir(exist_ok=True)
    (tmp_path / image).write_bytes(photos(1)[0])
    with pytest.raises(SourceError, match="both videos and images .*--format videos or --format"):
        detect(tmp_path)
    assert open_detected(tmp_path, format="videos").names == ["a/x.mp4"]
    assert open_source(tmp_path, format="folder").names == [image]


def test_images_beside_class_folders_of_videos_are_ignored_and_the_other_way_round(
    clip: Path, tmp_path: Path
) -> None:
    place(clip, tmp_path / "a/x.mp4")
    (tmp_path / "cover.jpg").write_bytes(photos(1)[0])
    assert open_detected(tmp_path).ignored == ["cover.jpg"]
    images = tmp_path / "images"
    place(clip, images / "trailer.mp4")
    (images / "a").mkdir()
    (images / "a/i.jpg").write_bytes(photos(1)[0])
    assert detect(images).name == "folder"


def test_splits_are_not_classes(clip: Path, tmp_path: Path) -> None:
    place(clip, tmp_path / "train/a/x.mp4", tmp_path / "val/a/x.mp4")
    with pytest.raises(SourceError, match="look like splits .* --format videos"):
        detect(tmp_path)
    assert open_detected(tmp_path / "train").classes == ["a"]


def test_a_listing_has_labels_and_columns(clip: Path, tmp_path: Path) -> None:
    place(clip, tmp_path / "v/x.mp4", tmp_path / "v/y.mp4", tmp_path / "v/z.mp4")
    (tmp_path / "list.csv").write_text("path,label,who\nv/y.mp4,wave,ann\nv/x.mp4,clap,bob\n")
    for path, options in ((tmp_path, {}), (tmp_path / "list.csv", {}), (tmp_path, {"format": "videos"})):  # fmt: skip
        source = open_detected(path, **options)
        assert (list(source.names), source.classes) == (["v/y.mp4", "v/x.mp4"], ["clap", "wave"])
        assert source.columns.names == ["who"]
    assert open_detected(tmp_path).ignored == ["v/z.mp4"]
    sample = source.read(0)
    assert (sample.key, sample.label, sample.columns) == ("v/y", 1, {"who": "ann"})


def test_a_listing_may_lie_elsewhere_and_have_ids_without_suffix(
    clip: Path, tmp_path: Path
) -> None:
    place(clip, tmp_path / "v/x.mp4")
    (tmp_path / "a.csv").write_text("path,label\nx.mp4,3\n")
    assert open_detected(tmp_path / "v", listing=tmp_path / "a.csv").labels == [3]
    (tmp_path / "b.csv").write_text("youtube_id,class\nx,3\n")
    columns = {"path_column": "youtube_id", "label_column": "class", "format": "videos"}
    source = open_detected(tmp_path / "v", listing=tmp_path / "b.csv", **columns)
    assert (source.names, source.labels) == (["x.mp4"], [3])


def test_rows_may_cut_one_file(clip: Path, tmp_path: Path) -> None:
    place(clip, tmp_path / "x.mp4", tmp_path / "y.mp4")
    rows = "x.mp4,0,0,0.4\nx.mp4,1,0.4,\nx.mp4,2,,\ny.mp4,3,1.0,1.1\n"
    (tmp_path / "list.csv").write_text("path,label,start,end\n" + rows)
    source = open_detected(tmp_path)
    samples = [source.read(i) for i in range(4)]
    assert [s.key for s in samples] == ["x_0_400", "x_400_end", "x", "y_1000_1100"]
    assert [len(s.split_frames()) for s in samples] == [10, 20, 30, 3]
    whole = samples[2].split_frames()
    assert samples[0].split_frames() + samples[1].split_frames() == whole
    assert samples[3].split_frames() == whole[25:28]
    assert dict(samples[1].columns) == {"start": 0.4, "end": None}
    assert source.names[3] == "y.mp4 (1 to 1.1 s)"
    assert source.sizes.sum() == pytest.approx(2 * clip.stat().st_size, abs=3)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("x.mp4,1,2\nx.mp4,1,2\n", "'x.mp4 .1 to 2 s.' is listed twice"),
        ("x.mp4,2,1\n", "row 1: from 2 to 1: `start` must be at least 0 and less than `end`"),
        ("x.mp4,-1,1\n", "row 1"),
        ("x.mp4,one,two\n", "the column '(start|end)' is string; it must be in seconds"),
        ("x.mp4,0,1\nx.jpg,0,1\n", "row 2: 'x.jpg' does not have the suffix of a video"),
    ],
)
def test_wrong_rows_are_errors_that_name_them(
    clip: Path, tmp_path: Path, rows: str, reason: str
) -> None:
    place(clip, tmp_path / "x.mp4")
    (tmp_path / "list.csv").write_text("path,start,end\n" + rows)
    with pytest.raises(SourceError, match=reason):
        open_source(tmp_path, format="videos")


def test_a_part_after_the_end_and_a_missing_file_are_bad_samples(
    clip: Path, tmp_path: Path
) -> None:
    place(clip, tmp_path / "x.mp4")
    (tmp_path / "list.csv").write_text("path,start,end\nx.mp4,9,10\nno.mp4,,\nx.mp4,0,1\n")
    source = open_detected(tmp_path)
    with pytest.raises(SourceError, match="has no frames from 9 s on"):
        source.read(0)
    with pytest.raises(SourceError, match="no such file below"):
        source.read(1)
    assert len(source.read(2).split_frames()) == 25


@pytest.mark.parametrize("where", [".", "clips"])
def test_20bn_ids_name_files_beside_their_list(clip: Path, tmp_path: Path, where: str) -> None:
    place(clip, tmp_path / where / "7.webm", tmp_path / where / "12.mp4")
    (tmp_path / "list.csv").write_text("12;Swiping Left\n7;Drumming\n")
    for path in (tmp_path, tmp_path / "list.csv"):
        source = open_detected(path)
        assert source.names == ["12.mp4", "7.webm"]
        assert source.classes == ["Drumming", "Swiping Left"]
        assert [source.read(i).key for i in range(2)] == ["12", "7"]
        assert list(source.labels) == [1, 0]
    moved = tmp_path / "elsewhere" / "a.csv"
    moved.parent.mkdir()
    (tmp_path / "list.csv").rename(moved)
    assert open_detected(tmp_path / where, listing=moved).names == ["12.mp4", "7.webm"]


def test_a_20bn_id_without_a_file_is_named(clip: Path, tmp_path: Path) -> None:
    place(clip, tmp_path / "7.webm")
    (tmp_path / "list.csv").write_text("7;a\n8;b\n")
    with pytest.raises(SourceError, match=r"no video 8 \(\.webm, \.mp4, \.\.\.\) in"):
        open_source(tmp_path)


def test_20bn_folders_of_frames_are_still_frames(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/1.jpg").write_bytes(photos(1)[0])
    (tmp_path / "list.csv").write_text("7;a\n")
    assert detect(tmp_path).name == "frames"
    assert detect(tmp_path, listing=tmp_path / "list.csv").name == "frames"


def test_options_are_those_that_the_source_was_opened_with(clip: Path) -> None:
    source = open_videos(clip.parent, video=VideoOptions(fps=5, short=16, quality=50))
    sample = source.read(0)
    assert (len(sample.split_frames()), sample.fps) == (6, {"mjpg": 5})
    assert source.recipe["fps"] == 5
    assert {"av", "libavcodec", "pillow", "short", "longest", "quality"} < set(source.recipe)


def test_sizes_are_estimated_from_headers_and_change_with_the_options(tmp_path: Path) -> None:
    source = open_videos(write_class_folders(tmp_path))
    expected = source.estimate_sizes()
    assert (source.sizes == [os.path.getsize(tmp_path / name) for name in source.names]).all()
    packed = [len(source.read(i)["mjpg"]) for i in range(len(source.names))]
    assert (expected > 0.2 * min(packed)).all()
    assert (expected < 10 * max(packed)).all()
    smaller = source.with_options(VideoOptions(fps=5)).estimate_sizes()
    assert (smaller < expected / 3).all()
    assert (open_videos(tmp_path).estimate_sizes() == expected).all()


def test_audio_is_named_among_what_is_ignored(clip: Path, tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", draw_frames(3), audio=True)
    place(clip, tmp_path / "b.mp4")
    source = open_videos(tmp_path)
    source.estimate_sizes()
    assert source.ignored == ["the audio of 1 videos"]


def test_a_file_that_changed_or_vanished_since_is_an_error(clip: Path, tmp_path: Path) -> None:
    place(clip, tmp_path / "a.mp4", tmp_path / "b.mp4")
    source = open_videos(tmp_path)
    os.utime(tmp_path / "a.mp4", ns=(0, 0))
    (tmp_path / "b.mp4").unlink()
    for row in range(2):
        with pytest.raises(SourceChangedError):
            source.read(row)


def test_a_name_may_be_any_bytes(clip: Path, tmp_path: Path) -> None:
    shutil.copy(clip, os.fsencode(tmp_path) + b"/a:\xff#%d.mp4")
    assert len(open_videos(tmp_path).read(0).split_frames()) == 30


def test_a_pipe_with_the_name_of_a_video_is_ignored(clip: Path, tmp_path: Path) -> None:
    place(clip, tmp_path / "a.mp4")
    os.mkfifo(tmp_path / "b.mp4")
    assert open_videos(tmp_path).names == ["a.mp4"]


def test_without_pyav_the_error_names_the_extra(
    clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name == "av":
            raise ModuleNotFoundError("No module named 'av'", name="av")
        return original(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"PyAV.*'.\[video\]'"):
        open_source(clip.parent)
