"""What went in comes out, whatever its names, and the bytes depend on source and options alone."""

from __future__ import annotations

import gc
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
from headrace._core import decode_jpeg
from headrace.errors import PackError
from headrace.pack.packer import PackSummary
from headrace.work.progress import Progress, ProgressCallback
from images import damaged_dds, damaged_tiff, encode
from jpegs import OK
from trees import digests, file_bytes, make_folder, untar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "source")


def test_unpacking_the_tar_gives_the_source_files_with_their_names_and_bytes(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "class0" / "UPPER.JPEG").write_bytes(encode(9, 9))
    headrace.pack_dataset(folder, tmp_path / "packed", shard_size=6000)
    out = file_bytes(untar(tmp_path / "packed", tmp_path / "out"))
    images = {name: data for name, data in out.items() if not name.endswith(".cls")}
    assert images == file_bytes(folder)
    assert out["class1/000.cls"] == b"1"


def test_bytes_do_not_depend_on_the_number_of_workers(folder: Path, tmp_path: Path) -> None:
    for workers in (1, 2, 7):
        headrace.pack_dataset(folder, tmp_path / str(workers), shard_size=4000, workers=workers)
    assert digests(tmp_path / "1") == digests(tmp_path / "2") == digests(tmp_path / "7")


def test_order_follows_the_seed_or_the_source(folder: Path, tmp_path: Path) -> None:
    def keys(name: str, **options: object) -> list[str]:
        headrace.pack_dataset(folder, tmp_path / name, **options)  # type: ignore[arg-type]
        return headrace.open_dataset(tmp_path / name).index["key"].to_pylist()

    assert keys("in-order", order="source") == sorted(keys("zero", seed=0))
    assert keys("one", seed=1) != keys("two", seed=2)


names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60
).filter(lambda n: not n.startswith(".") and len(n.encode()) < 200)


@settings(max_examples=25, deadline=None)
@given(
    st.sets(st.tuples(names, names, st.sampled_from(["jpg", "JPG", "png"])), min_size=1, max_size=6)
)
def test_pack_then_read_is_identity_for_odd_names(paths: set[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for number, (folder, stem, suffix) in enumerate(sorted(paths)):
            path = root / "in" / folder / f"{stem}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(4, 4, seed=number))
        headrace.pack_dataset(root / "in", root / "out", order="source", format="folder")
        dataset = headrace.open_dataset(root / "out")
        source = file_bytes(root / "in")
        assert len(dataset) == len(source)
        assert len({sample.key for sample in dataset}) == len(source)
        found = sorted(data for sample in dataset for name, data in sample.items() if name != "cls")
        assert found == sorted(source.values())
        assert dataset.classes == sorted({folder for folder, _, _ in paths})


def test_very_long_names_and_equal_names_in_two_classes(tmp_path: Path) -> None:
    names = ["a/" + "x" * 240 + ".jpg", "a/same.jpg", "b/same.jpg"]
    for number, name in enumerate(names):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(encode(5, 5, seed=number))
    headrace.pack_dataset(tmp_path / "in", tmp_path / "packed")
    out = file_bytes(untar(tmp_path / "packed", tmp_path / "out"))
    assert {n: d for n, d in out.items() if n.endswith(".jpg")} == file_bytes(tmp_path / "in")


def test_the_webdataset_package_reads_the_shards(folder: Path, tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    (folder / "class0" / "with.dots.in.jpg").write_bytes(encode(9, 9))
    headrace.pack_dataset(folder, tmp_path / "packed", shard_size=6000)
    shards = [str(path) for path in sorted((tmp_path / "packed").glob("*.tar"))]
    assert len(shards) > 1
    theirs = {}
    reader = webdataset.WebDataset(shards, shardshuffle=False, empty_check=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the package leaves its files open
        for sample in reader:
            image = sample.get("jpg") or sample.get("png")
            theirs[sample["__key__"]] = (image, int(sample["cls"]))
        gc.collect()
    ours = {
        s.key: (s.get("jpg") or s.get("png"), s.label)
        for s in headrace.open_dataset(tmp_path / "packed")
    }
    assert theirs == ours


def test_columns_of_a_listing_become_columns_of_the_index(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(encode(8, 8))
    (tmp_path / "in" / "list.csv").write_text("path,label,angle,who\na.jpg,cat,0.5,änn\n")
    headrace.pack_dataset(tmp_path / "in", tmp_path / "out")
    dataset = headrace.open_dataset(tmp_path / "out")
    assert dataset.classes == ["cat"]
    assert dataset.index.schema.field("angle").type == pa.float64()
    assert dict(dataset[0].columns) == {"angle": 0.5, "who": "änn"}
    assert json.loads(dataset[0]["json"]) == {"angle": 0.5, "who": "änn"}


def test_columns_with_names_of_the_index_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encode(8, 8))
    (tmp_path / "list.csv").write_text("path,label,key,jpg.size\na.jpg,1,x,3\n")
    with pytest.raises(headrace.SourceError, match=r"\['key', 'jpg.size'\].*rename"):
        headrace.pack_dataset(tmp_path, tmp_path / "out")


def add_bad_files(folder: Path) -> list[str]:
    (folder / "class0" / "empty.jpg").write_bytes(b"")
    (folder / "class1" / "html.jpg").write_bytes(b"<html></html>")
    (folder / "class2" / "cut.jpg").write_bytes(encode(9, 9)[:40])
    return ["class0/empty.jpg", "class1/html.jpg", "class2/cut.jpg"]


def test_bad_files_stop_packing_are_named_one_by_one_and_leave_nothing(
    folder: Path, tmp_path: Path
) -> None:
    bad = add_bad_files(folder)
    with pytest.raises(PackError) as caught:
        headrace.pack_dataset(folder, tmp_path / "out", shard_size=3000, workers=1)
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 of 18 files cannot be packed:"
    assert [line.split(":")[0].strip() for line in lines[1:4]] == bad
    assert "empty" in lines[1] and "<html>" in lines[2] and "truncated" in lines[3]
    assert not (tmp_path / "out").exists()


def test_bad_files_are_skipped_on_request_and_listed(folder: Path, tmp_path: Path) -> None:
    bad = add_bad_files(folder)
    summary = headrace.pack_dataset(folder, tmp_path / "out", on_error="skip")
    assert summary.samples == len(headrace.open_dataset(tmp_path / "out")) == 15
    lines = (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == bad == [n for n, _ in summary.rejected]
    assert headrace.verify_dataset(tmp_path / "out") == []


def test_a_dataset_with_skipped_files_is_refused_without_skip(tmp_path: Path) -> None:
    source, out = make_folder(tmp_path / "in"), tmp_path / "out"
    (source / "class0" / "bad.jpg").write_bytes(b"no image")

    def stop_at_ten(done: Progress) -> None:
        if done.samples == 10:
            raise KeyboardInterrupt

    def pack(on_error: Any, progress: ProgressCallback | None = None) -> PackSummary:
        return headrace.pack_dataset(
            source,
            out,
            shard_size=3000,
            order="source",
            workers=1,
            on_error=on_error,
            progress=progress,
        )

    with pytest.raises(KeyboardInterrupt):
        pack("skip", stop_at_ten)
    assert (out / ".packing" / "shard-000001.json").exists(), "the bad file was left out already"
    with pytest.raises(
        PackError, match="1 of 16 files cannot be packed:\n  class0/bad.jpg: not an"
    ):
        pack("raise")
    assert not out.exists()
    assert pack("skip").samples == 15
    with pytest.raises(
        PackError, match="without 1 of 16 files.*\n  class0/bad.jpg: not an.*\n.*skip"
    ):
        pack("raise")
    assert pack("skip").samples == 15


def test_a_source_of_only_bad_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "in" / "c").mkdir(parents=True)
    (tmp_path / "in" / "c" / "x.jpg").write_bytes(b"no")
    with pytest.raises(PackError, match="1 of 1 files cannot be packed") as caught:
        headrace.pack_dataset(tmp_path / "in", tmp_path / "out", on_error="skip")
    assert "--on-error" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_kinds_heights_and_widths_are_in_the_index(tmp_path: Path) -> None:
    (tmp_path / "in" / "c").mkdir(parents=True)
    files = {
        "b.jpg": encode(10, 20),
        "p.jpg": encode(11, 21, progressive=True),
        "x.png": encode(12, 22, format="PNG"),
    }
    for name, data in files.items():
        (tmp_path / "in" / "c" / name).write_bytes(data)
    summary = headrace.pack_dataset(tmp_path / "in", tmp_path / "out", order="source")
    assert summary.kinds == {"baseline": 1, "png": 1, "progressive": 1}
    index = headrace.open_dataset(tmp_path / "out").index
    assert index["jpg.kind"].to_pylist() == ["baseline", "progressive", None]
    assert index["jpg.height"].to_pylist() == [10, 11, None]
    assert index["png.width"].to_pylist() == [None, None, 22]


def test_progress_reaches_the_total(folder: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    headrace.pack_dataset(folder, tmp_path / "out", progress=seen.append)
    assert seen[-1].samples == seen[-1].total_samples == 15
    assert seen[-1].bytes == seen[-1].total_bytes == sum(map(len, file_bytes(folder).values()))


@pytest.mark.parametrize(
    "wrong",
    [{"shard_size": 0}, {"order": "random"}, {"seed": -1}, {"on_error": "ignore"}, {"workers": 0}],
)
def test_wrong_options_are_value_errors_that_name_them(
    folder: Path, tmp_path: Path, wrong: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        headrace.pack_dataset(folder, tmp_path / "out", **wrong)  # type: ignore[arg-type]


def test_numbers_may_be_numpys_integers(folder: Path, tmp_path: Path) -> None:
    options = {"seed": 3, "shard_size": 4000}
    shrink = {"short": 20, "longest": 30, "quality": 80}
    for name, kind in (("python", int), ("numpy", np.int64)):
        given = {option: kind(value) for option, value in options.items()}
        smaller = headrace.Shrink(**{option: kind(value) for option, value in shrink.items()})
        headrace.pack_dataset(folder, tmp_path / name, **given, shrink=smaller)
    assert digests(tmp_path / "numpy") == digests(tmp_path / "python")


def test_a_number_that_is_not_an_integer_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"seed: 1\.5 is not an integer"):
        headrace.pack_dataset(folder, tmp_path / "packed", seed=1.5)  # type: ignore[arg-type]
    assert not (tmp_path / "packed").exists()


def test_a_class_whose_name_is_not_utf8_is_packed_and_read(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "in") + b"/caf\xe9"
    os.makedirs(folder)
    with open(folder + b"/1.jpg", "wb") as file:
        file.write(encode(8, 8))
    headrace.pack_dataset(tmp_path / "in", tmp_path / "out")
    dataset = headrace.open_dataset(tmp_path / "out")
    assert (dataset.classes, dataset[0].key) == (["caf\udce9"], "caf%E9/1")


@pytest.mark.parametrize("inside", ["", "aaa", "class0/deep"])
def test_a_destination_inside_the_image_folder_is_refused(folder: Path, inside: str) -> None:
    before = digests(folder)
    with pytest.raises(PackError, match="inside the image folder .*choose a folder outside"):
        headrace.pack_dataset(folder, folder / inside)
    assert digests(folder) == before and not (folder / "aaa").exists()


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-512])


@pytest.mark.parametrize("name", ["shard-000000.tar", "shard-000001.arrow"])
@pytest.mark.parametrize(
    ("harm", "said"), [(remove, "the file is missing"), (cut, ".* bytes, the")]
)
def test_a_finished_dataset_that_is_damaged_is_refused(
    folder: Path, tmp_path: Path, name: str, harm: Callable[[Path], None], said: str
) -> None:
    headrace.pack_dataset(folder, tmp_path / "out", shard_size=6000)
    harm(tmp_path / "out" / name)
    with pytest.raises(PackError, match=f"{name}: {said}.*headrace verify"):
        headrace.pack_dataset(folder, tmp_path / "out", shard_size=6000)


def test_the_reason_why_a_file_is_rejected_is_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "in" / "c").mkdir(parents=True)
    (tmp_path / "in" / "c" / "good.jpg").write_bytes(encode(80, 80))
    (tmp_path / "in" / "c" / "html.jpg").write_bytes(b"<html></html>")
    shrink = headrace.Shrink(short=40)
    summary = headrace.pack_dataset(
        tmp_path / "in", tmp_path / "out", shrink=shrink, on_error="skip"
    )
    assert summary.rejected == [("c/html.jpg", "does not decode: cannot identify image file")]


def test_an_unusual_jpeg_is_packed_if_and_only_if_pillow_decodes_it(tmp_path: Path) -> None:
    files = make_folder(tmp_path / "in", classes=1, per_class=1) / "class0"
    whole = encode(200, 200)
    middle, tables = len(whole) // 2, whole.index(b"\xff\xdb")
    odd = {
        "forgiven-1": whole[:middle] + b"\xff\xe5" + whole[middle + 2 :],
        "forgiven-2": whole[:tables] + b"\0\0" + whole[tables:],
        "refused-1": whole[:2] + b"\xff\xe0\0\x06JFIF" + whole[2:],
        "refused-2": whole[:-2] + whole,
    }
    for name, data in odd.items():
        assert decode_jpeg(data)[0] != OK
        (files / f"{name}.jpg").write_bytes(data)
    summary = headrace.pack_dataset(tmp_path / "in", tmp_path / "out", on_error="skip")
    refused = [name for name, _ in summary.rejected]
    assert refused == ["class0/refused-1.jpg", "class0/refused-2.jpg"]


@pytest.mark.parametrize("size", [40, 200, 500])
@pytest.mark.parametrize("restart", [0, 1])
def test_a_jpeg_truncated_anywhere_is_rejected(tmp_path: Path, size: int, restart: int) -> None:
    whole = encode(size, size, restart_marker_rows=restart)
    scan = whole.index(b"\xff\xda") + 14
    write = make_folder(tmp_path / "in", classes=1, per_class=1) / "class0"
    cuts = [scan + (len(whole) - scan) * tenth // 10 for tenth in range(10)]
    for number, cut in enumerate(cuts):
        (write / f"cut{number}.jpg").write_bytes(whole[:cut])
    (write / "whole.jpg").write_bytes(whole)
    summary = headrace.pack_dataset(tmp_path / "in", tmp_path / "out", on_error="skip")
    assert (summary.samples, len(summary.rejected)) == (2, 10)


@pytest.mark.parametrize(
    ("suffix", "options"),
    [("jpg", {"progressive": True}), ("png", {"format": "PNG"}), ("webp", {"format": "WEBP"})],
)
def test_a_truncated_image_of_another_kind_is_rejected_too(
    tmp_path: Path, suffix: str, options: dict[str, Any]
) -> None:
    folder = make_folder(tmp_path / "in", classes=1, per_class=1) / "class0"
    data = encode(64, 64, **options)
    (folder / f"cut.{suffix}").write_bytes(data[: len(data) * 2 // 3])
    (folder / f"whole.{suffix}").write_bytes(data)
    summary = headrace.pack_dataset(tmp_path / "in", tmp_path / "out", on_error="skip")
    assert [name for name, _ in summary.rejected] == [f"class0/cut.{suffix}"]


@pytest.mark.parametrize("shrink", [None, headrace.Shrink(short=40)])
def test_whatever_pillow_raises_for_an_image_it_is_rejected(
    tmp_path: Path, shrink: headrace.Shrink | None
) -> None:
    folder = make_folder(tmp_path / "in", classes=1, per_class=1) / "class0"
    (folder / "odd.tif").write_bytes(damaged_tiff(64, 64))
    (folder / "odd.jpg").write_bytes(damaged_dds(64, 64))
    summary = headrace.pack_dataset(
        tmp_path / "in", tmp_path / "out", on_error="skip", shrink=shrink
    )
    assert [name for name, _ in summary.rejected] == ["class0/odd.jpg", "class0/odd.tif"]
