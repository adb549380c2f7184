"""Tars that exist already, indexed where they are: those of the webdataset package, and hostile ones."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headrace
from formats.making import make_example, photos, write_tar, write_tfrecord
from headrace.errors import PackError, SourceError
from headrace.formats.layouts import webdataset
from headrace.store.durable import write_durable
from images import encode
from trees import file_bytes, full_at, without_locks


def expected_samples(folder: Path) -> list[tuple[str, dict[str, str]]]:
    expected = json.loads((folder / "expected.json").read_text())
    return [
        (sample["key"], {name: f["sha256"] for name, f in sample["fields"].items()})
        for file in expected["files"]
        for sample in file["samples"]
    ]


@pytest.mark.parametrize("name", ["webdataset", "webdataset-dense"])
def test_webdataset_tars_are_read_where_they_are(shared: Path, tmp_path: Path, name: str) -> None:
    folder = shared / "fixtures" / name
    headrace.index_dataset(folder, out=tmp_path / "index")
    dataset = headrace.open_dataset(tmp_path / "index")
    found = [
        (s.key, {field: hashlib.sha256(data).hexdigest() for field, data in s.items()})
        for s in dataset
    ]
    assert found == expected_samples(folder)
    assert headrace.verify_dataset(tmp_path / "index") == []


def test_labels_come_from_cls_and_sizes_from_the_images(shared: Path, tmp_path: Path) -> None:
    headrace.index_dataset(shared / "fixtures" / "webdataset", out=tmp_path)
    index = headrace.open_dataset(tmp_path).index
    expected = json.loads((shared / "fixtures" / "webdataset" / "expected.json").read_text())
    labels = [s["label"] for file in expected["files"] for s in file["samples"]]
    assert index["label"].to_pylist() == labels
    assert index["jpg.height"][0].as_py() == 32


def test_index_and_manifest_lie_beside_the_tars_unless_told_otherwise(
    shared: Path, tmp_path: Path
) -> None:
    for tar in (shared / "fixtures" / "webdataset").glob("*.tar"):
        shutil.copyfile(tar, tmp_path / tar.name)
    headrace.index_dataset(tmp_path)
    assert (tmp_path / "train-000000.arrow").exists()
    (tmp_path.parent / "moved").mkdir()
    moved = tmp_path.rename(tmp_path.parent / "moved" / "here")
    assert len(headrace.open_dataset(moved)) == 120
    with pytest.raises(PackError, match="exists already"):
        headrace.index_dataset(moved)


HOSTILE = {
    "dup-key-adjacent.tar": "has the field jpg twice",
    "dup-key-apart.tar": "comes again",
    "dup-key-case.tar": "has the field jpg twice",
    "interleaved-keys.tar": "comes again",
    "bad-checksum.tar": "wrong checksum",
    "truncated-data.tar": "the archive ends",
    "size-base256-huge.tar": "claims",
    "only-eof.tar": "no samples",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_tars_are_named_errors_and_leave_no_manifest(
    shared: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(SourceError, match=f"{name}.*{HOSTILE[name]}"):
        headrace.index_dataset(shared / "fixtures" / "hostile" / "tar" / name, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


READABLE = {
    "good.tar": 6, "no-eof-blocks.tar": 6, "one-zero-block.tar": 6, "trailing-garbage.tar": 6,
    "concatenated.tar": 6,
    "name-absolute.tar": 2, "name-dotdot.tar": 3, "name-noext.tar": 1,
    "name-dots.tar": 2, "name-case.tar": 2, "links.tar": 2, "missing-fields.tar": 4,
    "bad-images.tar": 12, "many-fields.tar": 1, "pax-bad-utf8.tar": 3, "symlink-then-through.tar": 1,
    "size-base256-ok.tar": 2, "name-control.tar": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(READABLE))
def test_odd_but_sound_tars_are_read_without_touching_anything_else(
    shared: Path, tmp_path: Path, name: str
) -> None:
    headrace.index_dataset(shared / "fixtures" / "hostile" / "tar" / name, out=tmp_path / "index")
    dataset = headrace.open_dataset(tmp_path / "index")
    assert len(list(dataset)) == READABLE[name]
    written = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    stem = name.removesuffix(".tar")
    assert written - {f"{stem}.seek"} == {"headrace.json", f"{stem}.arrow"}


def test_damaged_images_are_marked_in_the_index(shared: Path, tmp_path: Path) -> None:
    tar = shared / "fixtures" / "hostile" / "tar" / "bad-images.tar"
    headrace.index_dataset(tar, out=tmp_path)
    kinds = headrace.open_dataset(tmp_path).index["jpg.kind"].to_pylist()
    assert kinds[0] == kinds[-1] == "baseline"
    assert "damaged" in kinds and "png" in kinds


def test_compressed_and_missing_tars_are_refused_with_a_reason(
    shared: Path, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match="unpack compressed ones first"):
        headrace.index_dataset(
            shared / "fixtures" / "hostile" / "tar" / "truncated-gzip.tar.gz", out=tmp_path
        )
    with pytest.raises(SourceError, match="no .tar files"):
        headrace.index_dataset(tmp_path, format="webdataset")


def test_a_file_of_someone_elses_beside_the_tars_is_not_overwritten(
    shared: Path, tmp_path: Path
) -> None:
    shutil.copyfile(shared / "fixtures" / "hostile" / "tar" / "good.tar", tmp_path / "good.tar")
    (tmp_path / "good.arrow").write_bytes(b"precious")
    with pytest.raises(PackError, match=r"good\.arrow: exists and is not an index"):
        headrace.index_dataset(tmp_path)
    assert (tmp_path / "good.arrow").read_bytes() == b"precious"


def tar_of(path: Path, *keys: str, cls: bytes = b"1") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    members = {
        f"{key}.{field}": data
        for key in keys
        for field, data in [("jpg", photos(1)[0]), ("cls", cls)]
    }
    return write_tar(path, members)


@pytest.mark.parametrize("out", [None, "elsewhere"])
def test_tars_in_several_folders_are_one_dataset(tmp_path: Path, out: str | None) -> None:
    tar_of(tmp_path / "d/a/t.tar", "1", "2")
    tar_of(tmp_path / "d/b/t.tar", "3")
    headrace.index_dataset(tmp_path / "d/{a,b}/t.tar", out=tmp_path / out if out else None)
    place = tmp_path / (out or "d")
    assert headrace.verify_dataset(place) == []
    assert [sample.key for sample in headrace.open_dataset(place)] == ["1", "2", "3"]
    assert headrace.open_source(tmp_path / "d/{a,b}/t.tar").names == ["1", "2", "3"]


def test_an_index_made_with_relative_paths_is_good_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tar_of(tmp_path / "tars/a.tar", "1", "2")
    monkeypatch.chdir(tmp_path)
    headrace.index_dataset("tars", out="index")
    monkeypatch.chdir(tmp_path / "index")
    assert [sample.key for sample in headrace.open_dataset(tmp_path / "index")] == ["1", "2"]


def test_a_key_in_two_tars_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    tar_of(tmp_path / "a.tar", "1", "2")
    tar_of(tmp_path / "b.tar", "2", "3")
    with pytest.raises(SourceError, match="b.tar: the key 2 is in another tar too"):
        headrace.index_dataset(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "b.tar"]


def test_a_bad_tar_leaves_no_index_of_the_good_one(tmp_path: Path) -> None:
    tar_of(tmp_path / "a.tar", "1")
    tar = tar_of(tmp_path / "b.tar", "2")
    tar.write_bytes(tar.read_bytes()[:700])
    with pytest.raises(SourceError, match="b.tar"):
        headrace.index_dataset(tmp_path, workers=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "b.tar"]


def test_samples_of_a_tar_that_cannot_be_read_are_left_out_on_request(tmp_path: Path) -> None:
    tar_of(tmp_path / "a.tar", "1")
    tar_of(tmp_path / "b.tar", "2", cls=b"cat")
    with pytest.raises(PackError, match=r"1 of 2 samples .*\n  2: b.tar: 2.cls .*, not an integer"):
        headrace.index_dataset(tmp_path)
    assert headrace.index_dataset(tmp_path, on_error="skip").samples == 1
    (line,) = (tmp_path / "rejected.jsonl").read_text().splitlines()
    assert json.loads(line)["name"] == "2"
    with pytest.raises(PackError, match="1 of 1") as caught:
        headrace.index_dataset(tmp_path / "b.tar", out=tmp_path / "out", on_error="skip")
    assert "--on-error" not in str(caught.value)


def test_the_list_of_what_was_left_out_goes_when_nothing_is(tmp_path: Path) -> None:
    tar_of(tmp_path / "a.tar", "1")
    tar_of(tmp_path / "b.tar", "2", cls=b"cat")
    headrace.index_dataset(tmp_path, on_error="skip")
    assert (tmp_path / "rejected.jsonl").exists()
    tar_of(tmp_path / "b.tar", "2")
    (tmp_path / "headrace.json").unlink()
    assert headrace.index_dataset(tmp_path, on_error="skip").samples == 2
    assert not (tmp_path / "rejected.jsonl").exists()


def test_links_in_a_tar_are_reported(
    shared: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tar = shared / "fixtures" / "hostile" / "tar" / "links.tar"
    ignored = headrace.open_source(tar).ignored
    assert ignored and all(name.startswith("links.tar/") and "(a " in name for name in ignored)
    headrace.index_dataset(tar, out=tmp_path)
    assert f"{len(ignored)} members are not files" in caplog.text


def test_a_file_is_synced_before_it_gets_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, replace, calls = os.fsync, os.replace, list[str]()

    def note_sync(fd: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def note_rename(temporary: Path, place: Path) -> None:
        calls.append("rename")
        replace(temporary, place)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_rename)
    write_durable(tmp_path / "x", b"data")
    assert calls == ["file", "rename", "folder"]


def test_a_full_disk_is_an_error_that_names_the_index_and_leaves_nothing(tmp_path: Path) -> None:
    tar = tar_of(tmp_path / "a.tar", "x", "y")
    with full_at(100), pytest.raises(PackError, match=str(tmp_path / "index" / "a.arrow")):
        headrace.index_dataset(tar, out=tmp_path / "index")
    assert list(tmp_path.iterdir()) == [tar]


def test_a_file_that_cannot_get_its_name_leaves_no_temporary(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(IsADirectoryError):
        write_durable(tmp_path / "x", b"data")
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_two_writers_of_a_file_do_not_share_its_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one writes while the first is about to rename."""
    replace, path = os.replace, tmp_path / "x.arrow"

    def be_late(temporary: Path, place: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        write_durable(path, b"second")
        replace(temporary, place)

    monkeypatch.setattr(os, "replace", be_late)
    write_durable(path, b"first")
    assert path.read_bytes() == b"first" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["tars", "files"])
def test_an_index_that_cannot_be_made_leaves_the_one_before(tmp_path: Path, kind: str) -> None:
    good = {"0.jpg": encode(8, 8), "0.cls": b"0"}
    if kind == "tars":
        for name in "ab":
            write_tar(tmp_path / f"{name}.tar", {f"{name}{k}": v for k, v in good.items()})
    else:
        (tmp_path / "in").mkdir()
        (tmp_path / "in/0.jpg").write_bytes(encode(8, 8))
    headrace.index_dataset(tmp_path)
    before = file_bytes(tmp_path)
    (tmp_path / "headrace.json").unlink()

    def stop(progress: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        headrace.index_dataset(tmp_path, progress=stop)
    assert file_bytes(tmp_path) == {k: v for k, v in before.items() if k != "headrace.json"}
    headrace.index_dataset(tmp_path)
    assert file_bytes(tmp_path) == before


_KILLED = """
import os, signal, sys, headrace
def kill(progress):
    if progress.samples == 2:
        os.kill(os.getpid(), signal.SIGKILL)
headrace.index_dataset(sys.argv[1], workers=1, progress=kill)
"""


def test_what_a_killed_index_left_goes_with_the_next(tmp_path: Path) -> None:
    tar_of(tmp_path / "a.tar", "0")
    tar_of(tmp_path / "b.tar", "1")
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 3
    headrace.index_dataset(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("a.tar", "b.tar", "a.arrow", "b.arrow", "headrace.json")
    }


def test_where_there_are_no_locks_the_second_of_two_that_index_a_folder_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tar_of(tmp_path / "a.tar", "0")
    tar_of(tmp_path / "b.tar", "1")

    def overtake(progress: Any) -> None:
        if progress.bytes == progress.total_bytes:
            headrace.index_dataset(tmp_path)

    monkeypatch.setattr("fcntl.flock", without_locks)
    with pytest.raises(PackError, match="another process has indexed"):
        headrace.index_dataset(tmp_path, workers=1, progress=overtake)
    assert len(headrace.open_dataset(tmp_path)) == 2
    assert "this file system has no locks" in caplog.text


def test_tars_have_names_as_long_as_the_file_system_takes(tmp_path: Path) -> None:
    tar_of(tmp_path / f"{'n' * 249}.tar", "0")
    headrace.index_dataset(tmp_path)
    assert len(headrace.open_dataset(tmp_path)) == 1


@pytest.mark.parametrize("name", [b"\xff.tar", b"\xff.tfrecord", b"\xff.jpg"])
def test_a_name_that_is_not_utf8_is_named_in_the_error(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / "in" / os.fsdecode(name)
    path.parent.mkdir()
    if path.suffix == ".jpg":
        path.write_bytes(encode(8, 8))
    elif path.suffix == ".tar":
        tar_of(path, "0")
    else:
        write_tfrecord(path, [make_example({"image/encoded": encode(8, 8)})])
    with pytest.raises(SourceError, match=r"'\\udcff.*': the name is not UTF-8; rename it"):
        headrace.index_dataset(path.parent, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_samples_of_tars_are_counted_as_they_are_read(tmp_path: Path) -> None:
    tars = [tar_of(tmp_path / "a.tar", "0", "1", "2"), tar_of(tmp_path / "b.tar", "3")]
    seen: list[Any] = []
    headrace.index_dataset(tmp_path, progress=seen.append)
    assert [progress.samples for progress in seen if progress.bytes < progress.total_bytes][-1] == 4
    assert {progress.total_samples for progress in seen} == {None}
    assert seen[-1].bytes == seen[-1].total_bytes == sum(tar.stat().st_size for tar in tars)


def test_a_list_of_what_was_left_out_goes_when_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(encode(8, 8))
    (tmp_path / "l.csv").write_text("path,label\n0.jpg,0\n1.jpg,1\n")
    headrace.index_dataset(tmp_path / "l.csv", out=tmp_path / "out", on_error="skip")
    assert (tmp_path / "out" / "rejected.jsonl").exists()
    (tmp_path / "1.jpg").write_bytes(encode(8, 8))
    (tmp_path / "out" / "headrace.json").unlink()
    headrace.index_dataset(tmp_path / "l.csv", out=tmp_path / "out", on_error="skip")
    assert not (tmp_path / "out" / "rejected.jsonl").exists()


def test_a_disk_that_fills_up_with_the_manifest_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write_tar(
        tmp_path / "a.tar", {"0.jpg": encode(8, 8), "0.cls": b"0", "1.jpg": b"", "1.cls": b"x"}
    )
    monkeypatch.setattr("headrace.pack.publish_index.write_manifest", fill)
    with pytest.raises(PackError, match="No space"):
        headrace.index_dataset(tmp_path / "a.tar", out=tmp_path / "out", on_error="skip")
    assert not (tmp_path / "out").exists()


def test_indexing_again_without_seek_tables_removes_the_old_ones(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.jpg": encode(300, 400)})
    headrace.index_dataset(tmp_path)
    assert (tmp_path / "a.seek").exists()
    (tmp_path / "headrace.json").unlink()
    write_tar(tmp_path / "a.tar", {"0.jpg": encode(8, 8)})
    headrace.index_dataset(tmp_path)
    assert not (tmp_path / "a.seek").exists() and headrace.verify_dataset(tmp_path) == []


def test_image_files_that_are_too_large_are_rejected_as_when_they_are_packed(
    tmp_path: Path,
) -> None:
    for name, side in (("a", 8), ("b", 64)):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "0.jpg").write_bytes(encode(side, side))
    limits = {"max_file_size": len(encode(8, 8))}
    out = tmp_path / "out"
    with pytest.raises(PackError, match=r"1 of 2 samples .*\n  b/0.jpg: \d+ bytes are more than"):
        headrace.index_dataset(tmp_path / "in", out=out, **limits)
    assert not out.exists()
    headrace.index_dataset(tmp_path / "in", out=out, on_error="skip", **limits)
    assert [sample.key for sample in headrace.open_dataset(out)] == ["a/0"]
    assert "bytes are more than" in (out / "rejected.jsonl").read_text()


def test_a_tar_is_scanned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tar_of(tmp_path / "a.tar", "0", "1")
    tar_of(tmp_path / "b.tar", "2")
    scan, calls = webdataset.scan_tar, list[int]()
    monkeypatch.setattr(
        webdataset, "scan_tar", lambda fd, passed: calls.append(fd) or scan(fd, passed)
    )
    assert headrace.index_dataset(tmp_path).samples == 3
    assert len(calls) == 2


def test_a_tar_that_changes_while_it_is_indexed_is_an_error(tmp_path: Path) -> None:
    tar = tar_of(tmp_path / "a.tar", "0", "1")
    with pytest.raises(SourceError, match=r"a.tar: changed after it was opened"):
        headrace.index_dataset(tar, progress=lambda _: os.utime(tar, ns=(0, 0)), on_error="skip")


def test_a_compressed_tar_that_is_called_plain_is_not_indexed(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar.gz", {"0.jpg": encode(8, 8)}).rename(tmp_path / "a.tar")
    with pytest.raises(SourceError, match="unpack compressed ones first"):
        headrace.index_dataset(tar)
