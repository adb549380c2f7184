"""Raw reading through the run reader, next to `dd bs=8M` over the same files, warm and cold.

    python benchmarks/read.py [--folder DIR] [--rounds 5]

Reads every run of an epoch in plan order, decodes nothing: in index order, where a few arenas serve all runs, and
shuffled, where the window's runs stay in memory (dd writes into one buffer that stays in the CPU's cache). Cold means that the page cache was told to
drop the files (posix_fadvise) before each turn. Rates are medians; the jobs take turns.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from claims import print_claim
from photos import unpack_photos
from turns import time_turns

import headrace
from headrace.read.reading import RunReading
from headrace.read.run_reader import RunReader
from headrace.serve.epochs import Position
from headrace.transforms import RandomResizedCrop
from headrace.workbench.bench.page_cache import drop_pages


def read_runs(loader: headrace.Loader) -> None:
    plan, layout = loader._epochs.plan(Position(0, 0)), loader._epochs.layout
    reading = RunReading(layout, plan)
    with RunReader(reading) as reader:
        for number in range(len(plan)):
            reader.take(list(reading.count_units(number)))
            reader.finish_step(number)


def read_with_dd(shards: list[Path]) -> None:
    for shard in shards:
        command = ["dd", f"if={shard}", "of=/dev/null", "bs=8M", "status=none"]
        subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", help="where to work: the disk to measure")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        packed = Path(temporary) / "packed"
        headrace.pack_dataset(unpack_photos(Path(temporary), repeats=12), packed)
        shards = sorted(packed.glob("*.tar"))
        size = sum(shard.stat().st_size for shard in shards)
        crop = [RandomResizedCrop(8)]
        ordered = headrace.Loader(packed, 256, transform=crop)
        shuffled = headrace.Loader(packed, 256, shuffle=True, transform=crop)
        jobs = {
            "dd bs=8M": lambda: read_with_dd(shards),
            "in order": lambda: read_runs(ordered),
            "shuffled": lambda: read_runs(shuffled),
        }
        print(f"{size / 1e6:.0f} MB; {' '.join(sys.argv)}")
        ratios: dict[str, float] = {}
        for state, before in (("warm", int), ("cold", lambda: drop_pages(shards))):
            times = time_turns(jobs, options.rounds, before)
            for name, seconds in times.items():
                ratio = ratios[f"{name}, {state}"] = times["dd bs=8M"] / seconds
                print(f"{state}  {name:10}{size / seconds / 1e6:8.0f} MB/s  ratio {ratio:.2f}")
        for name in ("in order, warm", "in order, cold"):
            print_claim(f"reading runs vs dd bs=8M, {name}", ratios[name], 0.9)


if __name__ == "__main__":
    main()
