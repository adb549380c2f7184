"""Datasets that lie: each one is a named error, quickly and with little memory."""

from __future__ import annotations

import hashlib
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headrace
from headrace.errors import CorruptError
from headrace.store.index_schema import encode_index
from headrace.store.manifest import find_checksum
from trees import make_folder
from videos import make_video, save_videos


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    headrace.pack_dataset(make_folder(tmp_path / "in"), tmp_path / "out", shard_size=8000)
    return tmp_path / "out"


def edit_manifest(packed: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = packed / "headrace.json"
    content = json.loads(path.read_text())
    change(content)
    content["sha256"] = find_checksum(content)  # whoever lies can count as well
    path.write_text(json.dumps(content))


def edit_index(packed: Path, column: str, value: object) -> None:
    """Puts `value` into the first row of a column of the first shard."""
    path = packed / "shard-000000.arrow"
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    values = table[column].to_pylist()
    values[next(i for i, old in enumerate(values) if old is not None)] = value
    array = pa.array(values, pa.string() if column == "file" else table.schema.field(column).type)
    if column == "file":
        array = array.dictionary_encode()
    forge_index(packed, table.set_column(table.column_names.index(column), column, array))


def forge_index(packed: Path, table: pa.Table) -> None:
    """Replace the first index, and say so in the manifest: whoever lies can hash as well."""
    forge(packed, encode_index(table))


def forge(packed: Path, content: bytes) -> None:
    (packed / "shard-000000.arrow").write_bytes(content)
    record = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    edit_manifest(packed, lambda m: m["shards"][0]["index"].update(record))


def read_all(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    list(dataset)
    dataset.index  # noqa: B018


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.update(samples=10**15), "10+ samples, but its shards have 15"),
        (lambda m: m.update(samples=-1), "samples is -1, not a count"),
        (lambda m: m.update(samples=10**400), "not a count"),
        (lambda m: m.update(samples=True), "not a count"),
        (lambda m: m.update(version=99), "version 99"),
        (lambda m: m.update(format="other"), "not 'headrace'"),
        (lambda m: m.pop("classes"), "the manifest lacks 'classes'"),
        (lambda m: m.update(more=1), "the manifest has the unknown entry 'more'"),
        (lambda m: m["shards"][0].pop("data"), "a shard lacks 'data'"),
        (lambda m: m["shards"][0]["index"].pop("sha256"), "a file of a shard lacks 'sha256'"),
        (lambda m: m.update(shards={}), "shards is dict"),
        (lambda m: m.update(classes=[1, 2]), "an entry of classes is int"),
        (lambda m: m["shards"].append(m["shards"][0]), "but its shards have"),
        (lambda m: m["shards"][0]["data"].update(file="../x.tar"), "not below the dataset"),
        (lambda m: m["shards"][0]["data"].update(file="/etc/passwd"), "not below the dataset"),
        (lambda m: m["shards"][0]["index"].update(file=""), "not below the dataset"),
        (lambda m: m["shards"][0]["data"].update(bytes=1), "points outside its file"),
        (lambda m: m["shards"][0]["data"].update(file="gone.tar"), "its shard is 'gone.tar'"),
        (lambda m: m["shards"][0]["index"].update(file="gone.arrow"), "the index is missing"),
    ],
)
def test_a_lying_manifest(packed: Path, change: Any, reason: str) -> None:
    edit_manifest(packed, change)
    with pytest.raises(CorruptError, match=reason):
        read_all(packed)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not a readable manifest"),
        (b"[" * 100_000, "not a readable manifest"),
        (b'{"samples": NaN}', "NaN is not a number"),
        (b"\xff\xfe\x00", "not a readable manifest"),
        (b"[]", "the manifest is list"),
        (b"9" * 10_000, "not a readable manifest"),
    ],
)
def test_a_manifest_that_is_none(packed: Path, text: bytes, reason: str) -> None:
    (packed / "headrace.json").write_bytes(text)
    with pytest.raises(CorruptError, match=reason):
        headrace.open_dataset(packed)


def test_a_manifest_of_absurd_size_is_not_read(packed: Path) -> None:
    with open(packed / "headrace.json", "wb") as file:
        file.truncate(1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptError, match="too large"):
        headrace.open_dataset(packed)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("jpg.offset", 1 << 40, "points outside its file"),
        ("jpg.offset", -512, "points outside its file"),
        ("jpg.size", 1 << 40, "points outside its file"),
        ("jpg.size", -1, "points outside its file"),
        ("jpg.size", (1 << 63) - 1, "points outside its file"),
        ("file", "../../etc/passwd", "not below the dataset"),
        ("file", "/etc/passwd", "not below the dataset"),
        ("file", "shard-000001.tar", "its shard is 'shard-000000.tar'"),
    ],
)
def test_an_index_that_points_elsewhere(
    packed: Path, column: str, value: object, reason: str
) -> None:
    edit_index(packed, column, value)
    with pytest.raises(CorruptError, match=reason):
        read_all(packed)
    with pytest.raises(CorruptError, match=reason):
        headrace.open_dataset(packed).read_index()


TIMES = [0.0, 0.1, 0.3]


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("mjpg.frames", [1, 2, 3], "the frames of mjpg do not add up to its size"),
        ("mjpg.frame_crc32c", [1, 2], "mjpg does not have frame_crc32c for each frame"),
        ("mjpg.frame_seek", [1, 2], "mjpg does not have frame_seek for each frame"),
        ("mjpg.frame_seek", [-1, 2, 1], "a seek table of mjpg is larger than its image"),
        ("mjpg.frame_seek", [1 << 30, 2, 1], "a seek table of mjpg is larger than its image"),
        ("mjpg.frame_seek", [1, 1, 1], "bytes of seek tables, the manifest says"),
        ("mjpg.times", [0.0, 0.1], "mjpg does not have times for each frame"),
        ("mjpg.times", [0.0, 0.2, 0.1], "frame times that decrease"),
        ("mjpg.times", [0.1, 0.2, 0.3], "frame times that decrease, or do not begin at 0"),
        ("mjpg.times", [0.0, float("nan"), 0.3], "frame times that decrease"),
        ("mjpg.fps", -1.0, "a frame rate that is not positive"),
        ("mjpg.fps", float("inf"), "a frame rate that is not positive"),
    ],
)
def test_an_index_that_lies_about_a_video(
    tmp_path: Path, column: str, value: object, reason: str
) -> None:
    about = {"fps": {"mjpg": 7.5}, "times": {"mjpg": TIMES}}
    samples = [make_video(i, 3, (200, 200), **about) for i in range(2)]
    path = save_videos(tmp_path / "packed", samples)
    dataset = headrace.open_dataset(path)
    assert dataset[1].times == {"mjpg": TIMES} and dataset[1].fps == {"mjpg": 7.5}
    edit_index(path, column, value)
    with pytest.raises(CorruptError, match=reason):
        headrace.open_dataset(path).read_index()


def test_an_index_that_is_cut_anywhere_is_an_error(packed: Path) -> None:
    path = packed / "shard-000000.arrow"
    data = path.read_bytes()
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        with pytest.raises(CorruptError, match=f"{size} bytes, the manifest says {len(data)}"):
            read_all(packed)


def test_an_index_with_any_flipped_bit_is_an_error(packed: Path) -> None:
    path = packed / "shard-000000.arrow"
    data = path.read_bytes()
    for position in range(0, len(data), 7):
        path.write_bytes(flip_bit(data, 8 * position + position % 8))
        for read in (read_all, lambda folder: headrace.Loader(folder, 2, fields=("label",))):
            with pytest.raises(CorruptError, match="SHA-256 is not the one in the manifest"):
                read(packed)


def test_an_index_with_a_flipped_byte_that_was_hashed_again_never_crashes(packed: Path) -> None:
    data = (packed / "shard-000000.arrow").read_bytes()
    for position in range(0, len(data), 7):
        content = data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]
        forge(packed, content)
        for read in (read_all, lambda folder: headrace.open_dataset(folder).index.to_pylist()):
            try:
                read(packed)
            except (CorruptError, KeyError):
                pass


def flip_bit(data: bytes, bit: int) -> bytes:
    position = bit // 8
    return data[:position] + bytes([data[position] ^ 1 << bit % 8]) + data[position + 1 :]


def test_an_index_without_a_column_or_with_another_type(packed: Path) -> None:
    path = packed / "shard-000000.arrow"
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    forge_index(packed, table.drop_columns(["jpg.size"]))
    with pytest.raises(CorruptError, match="no column jpg.size of type int64"):
        read_all(packed)


def test_a_tar_that_was_cut_after_packing(packed: Path) -> None:
    tar = packed / "shard-000000.tar"
    tar.write_bytes(tar.read_bytes()[:1000])
    with pytest.raises(
        CorruptError, match=r"shard-000000.tar: \w+ of 'class.* are indexed, 0 are there"
    ):
        read_all(packed)
    tar.unlink()
    with pytest.raises(CorruptError, match="No such file"):
        read_all(packed)


@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_an_index_with_an_impossible_orientation(packed: Path, orientation: int) -> None:
    edit_index(packed, "jpg.orientation", orientation)
    with pytest.raises(CorruptError, match="jpg has an orientation that is not from 1 to 8"):
        headrace.open_dataset(packed).read_index()


@pytest.mark.parametrize(
    "kinds",
    [None, [], {"jpg": None}, {"jpg": {"kind": "sound"}}, {"jpg": {"kind": "mask", "of": []}}],
)
def test_a_manifest_with_impossible_kinds_of_fields(packed: Path, kinds: Any) -> None:
    edit_manifest(packed, lambda m: m.update(field_kinds=kinds))
    with pytest.raises(CorruptError, match=r"headrace\.json: (field_kinds|the kind of 'jpg')"):
        headrace.open_dataset(packed)


def test_a_column_of_an_array_that_is_missing_from_an_index(tmp_path: Path) -> None:
    out = tmp_path / "out"
    headrace.Flow.of([{"x": np.zeros((2, 3), np.uint8)}]).save(out)
    with pa.OSFile(str(out / "shard-000000.arrow")) as file:
        table = pa.ipc.open_file(file).read_all()

    (name,) = (name for name in table.column_names if name.endswith("npy.kind"))
    forge_index(out, table.drop_columns([name]))
    with pytest.raises(CorruptError, match=rf"no column {name} of type dictionary"):
        read_all(out)
