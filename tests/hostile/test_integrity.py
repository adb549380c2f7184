"""Data that changed after it was indexed, on purpose or not: nothing wrong is loaded in silence, nothing hangs."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import headrace
from formats.making import write_tar
from headrace.errors import CorruptError, DecodeError
from headrace.store.index_schema import encode_index
from headrace.store.manifest import find_checksum
from headrace.transforms import RandomResizedCrop
from images import encode
from trees import make_folder

CROP = [RandomResizedCrop(16)]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Photos that are large enough for seek tables."""
    for number in range(6):
        path = tmp_path / "in" / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(200, 300, seed=number))
    headrace.pack_dataset(tmp_path / "in", tmp_path / "out")
    return tmp_path / "out"


def load(path: Path, **options: object) -> list[bytes]:
    """An epoch, as bytes; the loader is made and iterated here."""
    with headrace.Loader(path, 3, transform=CROP, **options) as loader:  # type: ignore[arg-type]
        return [images.tobytes() + labels.tobytes() for images, labels in loader]


def flip_bit(path: Path, bit: int) -> Callable[[], object]:
    """Change one bit of a file, but not its times; return what undoes that."""
    data, times = path.read_bytes(), os.stat(path)

    def write(content: bytes) -> None:
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    write(data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :])
    return lambda: write(data)


@pytest.mark.parametrize("name", ["shard-000000.tar", "shard-000000.seek", "shard-000000.arrow"])
def test_a_flipped_bit_is_noticed_or_changes_nothing(packed: Path, name: str) -> None:
    expected, numbers = load(packed), random.Random(0)
    noticed = 0
    for _ in range(60):
        undo = flip_bit(packed / name, numbers.randrange(8 * (packed / name).stat().st_size))
        try:
            assert load(packed) == expected
        except (CorruptError, DecodeError) as error:
            assert "CRC-32C" in str(error) or "SHA-256" in str(error)
            noticed += 1
        undo()
    least = {"shard-000000.tar": 45, "shard-000000.seek": 0, "shard-000000.arrow": 60}
    assert noticed >= least[name]


def test_without_verify_a_flipped_bit_is_not_looked_for(packed: Path) -> None:
    expected = load(packed)
    row = headrace.open_dataset(packed).index.to_pylist()[0]
    quantisation = row["jpg.offset"] + 25  # the first step: that of the mean of a block
    flip_bit(packed / "shard-000000.tar", 8 * quantisation + 3)
    assert load(packed, verify=False) != expected


def test_a_sample_whose_bytes_changed_is_a_bad_sample(packed: Path) -> None:
    rows = headrace.open_dataset(packed).index.to_pylist()
    flip_bit(packed / "shard-000000.tar", 8 * (rows[1]["jpg.offset"] + 40))
    with pytest.raises(DecodeError, match=rf"'{rows[1]['key']}' in .*tar at byte \d+: .*CRC-32C"):
        load(packed)
    with headrace.Loader(packed, 3, transform=CROP, on_error="skip") as loader:
        first, second = loader
    assert first.rows.tolist() == [0, 2] and len(second.rows) == 3
    ((key, reason),) = first.errors
    assert key == rows[1]["key"] and "CRC-32C" in reason


def test_other_fields_that_are_loaded_are_checked_too(packed: Path) -> None:
    rows = headrace.open_dataset(packed).index.to_pylist()
    flip_bit(packed / "shard-000000.tar", 8 * rows[4]["cls.offset"])
    assert len(load(packed)) == 2
    with (
        pytest.raises(DecodeError, match=f"'{rows[4]['key']}' .*CRC-32C"),
        headrace.Loader(packed, 3, transform=CROP, fields=("cls", "image")) as loader,
    ):
        list(loader)
    with pytest.raises(CorruptError, match=f"cls of '{rows[4]['key']}': .*CRC-32C"):
        headrace.open_dataset(packed)[4]


def test_a_changed_field_of_a_sample_without_images_is_named(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.json": b"{}", "1.json": b"[1]"})
    headrace.index_dataset(tmp_path)
    offset = headrace.open_dataset(tmp_path).index["json.offset"][1].as_py()
    flip_bit(tmp_path / "a.tar", 8 * offset)
    with pytest.raises(DecodeError, match="'1' in .*a.tar: json: its bytes are not .*CRC-32C"):
        list(headrace.Loader(tmp_path, 2, fields=("json",)))
    (batch,) = headrace.Loader(tmp_path, 2, fields=("json",), on_error="skip")
    assert batch[0] == [b"{}"] and "CRC-32C" in batch.errors[0][1]


def test_an_image_file_that_changed_after_it_was_indexed_is_a_bad_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    folder = make_folder(tmp_path / "in", size=60)
    headrace.open_dataset(folder)  # which keeps an index
    flip_bit(folder / "class0" / "001.jpg", 8 * 700)
    with pytest.raises(DecodeError, match="'class0/001' in .*CRC-32C.*open its folder"):
        load(folder)


def test_frames_of_a_video_have_a_checksum_each(shared: Path, tmp_path: Path) -> None:
    from headrace._core import crc32c

    headrace.index_dataset(shared / "fixtures" / "gulp", out=tmp_path)
    dataset = headrace.open_dataset(tmp_path)
    for sample, row in zip(dataset, dataset.index.to_pylist(), strict=True):
        assert row["mjpg.frame_crc32c"] == [crc32c(frame) for frame in sample.split_frames()]


def test_a_frame_without_its_checksum_is_a_problem(shared: Path, tmp_path: Path) -> None:
    headrace.index_dataset(shared / "fixtures" / "gulp", out=tmp_path)
    assert headrace.verify_dataset(tmp_path) == []
    shard = headrace.open_dataset(tmp_path).manifest.shards[0]
    forge(tmp_path, zero_frame_sums, shard.index.file)
    assert "do not have their CRC-32C" in str(headrace.verify_dataset(tmp_path)[0])


def forge(
    packed: Path, change: Callable[[pa.Table], pa.Table], name: str = "shard-000000.arrow"
) -> None:
    """Change the index, and hash it as whoever lies can: the manifest agrees."""
    path = packed / name
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    content = encode_index(change(table))
    path.write_bytes(content)
    manifest = json.loads((packed / "headrace.json").read_text())
    record = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest["shards"][0]["index"].update(record)
    manifest["sha256"] = find_checksum(manifest)
    (packed / "headrace.json").write_text(json.dumps(manifest))


def replace(column: str, value: object) -> Callable[[pa.Table], pa.Table]:
    """Put a value into the second row of a column."""

    def change(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        values[1] = value
        kind = pa.string() if column == "file" else table.schema.field(column).type
        array = pa.array(values, kind)
        array = array.dictionary_encode() if column == "file" else array
        return table.set_column(table.column_names.index(column), column, array)

    return change


def zero_frame_sums(table: pa.Table) -> pa.Table:
    column = "mjpg.frame_crc32c"
    values = [[0] * len(sums) for sums in table[column].to_pylist()]
    array = pa.array(values, table.schema.field(column).type)
    return table.set_column(table.column_names.index(column), column, array)


def rename_field(name: str) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        return table.rename_columns([c.replace("cls.", name + ".") for c in table.column_names])

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        *[
            (replace("key", key), "is not the path of a file below the dataset")
            for key in ("/a", "../a", "a/../../b", "a//b", "a/", "", ".", "..", "./a", "a\0b")
        ],
        (replace("key", None), "has no key"),
        (replace("file", None), "names no file"),
        *[
            (rename_field(name), "is not named like a file suffix")
            for name in ("/../../escaped/evil.sh", "a/b", "", "a\0b")
        ],
        *[
            (replace(f"jpg.{name}", None), "only some of offset, size and CRC")
            for name in ("offset", "size", "crc32c")
        ],
        (replace("jpg.seek", -1), "a seek table of jpg is larger than its image"),
        (replace("jpg.seek", 1 << 30), "a seek table of jpg is larger than its image"),
        (replace("jpg.seek", 1), "bytes of seek tables, the manifest says"),
    ],
)
def test_names_nulls_and_sizes_are_checked_when_an_index_is_read(
    packed: Path, change: Callable[[pa.Table], pa.Table], reason: str
) -> None:
    forge(packed, change)
    for read in (
        lambda: headrace.open_dataset(packed)[0],
        lambda: headrace.open_dataset(packed).index,
        lambda: load(packed),
        lambda: list(headrace.open_dataset(packed)),
        lambda: headrace.pack_dataset(packed, packed.parent / "again"),
    ):
        with pytest.raises(CorruptError, match=reason):
            read()
    (problem,) = headrace.verify_dataset(packed)
    assert reason in problem.reason


@pytest.mark.parametrize("key", ["a.b/c", "..a/b", "a../b", "...", "a/..b", "ä/日本", ".hidden"])
def test_keys_that_only_look_odd_are_read(packed: Path, key: str) -> None:
    forge(packed, replace("key", key))
    assert headrace.open_dataset(packed)[1].key == key


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("name", ["headrace.json", "shard-000000.arrow", "shard-000000.tar"])
def test_a_pipe_in_place_of_a_file_is_an_error_and_nothing_waits_for_it(
    packed: Path, name: str
) -> None:
    make_pipe(packed / name)
    with pytest.raises((CorruptError, OSError), match="not a regular file|cannot be read|CRC"):
        load(packed)
    with pytest.raises((CorruptError, OSError), match="not a regular file"):
        headrace.open_dataset(packed)[0]
    if name != "headrace.json":
        assert "not a regular file" in str(headrace.verify_dataset(packed)[0])


def test_a_pipe_in_place_of_seek_tables_only_takes_them_away(packed: Path) -> None:
    expected = load(packed)
    make_pipe(packed / "shard-000000.seek")
    assert load(packed) == expected
    assert "not a regular file" in str(headrace.verify_dataset(packed)[0])


def test_a_pipe_in_place_of_an_indexed_image_is_a_bad_sample(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "in")
    headrace.index_dataset(folder, out=tmp_path / "index")
    make_pipe(folder / "class1" / "002.jpg")
    with pytest.raises(DecodeError, match="class1/002.*not a regular file"):
        load(tmp_path / "index")
    (problem,) = headrace.verify_dataset(tmp_path / "index")
    assert problem.key == "class1/002" and "not a regular file" in problem.reason


def test_seek_tables_beyond_their_file_take_no_memory(packed: Path) -> None:
    expected = load(packed)
    sizes = headrace.open_dataset(packed).index["jpg.size"].to_pylist()
    forge(packed, lambda table: table.set_column(
        table.column_names.index("jpg.seek"), "jpg.seek", pa.array(sizes, pa.int32())
    ))  # fmt: skip
    manifest = json.loads((packed / "headrace.json").read_text())
    manifest["shards"][0]["seek"]["bytes"] = sum(sizes)
    manifest["sha256"] = find_checksum(manifest)
    (packed / "headrace.json").write_text(json.dumps(manifest))
    assert load(packed) == expected


@pytest.mark.parametrize("loose", [True, False], ids=["image folder", "tar"])
@pytest.mark.parametrize("size", [6 << 30, 1 << 40])
def test_a_size_beyond_the_file_takes_no_memory(tmp_path: Path, loose: bool, size: int) -> None:
    folder = make_folder(tmp_path / "in", 1, 3)
    if loose:
        headrace.index_dataset(folder, out=tmp_path / "out")
        (tmp_path / "out" / "files-000000.arrow").rename(tmp_path / "out" / "shard-000000.arrow")
    else:
        headrace.pack_dataset(folder, tmp_path / "out", order="source")
    manifest = json.loads((tmp_path / "out" / "headrace.json").read_text())
    manifest["shards"][0]["index"]["file"] = "shard-000000.arrow"
    if not loose:
        manifest["shards"][0]["data"]["bytes"] = 1 << 50
    (tmp_path / "out" / "headrace.json").write_text(json.dumps(manifest))
    forge(tmp_path / "out", replace("jpg.size", size))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((DecodeError, CorruptError), match=r"are indexed, \d+ are there"):
        load(tmp_path / "out")
    with pytest.raises(CorruptError, match=r"are indexed, \d+ are there"):
        headrace.open_dataset(tmp_path / "out")[1]
    assert headrace.verify_dataset(tmp_path / "out")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    if loose:
        with headrace.Loader(tmp_path / "out", 3, transform=CROP, on_error="skip") as loader:
            assert [batch.rows.tolist() for batch in loader] == [[0, 2]]


def test_rows_of_a_lost_giant_keep_their_neighbours(tmp_path: Path) -> None:
    """A giant may lie between others in the index; only it is lost."""
    folder = make_folder(tmp_path / "in", 1, 5)
    headrace.index_dataset(folder, out=tmp_path / "out")
    expected = load(tmp_path / "out")
    images = np.frombuffer(expected[0][: 3 * 16 * 16 * 3], np.uint8)
    (tmp_path / "out" / "files-000000.arrow").rename(tmp_path / "out" / "shard-000000.arrow")
    manifest = json.loads((tmp_path / "out" / "headrace.json").read_text())
    manifest["shards"][0]["index"]["file"] = "shard-000000.arrow"
    (tmp_path / "out" / "headrace.json").write_text(json.dumps(manifest))
    forge(tmp_path / "out", replace("jpg.size", 3 << 30))
    with headrace.Loader(tmp_path / "out", 3, transform=CROP, on_error="skip") as loader:
        first = next(iter(loader))
    kept = images.reshape(3, 16, 16, 3)[[0, 2]]
    assert np.array_equal(first[0], kept)
