"""Raw reading through the run reader, next to `dd bs=8M` over the same files, warm and cold.

    python benchmarks/read.py [--folder DIR] [--rounds 5]

Reads every run of an epoch in plan order, decodes nothing: in index order, where a few arenas serve all runs, and
shuffled, where the window's runs stay in memory (dd writes into one buffer that stays in the CPU's cache). Cold means that the page cache was told to
drop the files (posix_fadvise) before each turn. Rates are medians; the jobs take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from photos import unpack_photos

import penstock
from penstock.plan import schedule_runs
from penstock.read.run_reader import RunReader
from penstock.transforms import RandomResizedCrop


def read_runs(loader: penstock.Loader) -> None:
    plan, layout = loader._epochs.plan(0), loader._epochs.layout
    with RunReader(schedule_runs(plan), layout.read_run, layout.sizes) as reader:
        for number in range(len(plan)):
            reader.take(sorted(set(layout.runs_of(plan.step(number).rows).tolist())))
            reader.finish_step(number)


def read_with_dd(shards: list[Path]) -> None:
    for shard in shards:
        command = ["dd", f"if={shard}", "of=/dev/null", "bs=8M", "status=none"]
        subprocess.run(command, check=True)


def drop_cache(shards: list[Path]) -> None:
    for shard in shards:
        fd = os.open(shard, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", help="where to work: the disk to measure")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        packed = Path(temporary) / "packed"
        penstock.pack_dataset(unpack_photos(Path(temporary), repeats=12), packed)
        shards = sorted(packed.glob("*.tar"))
        size = sum(shard.stat().st_size for shard in shards)
        crop = [RandomResizedCrop(8)]
        ordered = penstock.Loader(packed, 256, transform=crop)
        shuffled = penstock.Loader(packed, 256, shuffle=True, transform=crop)
        jobs = {
            "dd bs=8M": lambda: read_with_dd(shards),
            "in order": lambda: read_runs(ordered),
            "shuffled": lambda: read_runs(shuffled),
        }
        print(f"{size / 1e6:.0f} MB; {' '.join(sys.argv)}")
        for state in ("warm", "cold"):
            times: dict[str, list[float]] = {name: [] for name in jobs}
            for _ in range(options.rounds):
                for name, job in jobs.items():
                    if state == "cold":
                        drop_cache(shards)
                    start = time.perf_counter()
                    job()
                    times[name].append(time.perf_counter() - start)
            rates = {name: size / statistics.median(values) / 1e6 for name, values in times.items()}
            base = rates["dd bs=8M"]
            for name, rate in rates.items():
                print(f"{state}  {name:10}{rate:8.0f} MB/s  ratio {rate / base:.2f}")


if __name__ == "__main__":
    main()
