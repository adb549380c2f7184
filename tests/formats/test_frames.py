"""20BN's listings of videos that are folders of frames."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from formats.fixtures import FIXTURES, expected, sha256
from formats.making import photos
from headrace.errors import SourceChangedError, SourceError
from headrace.formats.detect import open_source
from headrace.formats.layouts.frames import open_frames


def test_every_frame_is_the_file_that_lies_there(shared: Path) -> None:
    source, videos = open_frames(FIXTURES / "gulp-source/list.csv"), expected("gulp-source")
    assert source.classes == sorted({video["label"] for video in videos["videos"]})
    for i, video in enumerate(videos["videos"]):
        sample = source.read(i)
        assert sample.key == video["id"]
        assert source.classes[sample.label] == video["label"]
        assert [sha256(f) for f in sample.split_frames()] == [f["sha256"] for f in video["frames"]]


def make_videos(root: Path, listing: str) -> Path:
    for name in ("7", "8"):
        (root / name).mkdir(parents=True)
        for k, data in enumerate(photos(3)):
            (root / name / f"{k:05d}.jpg").write_bytes(data)
    (root / "list.csv").write_text(listing)
    return root / "list.csv"


def test_the_folder_may_be_named_beside_the_listing(tmp_path: Path) -> None:
    listing = make_videos(tmp_path / "videos", "7;5\n8;6\n")
    moved = tmp_path / "elsewhere.csv"
    listing.rename(moved)
    source = open_source(tmp_path / "videos", listing=moved)
    assert [source.read(i).label for i in range(2)] == [5, 6]
    assert source.classes is None


def test_an_empty_label_means_no_label_and_a_byte_order_mark_does_not_belong_to_an_id(
    tmp_path: Path,
) -> None:
    source = open_frames(make_videos(tmp_path, "\ufeff7;\n8;cat\n"))
    assert (list(source.names), source.classes) == (["7", "8"], ["cat"])
    assert [source.read(i).label for i in range(2)] == [None, 0]


def test_a_number_with_zeros_before_it_is_a_name(tmp_path: Path) -> None:
    assert open_frames(make_videos(tmp_path, "7;007\n8;7\n")).classes == ["007", "7"]


@pytest.mark.parametrize(
    ("listing", "reason"),
    [
        ("7;a\n7;b\n", "line 2: 7 listed twice"),
        ("../x;a\n", "line 1: '../x' is not the name of a folder"),
        ("7;a\n9;b\n", "9: No such file"),
        ("7;a;b\n", "7 has 3 entries"),
        ('7;"a\n8;b\n', "after 0 ids: .*are its quotes closed"),
        (";\n", "is not the name of a folder"),
    ],
)
def test_a_wrong_line_is_an_error_that_names_it(tmp_path: Path, listing: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        open_frames(make_videos(tmp_path, listing))


def test_a_list_that_is_not_utf8_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    listing = make_videos(tmp_path, "")
    listing.write_bytes("7;bär\n".encode("cp1252"))
    with pytest.raises(SourceError, match="list.csv: not all UTF-8; save the file as UTF-8"):
        open_frames(listing)


def test_a_frame_that_is_a_pipe_is_an_error_and_not_waited_for(tmp_path: Path) -> None:
    listing = make_videos(tmp_path, "7;a\n")
    os.mkfifo(tmp_path / "7/00009.jpg")
    with pytest.raises(SourceError, match="00009.jpg: not a regular file"):
        open_frames(listing)


def test_frames_that_change_after_listing_are_an_error(tmp_path: Path) -> None:
    source = open_frames(make_videos(tmp_path, "7;a\n"))
    os.utime(tmp_path / "7/00001.jpg", ns=(0, 1 << 62))
    with pytest.raises(SourceChangedError, match="changed"):
        source.read(0)


def test_a_frame_that_is_not_a_jpeg_is_an_error(tmp_path: Path) -> None:
    listing = make_videos(tmp_path, "7;a\n")
    (tmp_path / "7/00001.jpg").write_bytes(b"GIF89a")
    with pytest.raises(SourceError, match="00001.jpg is not a JPEG"):
        open_frames(listing).read(0)


def test_two_folders_with_the_same_videos_are_an_error_that_says_how_to_choose(
    tmp_path: Path,
) -> None:
    for name in (".old/7", "flow/7", "notes/7", "rgb/7"):
        (tmp_path / name).mkdir(parents=True)
        if name != "notes/7":
            (tmp_path / name / "0.jpg").write_bytes(photos(1)[0] + name.encode())
    listing = tmp_path / "list.csv"
    listing.write_text("7;a\n")
    advice = rf"frames of 7: {tmp_path}/flow, {tmp_path}/rgb; .*pack {tmp_path}/rgb OUT --listing"
    with pytest.raises(SourceError, match=advice):
        open_source(tmp_path)
    chosen = open_source(tmp_path / "rgb", listing=listing)
    assert chosen.read(0)["mjpg"].endswith(b"rgb/7")


def test_frames_come_in_the_order_of_their_numbers_and_hidden_files_are_none(
    tmp_path: Path,
) -> None:
    listing, photo = make_videos(tmp_path, "9;a\n"), photos(1)[0]
    (tmp_path / "9").mkdir()
    (tmp_path / "9/._1.jpg").write_bytes(b"\0\5\x16\7")
    for k in range(1, 13):
        (tmp_path / f"9/{k}.jpg").write_bytes(photo + b"%d" % k)
    frames = open_frames(listing).read(0).split_frames()
    assert [int(frame[len(photo) :]) for frame in frames] == list(range(1, 13))
