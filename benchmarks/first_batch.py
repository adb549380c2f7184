"""The first batch of a dataset as large as ImageNet: from opening it to 256 rendered photos, in fresh processes.

    python benchmarks/first_batch.py [--rows 1280000] [--rounds 5] [--folder DIR]

Real photos are packed once; their shards are linked under more names, each with an index of its own (seek tables and
all), until there are enough rows. Imports are not counted. The page cache has the indexes after the first process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from claims import print_claim
from photos import unpack_photos

import headrace
from headrace.store.index_schema import FILE, encode_index
from headrace.store.manifest import (
    FileRecord,
    ShardRecord,
    read_manifest,
    record_file,
    write_manifest,
)

FIRST = """
import sys, time
import headrace
from headrace.transforms import RandomHorizontalFlip, RandomResizedCrop
start = time.perf_counter()
steps = [RandomResizedCrop(224), RandomHorizontalFlip()]
loader = headrace.Loader(sys.argv[1], 256, shuffle=True, transform=steps, threads=2)
opened = time.perf_counter()
batches = iter(loader)  # kept: to end it is not counted
next(batches)
print(len(loader.dataset), opened - start, time.perf_counter() - start)
"""


def link_shard(packed: Path, shard: ShardRecord, number: int, folder: Path) -> ShardRecord:
    """Add the shard again under another name."""
    assert shard.data is not None
    assert shard.seek is not None
    index, seek, data = (f"shard-{number:06d}.{suffix}" for suffix in ("arrow", "seek", "tar"))
    os.link(packed / shard.data.file, folder / data)
    os.link(packed / shard.seek.file, folder / seek)
    table = pa.ipc.open_file(os.fspath(packed / shard.index.file)).read_all()
    place = table.schema.get_field_index(FILE)
    files = pa.DictionaryArray.from_arrays(pa.array([0] * len(table), pa.int32()), [data])
    table = table.set_column(place, table.schema.field(place), files)
    (folder / index).write_bytes(encode_index(table.combine_chunks()))
    return ShardRecord(
        shard.samples,
        record_file(folder / index, index),
        replace(shard.seek, file=seek),
        FileRecord(data, shard.data.bytes),
    )


def link_dataset(packed: Path, folder: Path, rows: int) -> None:
    """Make a dataset of at least so many rows from the shards of a smaller one."""
    manifest = read_manifest(packed)
    shards: list[ShardRecord] = []
    while sum(shard.samples for shard in shards) < rows:
        shard = manifest.shards[len(shards) % len(manifest.shards)]
        shards.append(link_shard(packed, shard, len(shards), folder))
    samples = sum(shard.samples for shard in shards)
    size = sum(shard.data.bytes for shard in shards if shard.data is not None)
    larger = replace(
        manifest, samples=samples, bytes=size, kinds={"baseline": samples}, shards=shards
    )
    write_manifest(larger, folder / "headrace.json")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_280_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--folder", help="where to work; needs 3 GB for as many rows as ImageNet has"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        packed, large = Path(temporary) / "packed", Path(temporary) / "large"
        headrace.pack_dataset(unpack_photos(Path(temporary), repeats=12), packed)
        large.mkdir()
        link_dataset(packed, large, options.rows)
        times = []
        for number in range(options.rounds + 1):
            command = [sys.executable, "-c", FIRST, str(large)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rows, opened, first = out.split()
            if number == 0:
                print(f"{int(rows):,} rows; {' '.join(sys.argv)}")
            times.append(float(first))
            print(f"opened {float(opened):5.2f} s, first batch {float(first):5.2f} s")
    print_claim(
        f"first batch of {int(rows):,} samples",
        statistics.median(times[1:]),
        1.5,
        " s",
        at_most=True,
    )


if __name__ == "__main__":
    main()
