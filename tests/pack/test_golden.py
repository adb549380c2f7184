"""Golden bytes of a tiny data set: the format cannot change by accident.

The index is compared by its rows, as the bytes of an Arrow file may differ between versions of pyarrow.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import penstock

# Two grey 8×8 JPEGs, written out so that no encoder can change them.
HEAD = "ffd8ffe000104a46494600010100000100010000ffdb004300" + "10" * 64
HEAD += "ffc0000b080008000801011100ffc4001400010000000000000000000000000000000300"
HEAD += "ffc40014100100000000000000000000000000000000ffda0008010100003f00"
IMAGES = {"ant/1.jpg": bytes.fromhex(HEAD + "7fffd9"), "bee/2.JPEG": bytes.fromhex(HEAD + "3fffd9")}


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    for name, data in IMAGES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    penstock.pack_dataset(tmp_path / "in", tmp_path / "out", order="source")
    return tmp_path / "out"


def test_the_shard_is_these_bytes(packed: Path) -> None:
    data = (packed / "shard-000000.tar").read_bytes()
    assert len(data) == 5120
    assert hashlib.sha256(data).hexdigest() == (
        "7a3c8ece9845161a0c21da3adef8fb6faf0318b4276b6d4faed591f491e16ac1"
    )


def test_the_index_is_these_rows(packed: Path) -> None:
    columns = {
        "key": ["ant/1", "bee/2"],
        "label": [0, 1],
        "file": ["shard-000000.tar", "shard-000000.tar"],
        "cls.offset": [1536, 3584],
        "cls.size": [1, 1],
        "cls.crc32c": [1654528736, 2432014819],
        "jpg.offset": [512, 2560],
        "jpg.size": [160, 160],
        "jpg.crc32c": [2943035350, 1745790735],
        "jpg.height": [8, 8],
        "jpg.width": [8, 8],
        "jpg.kind": ["grey", "grey"],
    }
    assert penstock.open_dataset(packed).index.to_pydict() == columns


def test_the_manifest_is_this(packed: Path) -> None:
    manifest = json.loads((packed / "penstock.json").read_text())
    index = manifest["shards"][0].pop("index")
    assert (index["file"], set(index)) == ("shard-000000.arrow", {"file", "bytes", "sha256"})
    assert manifest == {
        "format": "penstock",
        "version": 1,
        "samples": 2,
        "bytes": 5120,
        "fields": ["cls", "jpg"],
        "kinds": {"grey": 2},
        "classes": ["ant", "bee"],
        "shards": [
            {
                "samples": 2,
                "data": {
                    "file": "shard-000000.tar",
                    "bytes": 5120,
                    "sha256": "7a3c8ece9845161a0c21da3adef8fb6faf0318b4276b6d4faed591f491e16ac1",
                },
            }
        ],
        "root": ".",
        "recipe": {
            "shard_size": 268435456,
            "order": "source",
            "seed": 0,
            "shrink": None,
            "source": "fee51e90d241712ae7cd9a26b1b9e1d28cbb311a7a67f1efd40ac4cbbfac2a2d",
        },
    }
