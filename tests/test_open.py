"""Loading straight from an image folder: the same batches, from an index that is kept and checked."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import headrace
from formats.making import write_tar
from headrace import Loader
from headrace import open as opening
from headrace.errors import DecodeError, SourceError
from headrace.formats.detect import Layout
from headrace.formats.image_files import ImageFiles
from headrace.formats.source import PlacedSource
from headrace.open import index_cache, open_dataset
from headrace.sample import Sample
from headrace.store.manifest import Manifest
from headrace.transforms import CenterCrop, RandomResizedCrop, Resize
from images import encode
from trees import make_folder, write_pictures


def test_a_folder_gives_the_batches_of_a_pack_in_source_order(folder: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(folder, tmp_path / "packed", order="source")
    steps = [Resize(30), CenterCrop(24)]
    ours = Loader(folder, 8, transform=steps, fields=("image", "label", "key"))
    packed = Loader(tmp_path / "packed", 8, transform=steps, fields=("image", "label", "key"))
    for a, b in zip(ours, packed, strict=True):
        assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) and a[2] == b[2]


def test_a_folder_is_opened_by_number_too(folder: Path) -> None:
    dataset = headrace.open_dataset(folder)
    assert len(dataset) == 61 and dataset.classes == [f"class{number}" for number in range(4)]
    assert dataset[0]["jpg"] == (folder / "class0" / "000.jpg").read_bytes()


@pytest.mark.parametrize("limit", [128 << 20, 1000], ids=["all in memory", "file by file"])
def test_a_shuffled_folder_is_covered_once_in_an_order_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("headrace.serve.derived_options.WINDOW_BYTES", limit)
    loader = Loader(folder, 8, shuffle=True, transform=[RandomResizedCrop(16)])
    rows = np.concatenate([batch.rows for batch in loader])
    assert sorted(rows) == list(range(61))
    assert rows.tolist() != sorted(rows)


def test_the_index_is_built_once_and_again_when_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    root = write_pictures(tmp_path / "in", count=10)

    def index_time() -> int:
        loader = Loader(root, 4, transform=[RandomResizedCrop(16)])
        return (loader.dataset.path / "headrace.json").stat().st_mtime_ns

    first = index_time()
    assert index_time() == first
    write_pictures(root, count=12)
    assert index_time() > first
    assert len(Loader(root, 12, transform=[RandomResizedCrop(16)])) == 1


def test_a_loader_keeps_its_index_when_the_folder_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    root = write_pictures(tmp_path / "in", count=10)
    loader = Loader(root, 4, transform=[RandomResizedCrop(16)], on_error="skip")
    next(path for path in sorted(root.rglob("*")) if path.is_file()).unlink()
    assert len(Loader(root, 4, transform=[RandomResizedCrop(16)]).dataset) == 9
    assert sum(len(batch.rows) for batch in loader) == 9
    assert loader.stats().error_count == 1
    # what nobody works with any more goes when the next is made
    while index_cache._held:
        os.close(index_cache._held.popitem()[1])
    next(path for path in sorted(root.rglob("*")) if path.is_file()).unlink()
    Loader(root, 4, transform=[RandomResizedCrop(16)])
    assert len([path for path in (tmp_path / "cache").iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("kind", ["folder", "database"])
def test_what_is_rewritten_at_the_same_size_is_indexed_again(tmp_path: Path, kind: str) -> None:
    file = tmp_path / ("in/a/0.jpg" if kind == "folder" else "in.lmdb")
    source = tmp_path / "in" if kind == "folder" else file
    lengths = []
    for side in (16, 8):
        data = encode(side, side).ljust(2000, b"\0")
        if kind == "folder":
            write_files(source, {"a/0.jpg": data})
        else:
            pytest.importorskip("lmdb")
            file.unlink(missing_ok=True)
            headrace.export_samples([Sample("0", {"jpg": data}, 0)], file, to="lmdb")
        lengths.append(file.stat().st_size)
        os.utime(file, (side, side))
        (batch,) = Loader(source, 1)
        assert batch[0].shape == (1, side, side, 3)
    assert lengths[0] == lengths[1]


def test_others_have_to_wait_while_the_index_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_source = index_cache.index_source

    def index_under_lock(source: PlacedSource, **options: Any) -> Manifest:
        (lock,) = (tmp_path / "cache").glob("*.lock")
        with open(lock) as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return index_source(source, **options)

    monkeypatch.setattr(index_cache, "index_source", index_under_lock)
    root = write_pictures(tmp_path / "in", count=2)
    assert len(open_dataset(root, tmp_path / "cache")) == 2


def test_a_cache_that_cannot_be_made_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file" / "cache"))
    root = write_pictures(tmp_path / "in", count=2)
    with pytest.raises(SourceError, match="cannot keep the index there.*HEADRACE_CACHE"):
        Loader(root, 2, transform=[RandomResizedCrop(16)])


@pytest.mark.parametrize("kind", ["folder", "database"])
def test_an_index_in_a_cache_that_cannot_be_written_to_is_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    source = folder
    if kind == "database":
        pytest.importorskip("lmdb")
        source = tmp_path / "train.lmdb"
        headrace.pack_dataset(folder, tmp_path / "packed")
        headrace.export_samples(headrace.open_dataset(tmp_path / "packed"), source, to="lmdb")
    cache = tmp_path / "cache"
    expected = len(open_dataset(source, cache))
    states = list_states(cache)
    monkeypatch.setattr(index_cache, "_locked", refuse_to_write)
    assert len(open_dataset(source, cache)) == expected
    assert list_states(cache) == states


def refuse_to_write(path: Path) -> None:
    raise OSError(errno.EROFS, "Read-only file system", str(path))


def test_an_index_made_while_a_file_could_not_be_read_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_pictures(tmp_path / "in", count=10)
    read = ImageFiles.read

    def read_most(source: ImageFiles, i: int) -> Sample:
        if i == 3:
            raise SourceError("cannot be read: Input/output error")
        return read(source, i)

    options = {"transform": [RandomResizedCrop(16)], "on_error": "skip"}
    with monkeypatch.context() as patch:
        patch.setattr(ImageFiles, "read", read_most)
        before = Loader(root, 16, **options)
        (batch,) = before
    assert len(batch[0]) == 9
    (batch,) = Loader(root, 16, **options)
    assert len(batch[0]) == 10
    (batch,) = before
    assert len(batch[0]) == 9


def test_an_index_is_kept_although_a_file_cannot_be_read(tmp_path: Path) -> None:
    root, cache = write_pictures(tmp_path / "in", count=4), tmp_path / "cache"
    (root / "class0" / "zz.jpg").symlink_to(tmp_path / "later.jpg")
    first = open_dataset(root, cache)
    states = list_states(cache)
    assert open_dataset(root, cache).path == first.path
    assert list_states(cache) == states
    (tmp_path / "later.jpg").write_bytes(encode(8, 8))
    second = open_dataset(root, cache)
    assert (len(first), len(second)) == (5, 5) and second.path != first.path
    assert next(iter(Loader(second.filter(pc.field("key") == "class0/zz"), 1)))[0].shape[1] == 8


@pytest.mark.parametrize("kind", ["folder", "listing", "database"])
@pytest.mark.parametrize("damage", ["gone", "cut", "empty", "flipped", "manifest"])
def test_a_damaged_index_is_made_again_and_one_in_use_is_not_removed(
    tmp_path: Path, kind: str, damage: str
) -> None:
    source, cache = tmp_path / "in", tmp_path / "cache"
    write_files(source, {"a/0.jpg": encode(8, 8)})
    if kind == "listing":
        write_files(source, {"list.csv": b"path,label\na/0.jpg,0\n"})
        source /= "list.csv"
    elif kind == "database":
        members = {"0.jpg": encode(8, 8), "0.cls": b"0"}
        source = write_tar(tmp_path / "x.tar", members)
    first = open_dataset(source, cache)
    (index,) = first.path.glob("*.arrow")
    if damage == "gone":
        index.unlink()
    elif damage in ("flipped", "manifest"):
        path = first.path / "headrace.json" if damage == "manifest" else index
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    else:
        os.truncate(index, 100 if damage == "cut" else 0)
    assert len(list(Loader(open_dataset(source, cache), 1))) == 1
    assert first.path.is_dir()
    os.close(index_cache._held.pop(first.path))
    os.utime(source / "a/0.jpg" if kind == "folder" else source)
    open_dataset(source, cache)
    assert not first.path.exists()


def test_an_index_that_another_process_works_with_is_not_removed(tmp_path: Path) -> None:
    root, cache = write_pictures(tmp_path / "in", count=2), tmp_path / "cache"
    first = open_dataset(root, cache)
    os.close(index_cache._held.pop(first.path))
    with open(first.path / "headrace.json") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        (root / "class0" / "more.jpg").write_bytes(encode(8, 8))
        assert len(open_dataset(root, cache)) == 3
        assert first.path.is_dir()


def test_an_index_is_for_all_users_and_one_that_may_not_be_read_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, cache = write_pictures(tmp_path / "in", count=2), tmp_path / "cache"
    before = os.umask(0o022)
    try:
        first = open_dataset(root, cache)
    finally:
        os.umask(before)
    assert first.path.stat().st_mode & 0o777 == 0o755
    exists = Path.exists

    def refuse(path: Path) -> bool:  # as for all but root, where the folder is another user's
        if path.parent == first.path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refuse)
    assert open_dataset(root, cache).path != first.path


def test_a_listing_is_indexed_again_when_an_image_or_the_listing_changes(tmp_path: Path) -> None:
    write_files(tmp_path, {"0.jpg": encode(8, 8), "list.csv": b"path,label\n0.jpg,1\n"})
    listing = tmp_path / "list.csv"
    old = Loader(listing, 1)
    assert next(iter(old))[0].shape == (1, 8, 8, 3)
    (tmp_path / "0.jpg").write_bytes(encode(16, 16))
    assert next(iter(Loader(listing, 1)))[0].shape == (1, 16, 16, 3)
    with pytest.raises(
        DecodeError, match="changed after it was indexed: open its .* listing again"
    ):
        list(old)
    listing.write_bytes(b"path,label\n0.jpg,2\n")
    os.utime(listing, (1, 1))
    assert next(iter(Loader(listing, 1)))[1].tolist() == [2]


@pytest.mark.parametrize("kind", ["listing", "database"])
def test_what_cannot_be_indexed_is_left_out_if_it_may_be(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "list.csv"
    write_files(tmp_path, {"0.jpg": encode(8, 8)})
    source.write_bytes(b"path,label\n0.jpg,0\ngone.jpg,1\n")
    if kind == "database":
        pytest.importorskip("lmdb")
        source = tmp_path / "x.lmdb"
        samples = [Sample("0", {"jpg": encode(8, 8)}, 0), Sample("1", {"jpg": b"\xff\xd8\xff"}, 0)]
        headrace.export_samples(samples, source, to="lmdb")
    for _ in range(2):
        loader = Loader(source, 2, on_error="skip")
        assert [batch.rows.tolist() for batch in loader] == [[0]]
        assert "some samples are left out" in caplog.text
        caplog.clear()
    with pytest.raises(headrace.HeadraceError, match="1 of 2"):
        Loader(source, 2)
    assert Loader(source, 2, on_error="skip").dataset.path == loader.dataset.path


def test_a_link_is_loaded_by_its_own_name_and_place(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    write_files(blobs, {"1": b"path,label\nimages/0.jpg,3\n"})
    write_files(snapshot, {"images/0.jpg": encode(8, 8)})
    write_tar(blobs / "2", {"0.jpg": encode(8, 8), "0.cls": b"4"})
    (snapshot / "train.csv").symlink_to("../blobs/1")
    (snapshot / "train.tar").symlink_to("../blobs/2")
    assert next(iter(Loader(snapshot / "train.csv", 1)))[1].tolist() == [3]
    assert next(iter(Loader(snapshot / "train.tar", 1)))[1].tolist() == [4]


def test_a_file_that_is_not_an_image_is_one_bad_sample(tmp_path: Path) -> None:
    root = write_pictures(tmp_path / "in", count=10)
    (root / "class0" / "zzz.jpg").write_bytes(b"not an image")
    loader = Loader(root, 16, transform=[RandomResizedCrop(16)], on_error="skip")
    (batch,) = loader
    assert len(batch[0]) == 10
    assert [key for key, _ in loader.stats().errors] == ["class0/zzz"]


@pytest.mark.parametrize("fields", [("image", "label"), ("jpg", "label")])
def test_a_file_that_vanishes_after_indexing_is_one_bad_sample(
    tmp_path: Path, fields: tuple[str, ...]
) -> None:
    root = write_pictures(tmp_path / "in", count=10)
    options = {"transform": [RandomResizedCrop(16)], "fields": fields}
    loader = Loader(root, 16, on_error="skip", **options)
    strict = Loader(root, 16, **options)
    gone = root / "class0" / "000.jpg"
    content = gone.read_bytes()
    gone.unlink()
    (batch,) = loader
    assert len(batch[0]) == 9
    ((key, reason),) = loader.stats().errors
    assert key == "class0/000"
    assert "missing" in reason
    with pytest.raises(headrace.DecodeError, match=f"{gone}.* missing"):
        list(strict)
    gone.write_bytes(content)
    (batch,) = loader
    assert len(batch[0]) == 10


def test_a_missing_file_never_reaches_the_users_python(tmp_path: Path) -> None:
    root = write_pictures(tmp_path / "in", count=10)
    crop = [lambda image: image.resize((8, 8))]
    loader = Loader(root, 16, transform=crop, num_workers=0, on_error="substitute")
    (root / "class0" / "000.jpg").unlink()
    ((images, _),) = loader
    assert len(images) == 10
    assert "missing" in loader.stats().errors[0][1]


def test_a_file_cut_short_after_indexing_says_so(tmp_path: Path) -> None:
    root = write_pictures(tmp_path / "in", count=4)
    loader = Loader(root, 4, transform=[RandomResizedCrop(16)])
    short = root / "class0" / "000.jpg"
    short.write_bytes(short.read_bytes()[:-100])
    with pytest.raises(headrace.DecodeError, match="changed after it was indexed"):
        list(loader)


def test_a_file_that_has_grown_after_indexing_says_so(tmp_path: Path) -> None:
    root = write_pictures(tmp_path / "in", count=4)
    loader = Loader(root, 4, transform=[RandomResizedCrop(16)])
    (root / "class0" / "000.jpg").write_bytes(encode(200, 300))
    with pytest.raises(headrace.DecodeError, match="changed after it was indexed"):
        list(loader)


@pytest.mark.parametrize(
    ("layout", "advice"), [("gulp", "run `headrace index"), ("parquet", "`headrace pack` it")]
)
def test_other_layouts_without_an_index_say_what_to_do(
    tmp_path: Path, layout: str, advice: str
) -> None:
    samples = [Sample("a", {"jpg": encode(8, 8)}, label=0)]
    if layout == "gulp":
        headrace.export_samples(samples, tmp_path / "out", to=layout)
    else:
        (tmp_path / "out").mkdir()
        pq.write_table(pa.table({"image": [encode(8, 8)]}), tmp_path / "out" / "a.parquet")
    with pytest.raises(SourceError, match=advice) as error:
        Loader(tmp_path / "out", 4)
    assert "--format folder" not in str(error.value)  # there is no image file


def test_classes_are_loaded_with_the_tars_that_they_came_in_beside_them(tmp_path: Path) -> None:
    write_files(tmp_path, {"cat/0.jpg": encode(8, 8), "cat.tar": b""})
    assert len(Loader(tmp_path, 1).dataset) == 1


def test_a_folder_is_loaded_as_the_layout_that_it_is_packed_as(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"0.jpg": encode(8, 8), "1.jpg": encode(8, 8)})
    (tmp_path / "metadata.csv").write_text("file_name,label,score\n1.jpg,7,0.5\n")
    (batch,) = Loader(tmp_path, 2, fields=("key", "label", "score"))
    assert list(map(list, batch)) == [["1"], [7], [0.5]]
    monkeypatch.setattr(opening, "detect", lambda path: Layout("webdataset", path, path))
    with pytest.raises(SourceError, match="webdataset without a manifest"):
        Loader(tmp_path, 2)


@pytest.mark.parametrize("damage", [b"", b'{"format": "headrace"}'])
def test_the_kept_index_of_a_database_is_made_again_when_it_is_damaged(
    tmp_path: Path, damage: bytes
) -> None:
    samples = [Sample("a", {"jpg": encode(8, 8)}, label=0)]
    headrace.export_samples(samples, tmp_path / "x.lmdb", to="lmdb")
    folder = open_dataset(tmp_path / "x.lmdb", tmp_path / "cache").path
    (folder / "headrace.json").write_bytes(damage)
    assert len(open_dataset(tmp_path / "x.lmdb", tmp_path / "cache")) == 1


def test_a_pack_that_was_stopped_is_reported_as_unfinished(tmp_path: Path) -> None:
    (tmp_path / ".packing").mkdir()
    with pytest.raises(headrace.CorruptError, match="packing was not finished"):
        headrace.open_dataset(tmp_path)


def test_tars_without_an_index_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"")
    with pytest.raises(SourceError, match="headrace index"):
        Loader(tmp_path, 4)


def test_an_image_with_a_plain_name_comes_before_others_of_its_sample(tmp_path: Path) -> None:
    others = {"k.depth.png": encode(8, 8, format="PNG"), "k.cls": b"0"}
    write_tar(tmp_path / "x.tar", {**others, "k.jpg": encode(16, 16)})
    headrace.index_dataset(tmp_path)
    (batch,) = Loader(tmp_path, 1)
    assert batch[0].shape == (1, 16, 16, 3)


def list_states(root: Path) -> dict[Path, tuple[int, int, int]]:
    """What writing to a file or folder changes."""
    stats = {path: path.stat() for path in root.rglob("*")}
    return {path: (s.st_ino, s.st_size, s.st_mtime_ns) for path, s in stats.items()}


def write_files(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def damage_in_the_middle(data: bytes) -> bytes:
    """A marker that no JPEG has, where only who decodes the lower half sees it: Pillow refuses it."""
    middle = (data.index(b"\xff\xda") + len(data)) // 2
    return data[:middle] + b"\xff\xb8" + data[middle + 2 :]


@pytest.mark.parametrize(
    "steps", [None, [Resize((24, 24))], [Resize(30), CenterCrop(24)], [RandomResizedCrop(24)]]
)
@pytest.mark.parametrize("tarred", [False, True])
def test_an_image_that_did_not_decode_when_indexed_is_never_served(
    tmp_path: Path, steps: list[headrace.transforms.Transform] | None, tarred: bool
) -> None:
    good, bad = encode(64, 64), damage_in_the_middle(encode(64, 64, seed=1))
    files = {"c/0.jpg": good, "c/1.jpg": bad, "c/2.jpg": good}
    if tarred:
        labels = {name.replace("jpg", "cls"): b"0" for name in files}
        write_tar(tmp_path / "x.tar", dict(sorted({**files, **labels}.items())))
        headrace.index_dataset(tmp_path)
    else:
        write_files(tmp_path, files)
    with pytest.raises(DecodeError, match="'c/1' .*did not decode when it was indexed"):
        list(Loader(tmp_path, 3, transform=steps))
    loader = Loader(tmp_path, 3, transform=steps, on_error="skip")
    assert [batch.rows.tolist() for batch in loader] == [[0, 2]]
    assert loader.stats().error_count == 1


@pytest.mark.parametrize(
    ("shape", "steps"),
    [
        ((1, 3000), [Resize(20, max_size=40), CenterCrop(20)]),
        ((1, 40000), [Resize(2048), CenterCrop(20)]),
    ],
)
def test_a_picture_too_thin_to_be_resized_is_refused_alone(
    tmp_path: Path, shape: tuple[int, int], steps: list[headrace.transforms.Transform]
) -> None:
    write_files(tmp_path, {"c/0.jpg": encode(80, 60), "c/1.jpg": encode(*shape)})
    with pytest.raises(DecodeError, match="'c/1' in .* pixels are too few, or too long and thin"):
        list(Loader(tmp_path, 2, transform=steps))
    (batch,) = Loader(tmp_path, 2, transform=steps, on_error="skip")
    assert batch.rows.tolist() == [0]


def test_an_empty_class_that_comes_later_counts(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/0.jpg": encode(8, 8), "b/0.jpg": encode(8, 8)})
    assert next(iter(Loader(tmp_path, 2)))[1].tolist() == [0, 1]
    (tmp_path / "aa").mkdir()
    assert next(iter(Loader(tmp_path, 2)))[1].tolist() == [0, 2]


def test_a_folder_in_which_nothing_decodes_is_reported(tmp_path: Path) -> None:
    write_files(tmp_path, {"c/0.jpg": b"no image"})
    with pytest.raises(ValueError, match="or none decodes"):
        Loader(tmp_path, 2)


def test_a_dataset_is_called_by_where_its_samples_are(tmp_path: Path) -> None:
    root, cache = write_pictures(tmp_path / "in", count=2), tmp_path / "cache"
    assert repr(open_dataset(root, cache)).startswith(f"Dataset({str(root)!r}, 2 samples")
    tar = write_tar(tmp_path / "x.tar", {"0.jpg": encode(8, 8), "0.cls": b"0"})
    assert repr(open_dataset(tar, cache)).startswith(f"Dataset({str(tar)!r}, 1 samples")
    with pytest.raises(ValueError, match=f"^{tar} has no"):
        Loader(open_dataset(tar, cache), 1, fields=("image", "json"))
    headrace.pack_dataset(root, tmp_path / "out")
    assert repr(headrace.open_dataset(tmp_path / "out")).startswith(f"Dataset('{tmp_path}/out'")


def test_a_pattern_says_that_it_is_to_be_indexed(tmp_path: Path) -> None:
    write_tar(tmp_path / "x-0.tar", {"0.jpg": encode(8, 8), "0.cls": b"0"})
    with pytest.raises(SourceError, match=r"run `headrace index '.*/x-\*.tar'` once, and load"):
        Loader(tmp_path / "x-*.tar", 1)
    with pytest.raises(SourceError, match="y-"):
        Loader(tmp_path / "y-*.tar", 1)


def test_an_index_that_was_just_made_is_kept_where_locks_are_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS: what this process has locked does not keep it from locking once more."""
    root, cache = write_pictures(tmp_path / "in", count=2), tmp_path / "cache"
    monkeypatch.setattr(fcntl, "flock", lambda file, kind: None)
    first = open_dataset(root, cache)
    assert open_dataset(root, cache).path == first.path
    assert len(list(Loader(first, 1, transform=[CenterCrop(8)]))) == 2


@pytest.mark.parametrize("name", ["x" * 5000, "/".join(["y" * 200] * 30)])
def test_a_path_that_is_too_long_is_an_error_of_ours(name: str) -> None:
    with pytest.raises(SourceError, match="cannot be opened: File name too long"):
        Loader(name, 1)


def test_the_cache_works_on_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    root, cache = write_pictures(tmp_path / "in", count=2), tmp_path / "cache"
    first = open_dataset(root, cache)
    assert open_dataset(root, cache).path == first.path
    (root / "class0" / "more.jpg").write_bytes(encode(8, 8))
    assert len(open_dataset(root, cache)) == 3
    assert first.path.is_dir(), "another process may work with it"


@pytest.mark.parametrize("times", [1, 2])
def test_a_stale_handle_of_a_network_drive_is_opened_again_once_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    root = write_pictures(tmp_path / "in", count=2)
    headrace.pack_dataset(root, tmp_path / "packed", order="source")
    headrace.index_dataset(root, out=tmp_path / "index")
    preadv, pread, left = os.preadv, os.pread, dict.fromkeys(("preadv", "pread"), times)

    def fail(name: str, *arguments: Any) -> Any:
        if left[name]:
            left[name] -= 1
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return (preadv if name == "preadv" else pread)(*arguments)

    for path in (tmp_path / "packed", tmp_path / "index"):
        loader = Loader(path, 2, transform=[CenterCrop(8)])
        left["preadv"] = left["pread"] = times
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", lambda *arguments: fail("preadv", *arguments))
            patch.setattr(os, "pread", lambda *arguments: fail("pread", *arguments))
            if times == 1:
                assert len(list(loader)) == 1 and loader.dataset[0].key
                continue
            with pytest.raises(headrace.HeadraceError, match="in .*Stale file handle|: Stale file"):
                list(loader)
            with pytest.raises(headrace.CorruptError, match=r"\.(tar|jpg): Stale file handle, for"):
                loader.dataset[0]


def test_a_folder_that_was_taken_for_something_else_can_be_indexed_as_images(
    tmp_path: Path,
) -> None:
    root = write_pictures(tmp_path / "in", count=2)
    write_tar(root / "backup.tar", {"0.jpg": encode(8, 8)})
    for folder in (root, root / "class0"):
        write_tar(folder / "backup.tar", {"0.jpg": encode(8, 8)})
        with pytest.raises(SourceError, match="`headrace index .* --format folder --out DIR`"):
            Loader(folder, 1)
    headrace.index_dataset(root, format="folder", out=tmp_path / "out")
    assert len(headrace.open_dataset(tmp_path / "out")) == 2


def test_a_warning_names_images_beside_the_classes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_files(tmp_path / "in", {"sub/0.jpg": encode(8, 8), "notes.txt": b""})
    assert len(open_dataset(tmp_path / "in")) == 1 and not caplog.messages
    write_files(tmp_path / "in", {"1.jpg": encode(8, 8), "2.JPG": encode(8, 8)})
    assert len(open_dataset(tmp_path / "in")) == 1
    (message,) = caplog.messages
    assert "2 images lie beside the class folders and are left out: 1.jpg, ..." in message


def test_images_that_the_listing_of_a_folder_leaves_out_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_files(tmp_path, {"images/0.jpg": encode(8, 8), "list.csv": b"path\nimages/0.jpg\n"})
    assert len(open_dataset(tmp_path)) == 1 and not caplog.messages
    write_files(tmp_path, {"images/1.jpg": encode(8, 8)})
    assert len(open_dataset(tmp_path)) == 1
    (message,) = caplog.messages
    assert "1 images are not in the listing and are left out: images/1.jpg" in message


def test_what_lies_above_a_link_is_above_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pictures(tmp_path / "real" / "in", count=3)
    write_pictures(tmp_path / "in", count=1)
    (tmp_path / "real" / "deep").mkdir()
    (tmp_path / "link").symlink_to("real/deep")
    headrace.pack_dataset(tmp_path / "real" / "in", tmp_path / "real" / "out")
    monkeypatch.chdir(tmp_path)
    for name in ("in", "out"):
        path = Path("link/..") / name
        assert len(Loader(path, 1, transform=[CenterCrop(8)])) == 3
        assert len(open_dataset(path)) == 3
    assert len(headrace.open_source("link/../in").names) == 3


def test_a_kept_index_of_other_content_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a new Headrace writes something into indexes that those it finds do not have."""
    make_folder(tmp_path / "photos", classes=2, per_class=2, size=8)
    cache = tmp_path / "cache"

    def list_kept() -> set[str]:
        assert len(open_dataset(tmp_path / "photos", cache)) == 4
        return {path.name for path in cache.iterdir() if path.is_dir()}

    first = list_kept()
    assert list_kept() == first
    monkeypatch.setattr(index_cache, "_CONTENT", -1)
    assert list_kept() - first
