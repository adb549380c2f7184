"""Which layout a path has is found by what is in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.fixtures import FIXTURES
from formats.making import (
    make_example,
    photos,
    write_arrow,
    write_parquet,
    write_tar,
    write_tfrecord,
)
from headrace import index_dataset, open_dataset, pack_dataset
from headrace.cli.open_path import open_samples
from headrace.errors import SourceError
from headrace.formats import folder_contents
from headrace.formats.detect import LAYOUTS, LayoutKind, detect, open_source
from headrace.formats.image_files import ImageFiles
from images import encode
from trees import make_folder, write_images


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("efficient-pytorch", "lmdb"),
        ("efficient-pytorch/val.lmdb", "lmdb"),
        ("tensorpack-raw-dir/data.lmdb", "lmdb"),
        ("tensorpack-raw-dir/data.lmdb/data.mdb", "lmdb"),
        ("unified-doc", "unified-doc"),
        ("unified-doc-merged/merged.lmdb", "unified-doc"),
        ("gulp", "gulp"),
        ("gulp-source", "frames"),
        ("gulp-source/list.csv", "frames"),
        ("gulp-source/frames", "folder"),
        ("webdataset", "webdataset"),
        ("webdataset/train-000001.tar", "webdataset"),
        ("webdataset/train-{000000..000002}.tar", "webdataset"),
        ("hostile/lmdb/struct-bad-magic.lmdb", "lmdb"),
    ],
)
def test_the_originals_are_recognised(shared: Path, path: str, name: str) -> None:
    assert detect(FIXTURES / path).name == name


def test_a_file_is_known_by_its_content_and_not_by_its_name(shared: Path, tmp_path: Path) -> None:
    copies = {
        "lmdb": FIXTURES / "tensorpack-pickle/data.lmdb",
        "webdataset": FIXTURES / "webdataset/train-000000.tar",
        "parquet": write_parquet(tmp_path / "a.parquet", photos(1)),
        "tfrecord": write_tfrecord(tmp_path / "a", [make_example({"image": photos(1)[0]})]),
    }
    for name, path in copies.items():
        shutil.copy(path, tmp_path / "unnamed")
        assert detect(tmp_path / "unnamed").name == name


def test_hugging_face_folders_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "hub/data").mkdir(parents=True)
    write_parquet(tmp_path / "hub/data/train.parquet", photos(1))
    assert detect(tmp_path / "hub").name == "parquet"
    (tmp_path / "saved").mkdir()
    write_arrow(tmp_path / "saved/data-00000-of-00001.arrow", photos(1))
    (tmp_path / "saved/state.json").write_text("{}")
    assert detect(tmp_path / "saved").name == "arrow"


def test_classes_beside_the_tars_they_came_in_are_an_image_folder(tmp_path: Path) -> None:
    for name in ("n01", "n02"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.JPEG").write_bytes(photos(1)[0])
        (tmp_path / f"{name}.tar").write_bytes(b"")
    assert detect(tmp_path).name == "folder"


@pytest.mark.parametrize(
    ("data", "way"),
    [
        ("shard-0.tar", "--format webdataset"),
        ("n01.tar", "--format webdataset"),
        ("extra.tar.zst", "--format webdataset"),
        ("x.lmdb", "the path .*/x.lmdb"),
        ("x.parquet", "--format parquet"),
    ],
)
def test_data_beside_folders_of_images_are_ambiguous(tmp_path: Path, data: str, way: str) -> None:
    for name in [f"empty{k:02d}" for k in range(10)] + ["n02/deep/er"]:
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "n02/deep/er/a.jpg").write_bytes(photos(1)[0])
    assert detect(tmp_path).name == "folder"
    (tmp_path / data).touch()
    with pytest.raises(
        SourceError, match=f"both {data} and folders .* with {way} or --format folder$"
    ):
        open_source(tmp_path)
    assert len(open_source(tmp_path, format="folder").names) == 1


def test_a_table_beside_a_container_of_images_is_not_called_an_image_folder(
    tmp_path: Path,
) -> None:
    write_images(tmp_path, "images/0.jpg")
    write_parquet(tmp_path / "train.parquet", photos(2))
    with pytest.raises(SourceError, match=r"both train.parquet and .* with --format parquet$"):
        open_source(tmp_path)
    assert len(open_source(tmp_path, format="parquet").names) == 2


def test_an_image_folder_is_found_without_walking_through_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        for k in range(5):
            (tmp_path / name / f"{k}.jpg").touch()
    seen = []
    monkeypatch.setattr(folder_contents, "is_image_name", lambda name: seen.append(name) or True)
    monkeypatch.setattr(folder_contents, "_WALKED_ON", 2)
    assert detect(tmp_path).name == "folder"
    assert len(seen) == 4  # 3 of 10 names, and 1 to see that a class holds images


def test_parquet_files_in_a_folder_of_any_name_are_found(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    write_parquet(tmp_path / "mnist/train-00000-of-00001.parquet", photos(2))
    assert len(open_source(tmp_path).names) == 2
    write_parquet(tmp_path / "mnist/test-00000-of-00001.parquet", photos(1))
    with pytest.raises(SourceError, match=r"several splits \(test, train\)"):
        open_source(tmp_path)


@pytest.mark.parametrize("heading", ["ClassId;SignName;Note", "ClassId;SignName"])
def test_a_table_of_classes_beside_them_is_not_a_list_of_videos(
    tmp_path: Path, heading: str
) -> None:
    for name in "01":
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").write_bytes(photos(1)[0])
    (tmp_path / "classes.csv").write_text(f"{heading}\n{heading.replace('ClassId', '14')}\n")
    assert len(open_source(tmp_path).names) == 2


def test_a_file_that_a_folder_was_judged_by_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(photos(1)[0])
    (tmp_path / "GT.csv").write_text("Filename;Width;ClassId\na.jpg;24;0\n")
    with pytest.raises(SourceError, match="taken for a listing .*GT.csv; use --format"):
        open_source(tmp_path)
    assert len(open_source(tmp_path, format="folder").names) == 1


def test_parquet_files_and_images_somewhere_below_are_ambiguous(tmp_path: Path) -> None:
    for name in ("data/train.parquet", "docs/figures/logo.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(SourceError, match=r"both data/train.parquet and folders of images"):
        detect(tmp_path)


def test_parquet_files_behind_a_linked_folder_are_found(tmp_path: Path) -> None:
    for name in ("set/a", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
        table = pa.table({"image": [encode(8, 8)], "label": [0]})
        pq.write_table(table, tmp_path / name / f"{name[:3]}.parquet")
    (tmp_path / "set" / "b").symlink_to(tmp_path / "elsewhere")
    assert len(open_source(tmp_path / "set").names) == 2


def test_lines_too_long_for_a_name_are_not_videos(tmp_path: Path) -> None:
    make_folder(tmp_path / "in")
    (tmp_path / "in" / "notes.csv").write_text("image;text\n" + 500 * "x" + ";y\n")
    (tmp_path / "in" / "captions.jsonl").write_text('{"caption": "' + 400 * "x" + '; y"}\n')
    assert detect(tmp_path / "in").name == "folder"
    (tmp_path / "in" / "captions.jsonl").unlink()
    assert detect(tmp_path / "in").name == "folder"


def test_folders_that_may_not_be_read_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tar(tmp_path / "0.tar", {"0.jpg": encode(8, 8)})
    (tmp_path / "private").mkdir()
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if os.path.basename(path) == "private":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert detect(tmp_path).name == "webdataset"


def test_a_list_of_videos_is_one_if_some_of_them_are_missing(tmp_path: Path) -> None:
    (tmp_path / "frames/8").mkdir(parents=True)
    (tmp_path / "frames/8/1.jpg").write_bytes(photos(1)[0])
    (tmp_path / "list.csv").write_text("7;a\n8;b\n")
    with pytest.raises(SourceError, match="no folder 7 beside it.*taken for a frames layout"):
        open_source(tmp_path)


def write_tree(root: Path, *names: str, **texts: str) -> Path:
    """Images of these names, and files with a text; `__` in their names is a dot."""
    write_images(root, *names)
    for name, text in texts.items():
        (root / name.replace("__", ".")).write_text(text)
    return root


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata__jsonl", '{"file_name": "images/0.jpg", "label": 3}\n'),
        ("train__csv", "id,path,label\n7,images/gone.jpg,2\n8,images/0.jpg,3\n"),
        ("LIST__TSV", "label\tfile\n3\timages/0.jpg\n"),
    ],
)
def test_a_listing_of_the_images_in_folders_that_are_not_classes_is_taken(
    tmp_path: Path, name: str, text: str
) -> None:
    write_tree(tmp_path, "images/0.jpg", **{name: text, "classes__csv": "id,name\n0,cat\n"})
    layout = detect(tmp_path)
    assert (layout.name, layout.place) == ("listing", tmp_path / name.replace("__", "."))
    assert open_source(tmp_path).labels[-1] == 3


@pytest.mark.parametrize("format", [None, "listing"])
def test_images_that_the_listing_of_a_folder_leaves_out_are_reported(
    tmp_path: Path, format: str | None
) -> None:
    write_tree(tmp_path, "images/0.jpg", "images/1.jpg", "2.jpg", list__csv="path\nimages/0.jpg\n")
    source = open_source(tmp_path, format=format)
    assert (source.names, source.ignored) == (["images/0.jpg"], ["2.jpg", "images/1.jpg"])
    assert not open_source(tmp_path / "list.csv").ignored


def test_a_listing_of_the_images_in_folders_that_may_be_classes_is_ambiguous(
    tmp_path: Path,
) -> None:
    write_tree(tmp_path, "cat/0.jpg", "dog/1.jpg", scores__csv="path,score\ncat/0.jpg,1\n")
    with pytest.raises(
        SourceError, match="both scores.csv.*cat, dog.*--format listing or --format folder"
    ):
        open_source(tmp_path)
    assert open_source(tmp_path, format="listing").names == ["cat/0.jpg"]
    assert open_source(tmp_path, format="folder").classes == ["cat", "dog"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("classes__csv", "path,label\ncat,3\n"),
        ("moved__csv", "path,label\nold/0.jpg,3\n../0.jpg,2\n"),
        ("empty__csv", ""),
        ("notes__jsonl", "[]\nnull\n"),
        ("broken__jsonl", '{"file_name": "cat/0.jpg"'),
        ("numbers__ndjson", '{"path": 5}\n'),
    ],
)
def test_a_table_that_names_no_image_is_not_a_listing_of_the_folders(
    tmp_path: Path, name: str, text: str
) -> None:
    write_tree(tmp_path, "cat/0.jpg", **{name: text})
    assert detect(tmp_path).name == "folder"


def test_several_listings_of_images_in_folders_are_ambiguous(tmp_path: Path) -> None:
    images = ("train/0.jpg", "test/1.jpg")
    lists = {f"{name.partition('/')[0]}__csv": f"path\n{name}\n" for name in images}
    write_tree(tmp_path, *images, **lists, submission__csv="id\n1\n")
    with pytest.raises(SourceError, match=r"several listings \(test.csv, train.csv\); say which"):
        open_source(tmp_path)


def test_several_lists_of_videos_are_ambiguous(tmp_path: Path) -> None:
    frames = ("20bn-jester-v1/1/00001.jpg", "20bn-jester-v1/2/00001.jpg")
    write_tree(tmp_path, *frames, labels__csv="a\nb\n", train__csv="1;a\n", val__csv="2;b\n")
    for format in (None, "frames"):
        with pytest.raises(
            SourceError, match=r"several listings \(labels.csv, train.csv, val.csv\)"
        ):
            open_source(tmp_path, format=format)


def test_several_databases_in_a_folder_are_ambiguous(shared: Path) -> None:
    with pytest.raises(SourceError, match="several databases .*say which one"):
        open_source(FIXTURES / "tensorpack-arrays")


def test_the_layout_can_be_named(shared: Path) -> None:
    source = open_source(FIXTURES / "unified-doc/warp24.lmdb", format="lmdb")
    assert len(source.names) == 12
    assert set(source.read(0)) == {"image.npy", "label.npy"}
    assert len(open_source(FIXTURES / "gulp-source", format="frames").names) == 12
    with pytest.raises(ValueError, match=f"must be one of {', '.join(sorted(LAYOUTS))}"):
        open_source(FIXTURES / "gulp", format="zip")


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="neither a file nor a folder"):
        open_source(tmp_path / "pipe")


def test_what_is_nothing_we_know_is_an_error_that_names_the_choices(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"what is this?")
    with pytest.raises(SourceError, match="not in a known layout.*--format"):
        open_source(tmp_path / "x.bin")
    with pytest.raises(SourceError, match="no such file"):
        open_source(tmp_path / "nothing")


def test_a_layout_is_added_by_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    notes = LayoutKind(
        lambda path: opened.append(path) or make_source(path),
        in_file=lambda path, head: head.startswith(b"NOTES"),
        in_folder=lambda folder: folder.path / "notes" if "notes" in folder.files else None,
    )
    monkeypatch.setattr("headrace.formats.detect.LAYOUTS", {"notes": notes, **LAYOUTS})
    (tmp_path / "notes").write_bytes(b"NOTES")
    assert detect(tmp_path).name == detect(tmp_path / "notes").name == "notes"
    assert open_source(tmp_path, format="notes").names == ["0"]
    assert detect(tmp_path).open().names == ["0"] and opened == [tmp_path, tmp_path / "notes"]
    with pytest.raises(SourceError, match="notes samples do not lie contiguous in files"):
        index_dataset(tmp_path)


def make_source(path: Path) -> ImageFiles:
    return ImageFiles(path, ["0"], np.zeros(1, np.int64), np.zeros(1, np.int64), [None])


@pytest.mark.parametrize(
    "use",
    [
        lambda path, out: open_source(path),
        lambda path, out: index_dataset(path, out=out),
        lambda path, out: open_dataset(path, out),
        lambda path, out: pack_dataset(path, out),
        lambda path, out: open_samples(path, None),
    ],
    ids=["source", "index", "dataset", "pack", "command"],
)
def test_a_path_is_detected_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Path, Path], object]
) -> None:
    calls: list[Path] = []
    listed = folder_contents.list_folder
    monkeypatch.setattr(
        "headrace.formats.detect.list_folder", lambda path: calls.append(path) or listed(path)
    )
    use(make_folder(tmp_path / "in"), tmp_path / "out")
    assert calls == [tmp_path / "in"]
