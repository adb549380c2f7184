from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.errors import SourceChangedError, SourceError
from headrace.formats.detect import open_source
from headrace.formats.layouts.folder import open_folder
from images import encode
from trees import make_folder, write_images


def test_classes_are_the_sorted_top_directories_with_any_nesting_below(tmp_path: Path) -> None:
    for name in ("dog/x/y/1.jpg", "cat/2.jpg", "cat/z/3.JPEG"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(encode(8, 8))
    (tmp_path / "empty").mkdir()
    source = open_folder(tmp_path)
    assert source.classes == ["cat", "dog", "empty"]
    assert list(source.names) == ["cat/2.jpg", "cat/z/3.JPEG", "dog/x/y/1.jpg"]
    assert list(source.labels) == [0, 0, 1]
    sample = source.read(1)
    assert (sample.key, sample.label, list(sample)) == ("cat/z/3", 0, ["jpg"])
    assert sample["jpg"] == (tmp_path / "cat/z/3.JPEG").read_bytes()


def test_labels_are_those_of_torchvision(tmp_path: Path, torchvision) -> None:
    from torchvision.datasets import ImageFolder

    make_folder(tmp_path, classes=4)
    source = open_folder(tmp_path)
    theirs = ImageFolder(str(tmp_path)).samples
    ours = [(str(tmp_path / name), label) for name, label in zip(source.names, source.labels)]
    assert ours == theirs


def test_samples_are_in_the_order_of_torchvision(tmp_path: Path, torchvision) -> None:
    from torchvision.datasets import ImageFolder

    names = ["cat/z", "cat/sub/a", "cat/sub/x/b", "cat/sub-b/a", "cat-wild/b", "cat breed/c", "Z/a"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.jpg").write_bytes(encode(8, 8))
    theirs = [os.path.relpath(path, tmp_path) for path, _ in ImageFolder(tmp_path).samples]
    assert list(open_folder(tmp_path).names) == theirs


def test_a_folder_without_directories_is_unlabelled(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(encode(8, 8))
    source = open_folder(tmp_path)
    assert source.classes is None
    assert source.read(0).label is None


def test_a_folder_whose_directories_have_no_images_is_unlabelled(tmp_path: Path) -> None:
    write_images(tmp_path, "0.jpg")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").touch()
    source = open_source(tmp_path)
    assert (source.names, source.labels, source.classes) == (["0.jpg"], [None], None)
    assert source.ignored == ["notes/a.txt"]


def test_an_index_is_not_a_class_unless_it_lies_beside_images(tmp_path: Path) -> None:
    write_images(tmp_path, "cat/0.jpg", "dog/1.jpg")
    (tmp_path / "aindex").mkdir()
    for name in ("aindex", "cat"):
        (tmp_path / name / "headrace.json").touch()
    assert open_source(tmp_path).classes == ["cat", "dog"]


def test_files_that_are_not_images_are_ignored_and_reported(tmp_path: Path) -> None:
    make_folder(tmp_path, classes=1, per_class=1)
    (tmp_path / "class0" / "notes.txt").write_text("hello")
    (tmp_path / "class0" / ".DS_Store").write_text("hidden")
    (tmp_path / "beside.jpg").write_bytes(encode(8, 8))
    source = open_folder(tmp_path)
    assert len(source.names) == 1
    assert list(source.ignored) == ["beside.jpg", "class0/notes.txt"]


@pytest.mark.parametrize(
    "name",
    ["__MACOSX", "@eaDir", "#recycle", "lost+found", "$RECYCLE.BIN", "System Volume Information"],
)
def test_what_systems_leave_behind_is_hidden(tmp_path: Path, name: str) -> None:
    write_images(tmp_path, "cat/0.jpg", f"cat/{name}/1.jpg", f"{name}/cat/2.jpg")
    source = open_source(tmp_path)
    assert (source.classes, source.names, source.ignored) == (["cat"], ["cat/0.jpg"], [])
    assert open_source(tmp_path / "cat").classes is None


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    make_folder(tmp_path, classes=1, per_class=2)
    (tmp_path / "class0" / "again").symlink_to(tmp_path / "class0")
    assert len(open_folder(tmp_path).names) == 2


@pytest.mark.parametrize("name", ["self", "class0/self"])
def test_a_link_to_itself_is_ignored(tmp_path: Path, name: str) -> None:
    make_folder(tmp_path, classes=1, per_class=2)
    (tmp_path / name).symlink_to(tmp_path / name)
    source = open_source(tmp_path)
    assert (len(source.names), source.classes, source.ignored) == (2, ["class0"], [name])


def test_a_link_to_nowhere_is_listed_and_rejected_when_read(tmp_path: Path) -> None:
    make_folder(tmp_path, classes=1, per_class=1)
    (tmp_path / "class0" / "gone.jpg").symlink_to("nowhere.jpg")
    source = open_folder(tmp_path)
    with pytest.raises(SourceError, match="link to nowhere"):
        source.read(list(source.names).index("class0/gone.jpg"))


@pytest.mark.parametrize("name", ["pipe.jpg", "link.jpg"])
def test_a_pipe_is_ignored_without_waiting_for_it(tmp_path: Path, name: str) -> None:
    make_folder(tmp_path / "in", classes=1, per_class=1)
    os.mkfifo(tmp_path / "in/class0/pipe.jpg" if name == "pipe.jpg" else tmp_path / "pipe")
    if name == "link.jpg":
        (tmp_path / "in/class0/link.jpg").symlink_to(tmp_path / "pipe")
    source = open_folder(tmp_path / "in")
    assert (len(source.names), source.ignored) == (1, [f"class0/{name}"])


def test_a_name_is_an_image_only_with_a_dot_before_its_suffix(tmp_path: Path) -> None:
    for name in ("1.jpg", "jpg"):
        (tmp_path / name).write_bytes(encode(8, 8))
    source = open_folder(tmp_path)
    assert (list(source.names), source.ignored) == (["1.jpg"], ["jpg"])


def test_a_file_that_vanishes_or_changes_is_told_apart_from_a_bad_one(tmp_path: Path) -> None:
    make_folder(tmp_path, classes=1, per_class=3)
    source = open_folder(tmp_path)
    (tmp_path / source.names[0]).unlink()
    (tmp_path / source.names[1]).write_bytes(encode(9, 9))
    os.utime(tmp_path / source.names[2], ns=(1, 1))
    for i, reason in enumerate(["vanished", "changed", "changed"]):
        with pytest.raises(SourceChangedError, match=reason):
            source.read(i)


def test_no_folder_and_no_images_are_errors_that_name_the_path(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere"):
        open_folder(tmp_path / "nowhere")
    with pytest.raises(SourceError, match="no image files"):
        open_folder(tmp_path)
