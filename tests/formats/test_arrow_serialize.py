"""pyarrow.serialize's blobs, as pyarrow itself wrote them; and the same with any byte changed."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formats.fixtures import FIXTURES
from headrace.errors import SourceError
from headrace.formats.codecs.arrow_serialize import load_arrow
from headrace.formats.layouts.lmdb import open_database, open_lmdb

NAMES = [
    "efficient-pytorch/val.lmdb",
    "efficient-pytorch-pa0.11/val.lmdb",
    "tensorpack-pyarrow/data.lmdb",
    "tensorpack-pyarrow-2018/data.lmdb",
    "pyarrow-eras/pyarrow-0.13.0/tensorpack.lmdb",
]

ERAS = ["0.13.0", "0.15.1", "0.17.1"]
"""Versions whose blobs are fixtures, with databases of theirs."""

JPEG = b"\xff\xd8\xff" + bytes(range(40))
VALUES: dict[str, Any] = {
    "list": [b"abc", 3],
    "dict": {"image": b"abc", "label": 3},
    "none": None,
    "none_first": [None, 5],
    "none_nested": [[None, 1], [None], [None, 2, [3, None]], {"k": [None]}],
    "nones": [None, None, 1, None, b"x", None, "t", None, 2.5, None, True, None],
    "jpg_none": [JPEG, None],
    "arrays": [[0, 1, 2], None, [0, 1, 2, 3], [[[0, 0], [0, 0]], None]],
    "empties": [[], [], {}, b"", ""],
}
REFUSED = {"set_tuple": "a set", "buffer": "a buffer"}
BLOBS: list[tuple[str, str, str]] = json.loads(
    Path(__file__).with_name("pyarrow_blobs.json").read_bytes()
)
"""(version of pyarrow, name of the value, base64 of the compressed blob), of seven versions from 0.11 to 11."""


def plain(value: Any) -> Any:
    """Turn arrays into lists, at any depth."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("version, name, text", BLOBS, ids=[f"{v}-{n}" for v, n, _ in BLOBS])
def test_blobs_of_every_era_hold_what_was_serialized(version: str, name: str, text: str) -> None:
    blob = zlib.decompress(base64.b64decode(text))
    if name in REFUSED:
        with pytest.raises(SourceError, match=REFUSED[name]):
            load_arrow(blob)
    else:
        assert plain(load_arrow(blob)) == VALUES[name]


def parse_expected(value: Any) -> Any:
    if isinstance(value, list):
        return [parse_expected(item) for item in value]
    if isinstance(value, dict):
        return {name: parse_expected(item) for name, item in value.items()}
    if isinstance(value, str) and value.startswith("float32 "):
        return json.loads(value.removeprefix("float32 "))
    return value[2:].encode() if isinstance(value, str) and value[:2] == "b:" else value


@pytest.mark.parametrize("version", ERAS)
def test_fixtures_of_every_era_hold_what_they_say(shared: Path, version: str) -> None:
    folder = FIXTURES / f"pyarrow-eras/pyarrow-{version}"
    for name, entry in json.loads((folder / "expected.json").read_text())["blobs"].items():
        value = plain(load_arrow(base64.b64decode(entry["base64"])))
        assert value == parse_expected(entry["value"]), name


@pytest.mark.parametrize("version", ERAS)
def test_databases_of_every_era_are_read_integer(shared: Path, version: str) -> None:
    folder = FIXTURES / f"pyarrow-eras/pyarrow-{version}"
    expected = json.loads((folder / "expected.json").read_text())["lmdb"]
    source = open_lmdb(folder / "tensorpack.lmdb")
    assert not source.ignored  # the list of keys is a blob too
    assert list(source.names) == [entry["key"] for entry in expected]
    for i, entry in enumerate(expected):
        sample = source.read(i)
        assert sample.label == entry["label"]
        assert hashlib.sha256(sample["jpg"]).hexdigest() == entry["sha256"]


def read_blob(name: str) -> bytes:
    database = open_database(FIXTURES / name)
    return database.read(database.entry(int(database.sizes.argmin())))


@pytest.fixture(scope="module")
def blobs(shared: Path) -> dict[str, bytes]:
    return {name: read_blob(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_blob_cut_anywhere_is_an_error_or_complete(blobs: dict[str, bytes], name: str) -> None:
    blob = blobs[name]
    whole = load_arrow(blob)
    for size in range(0, len(blob), 7):
        try:
            found = load_arrow(blob[:size])
        except SourceError:
            continue
        assert bytes(found[0]) == bytes(whole[0]) and found[1] == whole[1]


@pytest.mark.parametrize("name", NAMES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_blob_is_an_error_and_nothing_else(
    blobs: dict[str, bytes], name: str, data: st.DataObject
) -> None:
    blob = bytearray(blobs[name])
    for _ in range(data.draw(st.integers(1, 8))):
        blob[data.draw(st.integers(0, min(len(blob), 900) - 1))] = data.draw(st.integers(0, 255))
    try:
        load_arrow(bytes(blob))
    except SourceError:
        pass
