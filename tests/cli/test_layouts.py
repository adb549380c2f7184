"""The commands on other layouts: info and show without packing, pack, index and export."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from formats.making import write_tar
from headrace import open_dataset
from images import damaged_tiff
from trees import write_images

LAYOUTS = {
    "efficient-pytorch": ("lmdb", 74, ["jpg"]),
    "gulp": ("gulp", 12, ["mjpg"]),
    "gulp-source": ("frames", 12, ["mjpg"]),
    "tensorpack-arrays/list.lmdb": ("lmdb", 16, ["npy"]),
    "unified-doc": (
        "unified-doc",
        3,
        ["d1.label.npy", "d1.npy", "d2.label.npy", "d2.npy", "di.npy", "w1.npy"],
    ),
    "webdataset/train-{000000..000001}.tar": ("webdataset", 80, ["cls", "jpg", "json"]),
}


def headrace(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", LAYOUTS)
def test_info_and_show_work_without_packing(shared: Path, tmp_path: Path, name: str) -> None:
    path = shared / "fixtures" / name
    result = headrace("info", path, "--json")
    assert result.returncode == 0, result.stderr
    content = json.loads(result.stdout)
    assert (content["format"], content["samples"], content["fields"]) == LAYOUTS[name]
    sheet = tmp_path / "sheet.png"
    assert headrace("show", path, "--out", sheet, "--count", 6).returncode == 0
    with Image.open(sheet) as image:
        assert len(image.convert("RGB").getcolors(1 << 24) or ()) > 50, "there are pictures on it"


def test_a_hostile_sample_is_shown_as_unreadable(shared: Path, tmp_path: Path) -> None:
    path = shared / "fixtures/hostile/lmdb/exec-eval.lmdb"
    assert json.loads(headrace("info", path, "--json").stdout)["kinds"] == {
        "baseline": 5,
        "damaged": 1,
    }
    assert headrace("show", path, "--out", tmp_path / "a.png").returncode == 0


def test_arrays_that_are_not_images_are_skipped_on_the_sheet(shared: Path, tmp_path: Path) -> None:
    path = shared / "fixtures/tensorpack-arrays/odd.lmdb"
    result = headrace("show", path, "--out", tmp_path / "a.png")
    assert result.returncode == 0, result.stderr


def test_a_damaged_image_or_array_has_its_place_on_the_sheet(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", {"0.tif": damaged_tiff(16, 16), "1.npy": b""})
    result = headrace("show", tar, "--out", tmp_path / "a.png")
    assert result.returncode == 0, result.stderr


def test_info_shows_the_kinds_of_fields(shared: Path, tmp_path: Path) -> None:
    path = shared / "fixtures/webdataset-dense"
    kinds = {"jpg": {"kind": "image"}, "mask.png": {"kind": "mask"}, "npy": {"kind": "points"}}
    assert headrace("index", path, "--out", tmp_path / "index").returncode == 0
    for place in (path, tmp_path / "index"):
        assert json.loads(headrace("info", place, "--json").stdout)["field_kinds"] == kinds
        lines = [line.split() for line in headrace("info", place).stdout.splitlines()]
        assert ["fields", "jpg", "image"] in lines and ["mask.png", "mask"] in lines
    docs = headrace("info", shared / "fixtures/unified-doc").stdout
    assert "d1.label.npy  points of d1" in docs


def test_a_sheet_that_would_not_fit_into_memory_is_rejected(shared: Path, tmp_path: Path) -> None:
    path = shared / "fixtures/efficient-pytorch"
    result = headrace("show", path, "--out", tmp_path / "a.png", "--size", 100_000, "--count", 2)
    assert result.returncode == 2
    assert "choose a smaller --size" in result.stderr


def test_the_layout_can_be_given_and_a_wrong_name_is_rejected(shared: Path) -> None:
    path = shared / "fixtures/unified-doc/warp24.lmdb"
    content = json.loads(headrace("info", path, "--json", "--format", "lmdb").stdout)
    assert (content["format"], content["samples"]) == ("lmdb", 12)
    assert headrace("info", path, "--format", "zip").returncode == 2


def test_index_then_export_goes_from_lmdb_to_a_folder(shared: Path, tmp_path: Path) -> None:
    path = shared / "fixtures/efficient-pytorch/val.lmdb"
    assert headrace("index", path, "--out", tmp_path / "index").returncode == 0
    result = headrace("export", tmp_path / "index", tmp_path / "out", "--to", "folder", "--json")
    assert json.loads(result.stdout) == {
        "path": str(tmp_path / "out"),
        "to": "folder",
        "samples": 74,
        "recoded": {},
    }
    assert len(list((tmp_path / "out").rglob("*.jpg"))) == 74


def test_pack_takes_any_layout_and_encodes_on_request(shared: Path, tmp_path: Path) -> None:
    path = shared / "fixtures/tensorpack-arrays/list.lmdb"
    result = headrace("pack", path, tmp_path / "p", "--encode", "png", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["kinds"] == {"png": 16}


def test_an_error_is_one_line_that_names_file_and_reason(shared: Path) -> None:
    result = headrace("info", shared / "fixtures/hostile/lmdb/struct-half.lmdb")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "struct-half.lmdb: truncated: its last page is 12" in result.stderr


@pytest.mark.parametrize("verb", ["pack", "index"])
def test_columns_and_the_largest_file_are_options_of_pack_and_index(
    tmp_path: Path, verb: str
) -> None:
    root = write_images(tmp_path / "in", "a.jpg", "b.jpg")
    (root / "train.csv").write_text("image_id,breed\na,pug\nb,cat\n")
    place = [tmp_path / "out"] if verb == "pack" else ["--out", tmp_path / "out"]
    columns = ["--path-column", "image_id", "--label-column", "breed"]
    result = headrace(verb, root / "train.csv", *place, *columns, "--max-file-size", "1MiB")
    assert result.returncode == 0, result.stderr
    dataset = open_dataset(tmp_path / "out")
    assert (dataset.classes, sorted(dataset.index["label"].to_pylist())) == (["cat", "pug"], [0, 1])
    place = [tmp_path / "none"] if verb == "pack" else ["--out", tmp_path / "none"]
    result = headrace(verb, root / "train.csv", *place)
    assert result.returncode == 2
    assert "among ['image_id', 'breed']; name the column of paths with --path-column" in (
        " ".join(result.stderr.split())
    )


def test_files_beyond_the_largest_size_are_listed_as_rejected(tmp_path: Path) -> None:
    root = write_images(tmp_path / "in", "a/0.jpg", "a/1.jpg")
    (root / "a/1.jpg").write_bytes((root / "a/0.jpg").read_bytes() + bytes(5000))
    options = ("--max-file-size", "5kB", "--on-error", "skip")
    result = headrace("pack", root, tmp_path / "out", *options)
    assert result.returncode == 0, result.stderr
    assert "a/1.jpg" in result.stderr and "bytes are more than 5000" in result.stderr
