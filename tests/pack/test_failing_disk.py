"""Disks that are full or fail, paths that are too long: our errors, and nothing that cannot be resumed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import PackError, SourceError
from headrace.pack.class_map import read_classes
from headrace.pack.pack_stream import pack_samples
from headrace.sample import Sample
from headrace.store.durable import new_place
from images import encode
from trees import digests, full_at, make_folder, write_images

TOUCHES = ("writev", "fsync", "replace", "mkdir", "unlink", "open")


def fail_at(patch: pytest.MonkeyPatch, root: Path, when: int, reason: int) -> Callable[[], int]:
    """Make the `when`-th touch of the disk below `root` fail; a function that counts the touches."""
    count = 0

    def wrap(name: str) -> None:
        original = getattr(os, name)

        def wrapped(first: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal count
            place = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else str(first)
            count += place.startswith(str(root))
            if place.startswith(str(root)) and count == when:
                named = () if isinstance(first, int) else (str(first),)
                raise OSError(reason, os.strerror(reason), *named)
            return original(first, *args, **kwargs)

        patch.setattr(os, name, wrapped)

    for name in TOUCHES:
        wrap(name)
    return lambda: count


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_system_call_is_a_pack_error_and_packing_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    source = make_folder(tmp_path / "source", per_class=2)
    with monkeypatch.context() as patch:
        touches = fail_at(patch, tmp_path / "whole", 0, reason)
        headrace.pack_dataset(source, tmp_path / "whole", shard_size=4000, workers=1)
    assert touches() > 20
    failures = 0
    for when in range(1, touches() + 1):
        out = tmp_path / f"out{when}"
        try:
            with monkeypatch.context() as patch:
                fail_at(patch, out, when, reason)
                headrace.pack_dataset(source, out, shard_size=4000, workers=1)
        except PackError as error:
            assert os.strerror(reason) in str(error) and str(out) in str(error), when
            assert str(error).endswith("; run the same command again to resume")
            failures += 1
        headrace.pack_dataset(source, out, shard_size=4000, workers=1)
        assert digests(out) == digests(tmp_path / "whole"), when
    assert failures > 20


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_system_call_leaves_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    source = write_images(tmp_path / "source", "a/0.jpg", "b/1.jpg")
    with monkeypatch.context() as patch:
        touches = fail_at(patch, tmp_path / "whole", 0, reason)
        headrace.index_dataset(source, out=tmp_path / "whole")
    assert touches() > 5
    for when in range(1, touches() + 1):
        out = tmp_path / f"out{when}"
        with monkeypatch.context() as patch:
            fail_at(patch, out, when, reason)
            try:
                headrace.index_dataset(source, out=out)
            except PackError as error:
                assert os.strerror(reason) in str(error) and str(out) in str(error), when
                assert not (out / "headrace.json").exists()


def test_a_source_that_cannot_be_read_is_named_and_packing_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a read has no path of its own, and is not that of the disk that is written."""
    source = headrace.open_source(make_folder(tmp_path / "source"))
    original = type(source).read

    def fail(self: Any, i: int) -> Sample:
        if i == 3:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return original(self, i)

    with monkeypatch.context() as patch:
        patch.setattr(type(source), "read", fail)
        with pytest.raises(PackError, match=r"^class0/003\.jpg: cannot be read: .*Input/output"):
            headrace.pack_dataset(source, tmp_path / "out")
    assert headrace.pack_dataset(source, tmp_path / "out").samples == 15


LONG = ["x" * 300, "/".join(["y" * 200] * 25)]


@pytest.mark.parametrize("name", LONG)
def test_a_destination_whose_path_is_too_long_is_our_error(tmp_path: Path, name: str) -> None:
    source = write_images(tmp_path / "source", "a/0.jpg")
    sample, said = Sample("k", {"jpg": encode(8, 8)}), "File name too long.*choose a shorter path"
    with pytest.raises(PackError, match=said):
        headrace.pack_dataset(source, tmp_path / name)
    with pytest.raises(PackError, match=said):
        headrace.pack_dataset(headrace.open_source(source), tmp_path / name)
    with pytest.raises(PackError, match=said):
        headrace.index_dataset(source, out=tmp_path / name)
    for to in ("folder", "gulp", "webdataset", "lmdb"):
        with pytest.raises(PackError, match=said):
            headrace.export_samples([sample], tmp_path / name, to=to)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_name_that_is_too_long_for_the_exported_file_is_our_error(tmp_path: Path) -> None:
    sample = Sample("k" * 300, {"jpg": encode(8, 8)})
    with pytest.raises(PackError, match="File name too long"):
        headrace.export_samples([sample], tmp_path / "out", to="folder")
    assert list(tmp_path.iterdir()) == []


def test_a_tar_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_folder(tmp_path / "source")
    headrace.export_samples(
        headrace.open_dataset(source, tmp_path / "cache"), tmp_path / "tars", to="webdataset"
    )

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("headrace.formats.random_access.pread_all", fail)
    with pytest.raises(PackError, match=r"shard-000000\.tar: .*Input/output error"):
        headrace.index_dataset(tmp_path / "tars")


def test_a_full_disk_ends_the_packing_of_a_stream_with_our_error_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    sample, out = Sample("k", {"bin": bytes(200_000)}), tmp_path / "out"
    with full_at(100_000), pytest.raises(PackError, match=f"File too large: '{out}.*nothing was"):
        pack_samples([sample], out, 1 << 20)
    assert not out.exists()


def test_an_error_of_the_samples_is_not_reported_as_an_error_of_the_disk(
    tmp_path: Path,
) -> None:
    def fail() -> Iterator[Sample]:
        yield Sample("k", {"bin": b"x"})
        raise PermissionError(errno.EACCES, "not yours", "elsewhere")

    with pytest.raises(PermissionError, match="not yours"):
        pack_samples(fail(), tmp_path / "out", 1 << 20)
    assert not (tmp_path / "out").exists()


def test_a_second_export_to_the_same_place_leaves_the_first_one_alone(tmp_path: Path) -> None:
    with new_place(tmp_path / "out") as first:
        first.mkdir()
        (first / "x").write_bytes(b"of the first")
        with pytest.raises(PackError, match="another process is writing it"):
            _make_second(tmp_path / "out", first)
    assert (tmp_path / "out" / "x").read_bytes() == b"of the first"


def _make_second(out: Path, first: Path) -> None:
    """What a process does that looked before the first one had made anything."""
    hidden = first.rename(first.with_name("hidden"))
    with new_place(out) as place:
        hidden.rename(place)
        place.mkdir()


def test_a_destination_that_cannot_be_made_gets_no_advice_to_resume(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", 1, 1)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PackError, match="Not a directory.*; choose another destination"):
        headrace.pack_dataset(source, tmp_path / "file" / "out")


@pytest.mark.parametrize("name", ["rejected.jsonl", ".packing/shard-000000.json", "classes"])
def test_a_pipe_among_what_a_packer_reads_does_not_hang_it(tmp_path: Path, name: str) -> None:
    source, out = make_folder(tmp_path / "in", 1, 1), tmp_path / "out"
    if name == "rejected.jsonl":
        headrace.pack_dataset(source, out)
    (out / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(out / name)
    if name == "rejected.jsonl":
        with pytest.raises(SourceError, match="rejected.jsonl: not a regular file"):
            headrace.pack_dataset(source, out)
    elif name == "classes":
        with pytest.raises(SourceError, match="classes: not a regular file"):
            read_classes(out / name)
    else:
        headrace.pack_dataset(source, out)
        assert headrace.verify_dataset(out) == []
