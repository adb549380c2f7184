"""LMDB, gulp and TFRecord data are indexed where they lie: the dataset reads from the files themselves."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from formats.making import make_example, photos, write_tfrecord
from headrace import (
    Loader,
    PackError,
    SourceError,
    index_dataset,
    open_dataset,
    open_source,
    pack_dataset,
    verify_dataset,
)
from headrace.formats.detect import detect
from headrace.pack.index_in_place import index_source
from headrace.recipe.transforms import RandomResizedCrop
from trees import file_bytes, make_folder


@pytest.mark.parametrize(
    "name",
    [
        "efficient-pytorch-pa0.11",
        "tensorpack-msgpack",
        "tensorpack-raw-dir",
        "sequential-imagenet/ILSVRC-train.lmdb",
        "gulp",
        "webdataset-dense",
    ],
)
def test_the_index_gives_the_samples_of_the_source(shared: Path, tmp_path: Path, name: str) -> None:
    path = shared / "fixtures" / name
    source = open_source(path)
    manifest = index_dataset(path, out=tmp_path)
    assert manifest.samples == len(source.names)
    assert verify_dataset(tmp_path) == []
    dataset = open_dataset(tmp_path)
    samples = [source.read(i) for i in range(len(source.names))]
    by_key = {sample.key: sample for sample in samples}
    assert len(by_key) == len(dataset)
    for sample in dataset:
        wanted = by_key[sample.key]
        assert sample.label == wanted.label
        for field, data in wanted.items():
            if field == "mjpg":
                frames = [frame.rstrip(b"\0") for frame in sample.split_frames()]
                assert frames == wanted.split_frames()
            else:
                assert sample[field] == data
    suffixes = {path.suffix for path in tmp_path.iterdir()}
    assert suffixes - {".seek"} == {".arrow", ".json"}, "nothing was copied"


def test_the_index_says_the_size_of_every_frame(shared: Path, tmp_path: Path) -> None:
    index_dataset(shared / "fixtures/gulp", out=tmp_path)
    dataset = open_dataset(tmp_path)
    table = dataset.index
    for row, sample in enumerate(dataset):
        sizes = table["mjpg.frames"][row].as_py()
        assert sum(sizes) == table["mjpg.size"][row].as_py() == len(sample["mjpg"])
        with Image.open(io.BytesIO(sample.split_frames()[-1])) as frame:
            frame.load()
            assert frame.size == (
                table["mjpg.width"][row].as_py(),
                table["mjpg.height"][row].as_py(),
            )


def test_tfrecords_are_indexed_with_image_and_label(tmp_path: Path) -> None:
    images = photos(5)
    for k in range(2):
        records = [
            make_example({"image/encoded": d, "label": k}) for d in images[k * 3 : k * 3 + 3]
        ]
        write_tfrecord(tmp_path / f"a.tfrecord-{k:05d}-of-00002", records)
    manifest = index_dataset(tmp_path)
    assert (manifest.samples, len(manifest.shards), manifest.root) == (5, 2, ".")
    dataset = open_dataset(tmp_path)
    assert [sample["jpg"] for sample in dataset] == images
    assert [sample.label for sample in dataset] == [0, 0, 0, 1, 1]
    assert open_source(tmp_path).names[0] == "a.tfrecord-00000-of-00002/000000", "still a source"


def test_bad_samples_make_it_fail_and_leave_nothing(shared: Path, tmp_path: Path) -> None:
    path = shared / "fixtures/hostile/lmdb/exec-eval.lmdb"
    with pytest.raises(PackError, match=r"1 of 6 .*\n  00000003: .*builtins.eval") as caught:
        index_dataset(path, out=tmp_path)
    assert "Nothing was written" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_bad_samples_can_be_left_out_and_are_listed(shared: Path, tmp_path: Path) -> None:
    path = shared / "fixtures/hostile/lmdb/exec-eval.lmdb"
    assert index_dataset(path, out=tmp_path, on_error="skip").samples == 5
    assert "00000003" not in [sample.key for sample in open_dataset(tmp_path)]
    (line,) = (tmp_path / "rejected.jsonl").read_text().splitlines()
    assert json.loads(line)["name"] == "00000003"


def test_nothing_but_bad_samples_is_an_error_also_with_skip(tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "a.tfrecord", [make_example({"label": 1})])
    with pytest.raises(PackError, match="1 of 1 samples cannot be indexed") as caught:
        index_dataset(tmp_path / "a.tfrecord", out=tmp_path / "out", on_error="skip")
    assert "--on-error" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_source_that_changes_while_it_is_indexed_is_an_error_even_with_skip(
    tmp_path: Path,
) -> None:
    path = write_tfrecord(tmp_path / "a.tfrecord", [make_example({"image": photos(1)[0]})])
    source = detect(path).open_in_place()
    os.utime(path, ns=(0, 0))
    with pytest.raises(PackError, match=r"a\.tfrecord/000000: .* changed .*; index again"):
        index_source(source, out=tmp_path / "out", on_error="skip")


def test_decoded_arrays_are_not_indexed_but_packed(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(PackError, match="npy is not stored as the bytes of a file; pack it"):
        index_dataset(shared / "fixtures/tensorpack-arrays/list.lmdb", out=tmp_path)
    with pytest.raises(SourceError, match="do not lie contiguous in files.*pack it instead"):
        index_dataset(shared / "fixtures/unified-doc", out=tmp_path)


def test_a_video_packed_into_a_tar_can_be_indexed_again(shared: Path, tmp_path: Path) -> None:
    pack_dataset(shared / "fixtures/gulp", tmp_path / "p", order="source")
    before = list(open_dataset(tmp_path / "p"))
    for path in tmp_path.glob("p/*"):
        if path.suffix != ".tar":
            path.unlink()
    index_dataset(tmp_path / "p")
    after = list(open_dataset(tmp_path / "p"))
    assert [s.split_frames() for s in after] == [s.split_frames() for s in before]
    assert [s.label for s in after] == [s.label for s in before]


def test_rows_are_in_the_order_of_their_bytes(shared: Path, tmp_path: Path) -> None:
    index_dataset(shared / "fixtures/efficient-pytorch", out=tmp_path)
    offsets = open_dataset(tmp_path).index["jpg.offset"].to_pylist()
    assert offsets == sorted(offsets)


def test_the_loader_trains_from_a_database_as_from_its_packed_copy(
    shared: Path, tmp_path: Path
) -> None:
    path = shared / "fixtures/sequential-imagenet/ILSVRC-train.lmdb"
    index_dataset(path, out=tmp_path / "index")
    pack_dataset(path, tmp_path / "packed", order="source")
    found = {}
    for name in ("index", "packed"):
        with Loader(tmp_path / name, 12, transform=[RandomResizedCrop(32)], seed=3) as loader:
            batches = [(images.copy(), labels.copy()) for images, labels in loader]
        found[name] = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    assert found["index"][0].shape == (48, 32, 32, 3)
    for ours, theirs in zip(found["index"], found["packed"], strict=True):
        assert np.array_equal(ours, theirs)


def test_the_index_of_a_relative_image_folder_is_good_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    index_dataset("in", out="index")
    monkeypatch.chdir(tmp_path / "index")
    images = sorted(data for sample in open_dataset(tmp_path / "index") for data in sample.values())
    assert images == sorted(file_bytes(tmp_path / "in").values())


def test_an_image_folder_is_indexed_file_by_file(tmp_path: Path) -> None:
    for i, data in enumerate(photos(3)):
        (tmp_path / f"in/{i % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"in/{i % 2}/{i}.jpg").write_bytes(data)
    index_dataset(tmp_path / "in", out=tmp_path / "index")
    assert [sample.label for sample in open_dataset(tmp_path / "index")] == [0, 0, 1]


@pytest.mark.parametrize("inside", ["aindex", "class0/deep"])
def test_an_index_inside_the_image_folder_is_refused(tmp_path: Path, inside: str) -> None:
    root = make_folder(tmp_path / "in", classes=1)
    with pytest.raises(PackError, match="inside the image folder .*choose a folder outside"):
        index_dataset(root, out=root / inside)
    assert not (root / inside).exists()
    assert index_dataset(root, out=root).samples == 5


def test_an_image_folder_that_has_its_index_can_be_moved(tmp_path: Path) -> None:
    index_dataset(make_folder(tmp_path / "in", classes=1))
    (tmp_path / "in").rename(tmp_path / "moved")
    assert len(list(open_dataset(tmp_path / "moved"))) == 5


def test_missing_image_files_are_known_before_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(photos(1)[0])
    (tmp_path / "l.csv").write_text("path\n0.jpg\n1.jpg\n")
    seen: list[object] = []
    with pytest.raises(PackError, match=r"1 of 2 samples .*\n  1.jpg: no such file"):
        index_dataset(tmp_path / "l.csv", out=tmp_path / "out", progress=seen.append)
    assert not seen
