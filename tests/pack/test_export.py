"""Round trips: a source is packed, exported, and read by the rules of the layout it was exported to."""

from __future__ import annotations

import builtins
import gc
import hashlib
import json
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formats.making import photos, write_gulp
from formats.making_pairs import VOC, write_voc
from headrace import (
    MissingExtraError,
    PackError,
    Sample,
    export_samples,
    index_dataset,
    open_dataset,
    open_source,
    pack_dataset,
)
from headrace.formats.source import Source
from headrace.pack.export.fields import class_name, strip_padding
from images import encode
from trees import file_bytes, full_at


def packed(source: Source | Path, folder: Path) -> Any:
    pack_dataset(source, folder, order="source")
    return open_dataset(folder)


def samples(source: Source) -> list[Sample]:
    return [source.read(i) for i in range(len(source.names))]


def read_tensorpack(path: Path) -> list[Any]:
    """As tensorpack's LMDBSerializer.load does: the keys of `__keys__`, pickled values."""
    lmdb = pytest.importorskip("lmdb")
    environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False)
    with environment, environment.begin() as transaction:
        keys = pickle.loads(transaction.get(b"__keys__"))
        assert keys == [b"%08d" % i for i in range(len(keys))]
        assert transaction.stat()["entries"] == len(keys) + 1
        return [pickle.loads(transaction.get(key)) for key in keys]


def read_gulp(path: Path) -> list[tuple[str, list[bytes], dict[str, Any]]]:
    """As GulpIO does: files in lexicographic order, JPEG = bytes[offset : offset + length - pad]."""
    videos = []
    pairs = zip(sorted(path.glob("data*.gulp")), sorted(path.glob("meta*.gmeta")), strict=True)
    for data_path, meta_path in pairs:
        data = data_path.read_bytes()
        for name, entry in json.loads(meta_path.read_text()).items():
            frames = [data[o : o + length - pad] for o, pad, length in entry["frame_info"]]
            videos.append((name, frames, entry["meta_data"][0]))
        offset, _, length = entry["frame_info"][-1]
        assert offset + length == len(data)
    return videos


@pytest.mark.parametrize(
    "name", ["tensorpack-pyarrow-2018", "efficient-pytorch", "sequential-imagenet/ILSVRC-val.lmdb"]
)
def test_lmdb_to_lmdb_keeps_bytes_labels_and_order(shared: Path, tmp_path: Path, name: str) -> None:
    source = open_source(shared / "fixtures" / name)
    export_samples(packed(source, tmp_path / "p"), tmp_path / "out.lmdb", to="lmdb")
    found = read_tensorpack(tmp_path / "out.lmdb")
    wanted = samples(source)
    assert [(image.tobytes(), label) for image, label in found] == [
        (sample["jpg"], sample.label) for sample in wanted
    ]
    assert all(image.dtype == np.uint8 and image.ndim == 1 for image, _ in found)
    again = open_source(tmp_path / "out.lmdb")
    assert [sample["jpg"] for sample in samples(again)] == [sample["jpg"] for sample in wanted]


def test_samples_of_several_fields_become_dicts_in_lmdb(shared: Path, tmp_path: Path) -> None:
    source = open_source(shared / "fixtures/webdataset-dense")
    export_samples(samples(source), tmp_path / "out.lmdb", to="lmdb")
    assert read_tensorpack(tmp_path / "out.lmdb") == [dict(s.fields) for s in samples(source)]
    again = samples(open_source(tmp_path / "out.lmdb"))
    assert [dict(sample) for sample in again] == [dict(sample) for sample in samples(source)]


def test_gulp_to_gulp_keeps_every_frame_label_and_id(shared: Path, tmp_path: Path) -> None:
    source = open_source(shared / "fixtures/gulp-12chunks")
    dataset = packed(source, tmp_path / "p")
    export_samples(dataset, tmp_path / "out", to="gulp", classes=dataset.classes)
    original = read_gulp(shared / "fixtures/gulp-12chunks")
    assert read_gulp(tmp_path / "out") == original
    labels = json.loads((tmp_path / "out/label2idx.json").read_text())
    assert labels == json.loads((shared / "fixtures/gulp/label2idx.json").read_text())


def test_a_gulp_comes_back_with_its_numbers_and_without_metadata_that_it_did_not_have(
    tmp_path: Path,
) -> None:
    numbers = {"a": 1, "b": 4}
    path = write_gulp(tmp_path / "in", {"1": photos(1), "2": photos(1)}, {"1": "a", "2": "b"})
    (path / "label2idx.json").write_text(json.dumps(numbers))
    meta = json.loads((path / "meta_0.gmeta").read_text())
    meta["1"]["meta_data"][0]["author"] = "x"
    (path / "meta_0.gmeta").write_text(json.dumps(meta))
    pack_dataset(path, tmp_path / "packed", order="source")
    dataset = open_dataset(tmp_path / "packed")
    export_samples(dataset, tmp_path / "out", to="gulp", classes=dataset.classes)
    entries = {name: entry for name, _, entry in read_gulp(tmp_path / "out")}
    assert entries["1"]["author"] == "x"
    assert entries["2"] == {"id": "2", "label": "b", "idx": 4}
    assert json.loads((tmp_path / "out/label2idx.json").read_text()) == numbers


@pytest.mark.parametrize("to", ["folder", "gulp", "lmdb", "webdataset"])
def test_a_label_may_be_numpys_integer(tmp_path: Path, to: str) -> None:
    pair = [Sample(f"k{i}", {"jpg": encode(8, 8)}, label=np.int64(i)) for i in range(2)]
    export_samples(pair, tmp_path / f"out.{to}", to=to)
    again = samples(open_source(tmp_path / f"out.{to}"))
    assert [sample.label for sample in again] == [0, 1]


@pytest.mark.parametrize("label", [-1, 1 << 31])
def test_gulp_refuses_a_label_that_no_gulp_can_have(tmp_path: Path, label: int) -> None:
    sample = Sample("k", {"jpg": encode(8, 8)}, label=label)
    with pytest.raises(PackError, match=f"k: its label is {label}; a gulp has labels from 0 to"):
        export_samples([sample], tmp_path / "out", to="gulp")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("to", ["gulp", "folder"])
def test_columns_and_other_metadata_of_videos_are_kept(
    shared: Path, tmp_path: Path, to: str
) -> None:
    video = open_source(shared / "fixtures/gulp").read(0)
    meta = json.dumps({"subset": "train", "duration": 3.5})
    video = replace(video, columns={"meta": meta, "fps": 12})
    export_samples([video], tmp_path / "out", to=to)
    if to == "folder":
        assert json.loads((tmp_path / f"out/frames/{video.key}.json").read_text())["fps"] == 12
    again = open_source(tmp_path / "out").read(0)
    assert again.key == video.key
    if to == "gulp":
        kept = json.loads(again.columns["meta"])
        assert kept == {"subset": "train", "duration": 3.5, "fps": 12}


def test_gulp_refuses_unsupported_fields_and_duplicate_ids(tmp_path: Path) -> None:
    image = encode(8, 8)
    with pytest.raises(PackError, match=r"k: a gulp has no place for \['txt'\]"):
        export_samples([Sample("k", {"jpg": image, "txt": b"x"})], tmp_path / "a", to="gulp")
    with pytest.raises(PackError, match=r"k: \['id'\] mean something else in a gulp"):
        export_samples([Sample("k", {"jpg": image}, columns={"id": 7})], tmp_path / "c", to="gulp")
    for text in (b"[1]", b"{", b"[" * 100_000):
        with pytest.raises(PackError, match="its json is not an object"):
            export_samples([Sample("k", {"jpg": image, "json": text})], tmp_path / "d", to="gulp")
    twice = [Sample(key, {"jpg": image}) for key in ("aA", "a%41")]
    with pytest.raises(PackError, match="aA: two samples would have this id"):
        export_samples(twice, tmp_path / "b", to="gulp")


def test_gulp_has_chunks_of_a_hundred_in_the_order_of_their_names(tmp_path: Path) -> None:
    image = encode(8, 8)
    many = [Sample(f"{i}", {"jpg": image}, i % 3) for i in range(201)]
    assert export_samples(many, tmp_path / "out", to="gulp") == 201
    assert [name for name, _, _ in read_gulp(tmp_path / "out")] == [str(i) for i in range(201)]
    assert len(list((tmp_path / "out").glob("*.gulp"))) == 3


def test_labels_without_class_names_keep_their_numbers_in_a_gulp(tmp_path: Path) -> None:
    labelled = [Sample(f"{label}", {"jpg": encode(8, 8)}, label) for label in (7, 2)]
    export_samples(labelled, tmp_path / "out", to="gulp")
    numbers = json.loads((tmp_path / "out" / "label2idx.json").read_text())
    assert numbers == {"00007": 7, "00002": 2}


@pytest.mark.parametrize(("label", "name"), [(1, "b"), (2, "00002"), (-1, "-0001")])
def test_a_label_without_a_class_is_called_by_its_number(label: int, name: str) -> None:
    assert class_name(label, ["a", "b"]) == name


@pytest.mark.parametrize(("zeros", "left"), [(0, 0), (3, 0), (4, 4)])
def test_only_the_padding_of_gulpio_is_removed_from_a_frame(zeros: int, left: int) -> None:
    assert strip_padding(b"\xff\xd9" + bytes(zeros)) == b"\xff\xd9" + bytes(left)
    assert strip_padding(b"cut" + bytes(zeros)) == b"cut" + bytes(zeros)


def test_a_folder_of_frames_comes_back_with_its_listing_and_every_frame(
    shared: Path, tmp_path: Path
) -> None:
    original = shared / "fixtures/gulp-source"
    dataset = packed(original, tmp_path / "p")
    export_samples(dataset, tmp_path / "out", to="folder", classes=dataset.classes)
    assert (tmp_path / "out/list.csv").read_text() == (original / "list.csv").read_text()
    files = {p.relative_to(original / "frames"): p for p in (original / "frames").rglob("*.jpg")}
    found = list((tmp_path / "out/frames").rglob("*.jpg"))
    assert len(found) == len(files)
    for path in found:
        assert path.read_bytes() == files[path.relative_to(tmp_path / "out/frames")].read_bytes()


def test_a_folder_is_read_by_torchvision_with_the_same_labels(
    shared: Path, tmp_path: Path, torchvision: Any
) -> None:
    from torchvision.datasets import ImageFolder

    source = open_source(shared / "fixtures/efficient-pytorch")
    export_samples(samples(source), tmp_path / "out", to="folder")
    found = ImageFolder(str(tmp_path / "out")).samples
    digest = {hashlib.sha256(Path(path).read_bytes()).digest(): label for path, label in found}
    assert len(found) == len(source.names)
    for sample in samples(source):
        assert digest[hashlib.sha256(sample["jpg"]).digest()] == sample.label


def test_a_packed_folder_comes_back_as_the_folder_it_was(tmp_path: Path) -> None:
    for name in ("a b/1.jpg", "a b/x/2.x.jpg", "c/3.png"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(9, 9, format="PNG" if name.endswith("png") else "JPEG"))
    dataset = packed(tmp_path / "in", tmp_path / "p")
    export_samples(dataset, tmp_path / "out", to="folder", classes=dataset.classes)
    tree = {p.relative_to(tmp_path / "in") for p in (tmp_path / "in").rglob("*") if p.is_file()}
    assert tree == {
        p.relative_to(tmp_path / "out") for p in (tmp_path / "out").rglob("*") if p.is_file()
    }
    for path in tree:
        assert (tmp_path / "in" / path).read_bytes() == (tmp_path / "out" / path).read_bytes()


def test_webdataset_to_webdataset_is_read_by_webdataset_itself(
    shared: Path, tmp_path: Path
) -> None:
    webdataset = pytest.importorskip("webdataset")
    source = open_source(shared / "fixtures/webdataset")
    export_samples(packed(source, tmp_path / "p"), tmp_path / "out", to="webdataset")
    reader = webdataset.WebDataset(str(tmp_path / "out/shard-000000.tar"), shardshuffle=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the package leaves its files open
        found = list(reader)
        gc.collect()
    wanted = samples(source)
    assert [entry["__key__"] for entry in found] == [sample.key for sample in wanted]
    for entry, sample in zip(found, wanted, strict=True):
        assert {n: d for n, d in entry.items() if not n.startswith("__")} == dict(sample.fields)


def test_a_full_tar_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.pack.export.to_webdataset.DEFAULT_SHARD_SIZE", 4096)
    many = [Sample(f"{i}", {"jpg": encode(8, 8)}, i) for i in range(7)]
    export_samples(many, tmp_path / "out", to="webdataset")
    shards = index_dataset(tmp_path / "out").shards
    assert [shard.samples for shard in shards] == [2, 2, 2, 1]
    source = open_source(tmp_path / "out", format="webdataset")
    assert [(s.key, s.label) for s in samples(source)] == [(s.key, s.label) for s in many]


def test_keys_that_would_lead_out_of_the_folder_stay_inside(tmp_path: Path) -> None:
    image = encode(8, 8)
    hostile = ["%2E%2E/x", "%2Fetc/y", "a/%2E%2E/%2E%2E/z", "%00"]
    export_samples(
        [Sample(key, {"jpg": image}, 0) for key in hostile],
        tmp_path / "deep/out",
        to="folder",
        classes=["../.."],
    )
    inside = list((tmp_path / "deep/out").rglob("*.jpg"))
    assert len(inside) == len(hostile)
    assert len(list(tmp_path.rglob("*.jpg"))) == len(hostile)


def test_nothing_is_left_of_an_export_that_fails(tmp_path: Path) -> None:
    def broken() -> Any:
        yield Sample("a", {"jpg": encode(8, 8)}, 0)
        raise RuntimeError("no more")

    for to in ("folder", "gulp", "webdataset", "lmdb"):
        with pytest.raises(RuntimeError, match="no more"):
            export_samples(broken(), tmp_path / "out", to=to)
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_an_empty_folder_leads_to_what_is_exported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    sample = Sample("a/k", {"jpg": encode(8, 8)}, label=0)
    assert export_samples([sample], tmp_path / "link", to="folder", classes=["a"]) == 1
    assert (tmp_path / "link").is_symlink()
    assert list(file_bytes(tmp_path / "empty")) == ["a/k.jpg"]


def test_an_existing_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(PackError, match="exists already"):
        export_samples([], tmp_path / "out", to="folder")
    with pytest.raises(ValueError, match="must be one of folder, gulp, lmdb, webdataset"):
        export_samples([], tmp_path / "new", to="zip")


def test_a_sample_that_a_layout_cannot_hold_is_named(shared: Path, tmp_path: Path) -> None:
    video = open_source(shared / "fixtures/gulp").read(0)
    with pytest.raises(PackError, match=f"{video.key}: a video has no place"):
        export_samples([video], tmp_path / "a", to="lmdb")
    with pytest.raises(PackError, match=r"k: a gulp holds one JPEG or video, not \['png'\]"):
        export_samples(
            [Sample("k", {"png": encode(8, 8, format="PNG")})], tmp_path / "b", to="gulp"
        )


def test_without_the_package_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "lmdb":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install '.\[lmdb\]'"):
        export_samples([Sample("k", {"jpg": encode(8, 8)}, 1)], tmp_path / "x.lmdb", to="lmdb")
    assert list(tmp_path.iterdir()) == []


def make_listing(folder: Path) -> Path:
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.jpg").write_bytes(encode(8, 8, seed=ord(name)))
    (folder / "list.csv").write_text("path,label,angle\na.jpg,cat,0.5\nb.jpg,dog,inf\n")
    return folder / "list.csv"


def read_exported(path: Path) -> Any:
    if not path.is_dir():
        return read_tensorpack(path)
    if any(path.glob("*.tar")):
        return [dict(sample) for sample in samples(open_source(path))]
    return file_bytes(path)


@pytest.mark.parametrize("to", ["folder", "lmdb", "webdataset"])
def test_columns_are_exported_whether_packed_before_or_not(tmp_path: Path, to: str) -> None:
    source = open_source(make_listing(tmp_path / "in"))
    dataset = packed(source, tmp_path / "p")
    export_samples(samples(source), tmp_path / "a", to=to, classes=source.classes)
    export_samples(dataset, tmp_path / "b", to=to, classes=dataset.classes)
    found = read_exported(tmp_path / "a")
    assert found == read_exported(tmp_path / "b")
    assert b'{"angle": 0.5}' in pickle.dumps(found)


def test_infinities_and_nan_are_null_in_json_and_kept_in_the_index(tmp_path: Path) -> None:
    dataset = packed(make_listing(tmp_path / "in"), tmp_path / "p")
    assert dataset[1]["json"] == b'{"angle": null}'
    assert dataset.index["angle"].to_pylist() == [0.5, float("inf")]


def test_numpys_numbers_in_columns_are_numbers_in_json(tmp_path: Path) -> None:
    columns = {"n": np.int64(3), "x": [np.float32(1.5), np.float32("inf")], "b": np.True_}
    export_samples([Sample("k", {"bin": b"x"}, columns=columns)], tmp_path / "o", to="webdataset")
    found = open_source(tmp_path / "o").read(0)["json"]
    assert json.loads(found) == {"n": 3, "x": [1.5, None], "b": True}


def test_a_folder_has_its_empty_and_its_hidden_classes_too(tmp_path: Path) -> None:
    hidden = Sample(".foo/.1", {"jpg": encode(8, 8)}, 1)
    export_samples([hidden], tmp_path / "out", to="folder", classes=["", ".foo", "lost+found"])
    source = open_source(tmp_path / "out")
    assert source.classes == ["%", "%2Efoo", "%6Cost+found"]
    assert (list(source.names), source.read(0).label) == (["%2Efoo/%2E1.jpg"], 1)


def test_a_database_that_cannot_be_written_is_an_error_that_says_why(tmp_path: Path) -> None:
    pytest.importorskip("lmdb")
    sample = Sample("k", {"bin": bytes(200_000)})
    said = "the LMDB database cannot be written: mdb_"
    with full_at(100_000), pytest.raises(PackError, match=said):
        export_samples([sample], tmp_path / "x", to="lmdb")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["folder", "gulp", "webdataset", "lmdb"])
def test_a_full_disk_is_an_error_that_names_the_output(tmp_path: Path, to: str) -> None:
    if to == "lmdb":
        pytest.importorskip("lmdb")
    sample = Sample("k", {"jpg": encode(300, 300, seed=1) + bytes(200_000)}, 0)
    with full_at(100_000), pytest.raises(PackError, match=str(tmp_path)):
        export_samples([sample], tmp_path / "x", to=to)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("classes", [None, ["cat"]])
def test_a_folder_cannot_hold_labelled_and_unlabelled_samples(
    tmp_path: Path, classes: list[str] | None
) -> None:
    mixed = [Sample("a/0", {"jpg": encode(8, 8)}, 0), Sample("b/1", {"jpg": encode(8, 8)})]
    for order in (mixed, mixed[::-1]):
        with pytest.raises(PackError, match="only some samples have a label"):
            export_samples(order, tmp_path / "out", to="folder", classes=classes)
    export_samples(mixed[1:], tmp_path / "unlabelled", to="folder")
    assert list(tmp_path.iterdir()) == [tmp_path / "unlabelled"]


@pytest.mark.parametrize("to", ["folder", "gulp"])
def test_two_classes_of_one_name_are_refused(tmp_path: Path, to: str) -> None:
    birds = ["crane", "tern", "crane"]
    with pytest.raises(PackError, match="two classes are called 'crane'"):
        export_samples([Sample("a", {"jpg": b""}, 2)], tmp_path / "out", to=to, classes=birds)


def test_unusable_outputs_are_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(PackError, match="loop: "):
        export_samples([], tmp_path / "loop", to="folder")
    (tmp_path / "mounted").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "mounted")
    with pytest.raises(PackError, match="a mount point cannot be replaced"):
        export_samples([], tmp_path / "mounted", to="folder")


def test_a_folder_of_unlabelled_samples_is_read_back_without_classes(tmp_path: Path) -> None:
    keys = ["top1", "top2", "x/deep"]
    export_samples(
        [Sample(key, {"jpg": encode(8, 8)}) for key in keys], tmp_path / "out", to="folder"
    )
    source = open_source(tmp_path / "out")
    assert source.classes is None
    assert list(source.names) == ["top1.jpg", "top2.jpg", "x%2Fdeep.jpg"]


def test_keys_that_a_tar_cannot_hold_are_escaped(tmp_path: Path) -> None:
    keys = ["frame.001", "frame.002", ".hidden", "../a", "a\udcff", "a.b/c%2Ed"]
    export_samples([Sample(key, {"bin": b"x"}) for key in keys], tmp_path / "out", to="webdataset")
    found = [sample.key for sample in samples(open_source(tmp_path / "out"))]
    escaped = ["frame%2E001", "frame%2E002", "%2Ehidden", "%2E%2E%2Fa", "a%FF"]
    assert found == [*escaped, "a.b/c%2Ed"]


def test_a_class_with_a_line_break_cannot_add_lines_to_a_listing_of_videos(tmp_path: Path) -> None:
    image = encode(8, 8)
    video = Sample("v", {"mjpg": image}, 0, frames={"mjpg": [len(image)]})
    with pytest.raises(PackError, match="a line break"):
        export_samples([video], tmp_path / "out", to="folder", classes=["cat\n../evil;dog"])


def test_photos_whose_boxes_have_classes_are_exported_without_folders_of_classes(
    tmp_path: Path,
) -> None:
    root = write_voc(tmp_path / "voc", VOC)
    pack_dataset(root, tmp_path / "packed")
    dataset = open_dataset(tmp_path / "packed")
    export_samples(dataset, tmp_path / "out", to="folder", classes=dataset.classes)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"{stem}.{suffix}" for stem in VOC for suffix in ("jpg", "json", "xml")}
