"""Opening a dataset of ten million samples: time and memory.

    python benchmarks/index_scale.py [--rows 10000000] [--shard-rows 2500] [--folder DIR]

Writes a synthetic index (as `headrace pack` would for ImageNet-like photos; no tars, no seek tables) and opens
it in fresh processes: the dataset alone, its whole index as a table, and a loader up to its first batch (of labels:
index, plan and schedule; there are no images to render).
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from claims import print_claim

from headrace.store.index_schema import encode_index
from headrace.store.manifest import FileRecord, Manifest, ShardRecord, write_manifest

OPEN = """
import re, sys, time
import headrace
def resident():
    return int(re.search(r"VmRSS:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1024
before = resident()
start = time.perf_counter()
dataset = headrace.open_dataset(sys.argv[1])
opened = time.perf_counter() - start
if sys.argv[2] == "index":
    index = dataset.index
elif sys.argv[2] == "loader":
    next(iter(headrace.Loader(dataset, 256, shuffle=True, fields=("label",))))
print(time.perf_counter() - start, opened, (resident() - before) / len(dataset))
"""


def make_shard(number: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(number)
    sizes = rng.integers(60_000, 160_000, rows)
    offsets = np.cumsum(sizes + 2048) - sizes
    keys = [f"n{1440764 + number:08d}/n{1440764 + number:08d}_{i}" for i in range(rows)]
    kinds = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["baseline"])
    files = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), [f"shard-{number:06d}.tar"]
    )
    return pa.table(
        {
            "key": keys,
            "label": rng.integers(0, 1000, rows),
            "file": files,
            "cls.offset": offsets + sizes + 512,
            "cls.size": np.full(rows, 3),
            "cls.crc32c": rng.integers(0, 1 << 32, rows, dtype=np.uint32),
            "jpg.offset": offsets,
            "jpg.size": sizes,
            "jpg.crc32c": rng.integers(0, 1 << 32, rows, dtype=np.uint32),
            "jpg.height": rng.integers(200, 600, rows, dtype=np.int32),
            "jpg.width": rng.integers(200, 600, rows, dtype=np.int32),
            "jpg.kind": kinds,
            "jpg.seek": np.zeros(rows, np.int32),
        }
    )


def make_dataset(folder: Path, rows: int, shard_rows: int) -> None:
    records = []
    for number in range(-(-rows // shard_rows)):
        count = min(shard_rows, rows - number * shard_rows)
        data = encode_index(make_shard(number, count))
        name = f"shard-{number:06d}"
        (folder / f"{name}.arrow").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        tar = FileRecord(f"{name}.tar", 1 << 40, digest)
        index = FileRecord(f"{name}.arrow", len(data), digest)
        records.append(ShardRecord(count, index, None, tar))
    manifest = Manifest(rows, len(records) << 40, ["cls", "jpg"], {"baseline": rows}, None, records)
    write_manifest(manifest, folder / "headrace.json")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--shard-rows", type=int, default=2500)
    parser.add_argument("--folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        make_dataset(Path(temporary), options.rows, options.shard_rows)
        print(f"{options.rows:,} rows in shards of {options.shard_rows:,}; {' '.join(sys.argv)}")
        for what in ("open", "index", "index", "loader"):
            command = [sys.executable, "-c", OPEN, temporary, what]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            seconds, opened, per_row = (float(value) for value in out)
            print(f"{what:6} {seconds:6.2f} s (manifest {opened:.2f} s) {per_row:7.1f} bytes a row")
        print_claim(f"first labels of {options.rows:,} samples", seconds, None, " s")
        print_claim("memory of a loader a sample", per_row, None, " bytes")


if __name__ == "__main__":
    main()
