"""pyarrow.serialize's blobs, as pyarrow itself wrote them; and the same with any byte changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formats.fixtures import FIXTURES
from penstock.errors import SourceError
from penstock.formats.arrow_serialize import load_arrow
from penstock.formats.lmdb import open_database

NAMES = [
    "efficient-pytorch/val.lmdb",
    "efficient-pytorch-pa0.11/val.lmdb",
    "tensorpack-pyarrow/data.lmdb",
    "tensorpack-pyarrow-2018/data.lmdb",
]


def read_blob(name: str) -> bytes:
    database = open_database(FIXTURES / name)
    return database.read(database.entry(int(database.sizes.argmin())))


@pytest.fixture(scope="module")
def blobs(shared: Path) -> dict[str, bytes]:
    return {name: read_blob(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_blob_cut_anywhere_is_an_error_or_whole(blobs: dict[str, bytes], name: str) -> None:
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
