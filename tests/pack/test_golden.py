"""Golden bytes of a tiny dataset: the format cannot change by accident.

The index is compared by its rows, as the bytes of an Arrow file may differ between versions of pyarrow.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import headrace
from headrace.store.manifest import find_checksum

# Two grey 8×8 JPEGs, written out so that no encoder can change them.
HEAD = "ffd8ffe000104a46494600010100000100010000ffdb004300" + "10" * 64
HEAD += "ffc0000b080008000801011100ffc40014000100000000000000000000000000000003"
HEAD += "ffc40014100100000000000000000000000000000000ffda0008010100003f00"
IMAGES = {"ant/1.jpg": bytes.fromhex(HEAD + "77ffd9"), "bee/2.JPEG": bytes.fromhex(HEAD + "37ffd9")}


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    for name, data in IMAGES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    headrace.pack_dataset(tmp_path / "in", tmp_path / "out", order="source")
    return tmp_path / "out"


def test_the_bytes_of_a_shard_are_golden(packed: Path) -> None:
    data = (packed / "shard-000000.tar").read_bytes()
    assert len(data) == 5120
    assert hashlib.sha256(data).hexdigest() == (
        "4a3cd0c654afe29f4e27d699f19d65189d39c76cabce12e709bbd094acd5da7d"
    )


def test_the_rows_of_an_index_are_golden(packed: Path) -> None:
    columns = {
        "key": ["ant/1", "bee/2"],
        "label": [0, 1],
        "file": ["shard-000000.tar", "shard-000000.tar"],
        "cls.offset": [1536, 3584],
        "cls.size": [1, 1],
        "cls.crc32c": [1654528736, 2432014819],
        "jpg.offset": [512, 2560],
        "jpg.size": [159, 159],
        "jpg.crc32c": [1140494375, 2225017086],
        "jpg.height": [8, 8],
        "jpg.width": [8, 8],
        "jpg.kind": ["grey", "grey"],
        "jpg.seek": [0, 0],
        "jpg.orientation": [1, 1],
        "jpg.recoded": [None, None],
    }
    assert headrace.open_dataset(packed).index.to_pydict() == columns


def test_the_manifest_is_golden(packed: Path) -> None:
    manifest = json.loads((packed / "headrace.json").read_text())
    assert list(manifest)[-1] == "sha256"
    checksum = manifest.pop("sha256")
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    assert checksum == hashlib.sha256(text.encode()).hexdigest()
    index = manifest["shards"][0].pop("index")
    assert (index["file"], set(index)) == ("shard-000000.arrow", {"file", "bytes", "sha256"})
    assert manifest == {
        "format": "headrace",
        "version": 4,
        "samples": 2,
        "bytes": 5120,
        "fields": ["cls", "jpg"],
        "kinds": {"grey": 2},
        "classes": ["ant", "bee"],
        "shards": [
            {
                "samples": 2,
                "seek": None,
                "data": {
                    "file": "shard-000000.tar",
                    "bytes": 5120,
                    "sha256": "4a3cd0c654afe29f4e27d699f19d65189d39c76cabce12e709bbd094acd5da7d",
                },
            }
        ],
        "root": ".",
        "recipe": {
            "shard_size": 268435456,
            "order": "source",
            "seed": 0,
            "shrink": None,
            "source": "690750763b08512a11b5c58253e520d12483ea4d0d2eec8c65798a5bcefa5a82",
        },
        "field_kinds": {"jpg": {"kind": "image"}},
    }


def test_a_dataset_of_another_version_says_what_to_do(packed: Path) -> None:
    path = packed / "headrace.json"
    manifest = {**json.loads(path.read_text()), "version": 3}
    manifest["sha256"] = find_checksum(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(headrace.CorruptError, match="version 3; .*pack or index the source again"):
        headrace.open_dataset(packed)
