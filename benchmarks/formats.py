"""How fast each layout is packed, next to loose files; and that memory does not grow with the source.

    python benchmarks/formats.py [--folder DIR] [--repeats 6] [--rounds 5] [--json]

The same 600 photos, some times over, in every layout, from a warm page cache. The rounds go through the
layouts by turns, so that a noisy machine disturbs all alike; a figure is the median of its rounds.
Memory is the peak of a process of its own that packs a quarter of the LMDB samples, and all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from claims import print_claim
from photos import unpack_photos
from turns import time_turns

import headrace
from headrace._core import crc32c

PEAK = """
import resource, sys, headrace
headrace.pack_dataset(sys.argv[1], sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def make_layouts(source: Path, folder: Path) -> dict[str, Path]:
    """Write the photos in every layout, loose files first."""
    opened = headrace.open_source(source)
    count = len(opened.names)

    def samples() -> Iterator[headrace.Sample]:
        return (opened.read(i) for i in range(count))

    layouts = {"folder": source}
    for name, to in (("lmdb", "lmdb"), ("webdataset", "webdataset"), ("gulp", "gulp")):
        layouts[name] = folder / f"photos.{name}"
        headrace.export_samples(samples(), layouts[name], to=to)
    headrace.export_samples(islice(samples(), count // 4), folder / "quarter.lmdb", to="lmdb")
    layouts["parquet"] = folder / "photos.parquet"
    write_parquet(samples(), layouts["parquet"])
    layouts["tfrecord"] = folder / "photos.tfrecord"
    write_tfrecord(samples(), layouts["tfrecord"])
    return layouts


def write_parquet(samples: Iterator[headrace.Sample], path: Path) -> None:
    schema = pa.schema([("image", pa.binary()), ("label", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        while rows := [{"image": s["jpg"], "label": s.label} for s in islice(samples, 100)]:
            writer.write_table(pa.Table.from_pylist(rows, schema))


def write_tfrecord(samples: Iterator[headrace.Sample], path: Path) -> None:
    def varint(n: int) -> bytes:
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    def sized(number: int, data: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(data)) + data

    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    with open(path, "wb") as file:
        for sample in samples:
            image = sized(1, b"image") + sized(2, sized(1, sized(1, sample["jpg"])))
            label = sized(1, b"label") + sized(2, sized(3, sized(1, varint(sample.label or 0))))
            record = sized(1, sized(1, image) + sized(1, label))
            length = struct.pack("<Q", len(record))
            file.write(length + masked(length) + record + masked(record))


def measure_peak(path: Path, out: Path) -> float:
    """Return the peak memory of a process that packs `path`, in MiB."""
    command = [sys.executable, "-c", PEAK, str(path), str(out)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    shutil.rmtree(out)
    return int(result.stdout) / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", help="where to work; a fast disk or a memory file system")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        source = unpack_photos(folder, repeats=options.repeats)
        layouts = make_layouts(source, folder)
        size = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())

        def packing(path: Path) -> Callable[[], None]:
            def pack() -> None:
                headrace.pack_dataset(path, folder / "packed")
                shutil.rmtree(folder / "packed")

            return pack

        def index() -> None:
            headrace.index_dataset(layouts["lmdb"], out=folder / "index")
            shutil.rmtree(folder / "index")

        jobs = {name: packing(path) for name, path in layouts.items()}
        seconds = time_turns({**jobs, "index lmdb in place": index}, options.rounds)
        peaks = [measure_peak(folder / "quarter.lmdb", folder / "packed")]
        peaks.append(measure_peak(layouts["lmdb"], folder / "packed"))
    report(seconds, size, peaks, options.json)


def report(seconds: dict[str, float], size: int, peaks: list[float], as_json: bool) -> None:
    ratio = seconds["folder"] / seconds["lmdb"]
    if as_json:
        print(json.dumps({"seconds": seconds, "bytes": size, "peak_mib": peaks, "lmdb": ratio}))
        return
    print(f"{size / 1e6:.0f} MB of photos, {platform.machine()}, {os.cpu_count()} cores")
    print(f"{'layout':22} {'s':>6} {'MB/s':>7} {'of loose files':>15}")
    for name, value in seconds.items():
        share = seconds["folder"] / value
        print(f"{name:22} {value:6.2f} {size / 1e6 / value:7.0f} {share:14.0%}")
    print(f"peak memory packing LMDB: {peaks[0]:.0f} MiB for a quarter, {peaks[1]:.0f} MiB for all")
    print_claim("packing from LMDB vs loose files", ratio, None)
    print_claim("memory for all of an LMDB vs a quarter", peaks[1] / peaks[0], 1.2, at_most=True)


if __name__ == "__main__":
    main()
