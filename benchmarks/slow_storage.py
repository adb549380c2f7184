"""From a slow disk: loose files through torchvision beside packed shards, shuffled, in one run.

    python benchmarks/slow_storage.py [--repeats 10] [--seek-ms 8] [--rate-mb 150] [--rounds 1]

The disk is emulated by a small library in LD_PRELOAD (benchmarks/slow_disk.c says exactly how): one head for all
processes, a seek unless the head is there, a transfer rate, a page cache that is cold at first. Two disks are
shown: one that counts the seeks for data only, and one that also seeks for the inode of each file that is
opened first, as a cold disk has to. Neither counts listing the folder, which is done before the clock starts.

On a machine whose cores are busy with other work, --dilate 3 makes the disk three times slower and multiplies the
rates by three: what the disk allows is the same, and the processors have three times as long for it.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from claims import print_claim
from photos import unpack_photos
from torchvision_import import import_torchvision

BATCH, WORKERS, SIZE = 64, 2, 224
WARM_STEPS, LOOSE_STEPS = 4, 8


def load_files(folder: Path) -> Any:
    """Return a torch DataLoader over torchvision's ImageFolder that gives bytes."""
    import torch
    from torch.utils.data import DataLoader

    T = import_torchvision().transforms
    transform = T.Compose([T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), T.PILToTensor()])
    dataset = import_torchvision().datasets.ImageFolder(str(folder / "photos"), transform)
    torch.set_num_threads(1)
    return DataLoader(dataset, BATCH, shuffle=True, num_workers=WORKERS)


def load_shards(folder: Path) -> Any:
    from headrace.torch import Loader
    from headrace.transforms import RandomHorizontalFlip, RandomResizedCrop

    transform = [RandomResizedCrop(SIZE), RandomHorizontalFlip()]
    return Loader(folder / "shards", BATCH, shuffle=True, transform=transform, threads=2)


LOADERS = {"loose files, torchvision": load_files, "packed shards, Headrace": load_shards}


def run_child(name: str, folder: Path) -> None:
    """In the process on the slow disk: images a second.

    Of packed shards, over a whole epoch from the first request on. Of loose files, over a few batches between
    others, when the workers are as far ahead at the end as at the beginning: each file costs the same.
    """
    batches = iter(LOADERS[name](folder))
    if "loose" in name:
        sum(1 for _ in islice(batches, WARM_STEPS))
        batches = islice(batches, LOOSE_STEPS)
    start = time.perf_counter()
    count = sum(len(labels) for _, labels in batches)
    print(count / (time.perf_counter() - start))


def run(name: str, folder: Path, library: Path, options: argparse.Namespace, inodes: bool) -> Any:
    """Return images/s, seeks and bytes of an epoch on the slow disk."""
    state = folder / f"state-{time.monotonic_ns()}"
    root = folder / ("photos" if "loose" in name else "shards")
    disk = Disk(options.seek_ms / 1e3 * options.dilate, options.rate_mb * 1e6 / options.dilate)
    environment = {
        **os.environ,
        **disk.describe(library, state, root, inodes=inodes),
        "HEADRACE_CACHE": str(folder / "cache"),
    }
    command = [sys.executable, __file__, "--child", name, "--folder", str(folder)]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(output.stdout) * options.dilate, *read_counts(state)


@dataclass(frozen=True)
class Disk:
    """A slow disk: seconds per seek, and bytes per second."""

    seek: float = 8e-3
    rate: float = 150e6

    def describe(self, library: Path, state: Path, root: Path, *, inodes: bool) -> dict[str, str]:
        """Return the environment of a process that has the files below `root` on this disk."""
        return {
            "LD_PRELOAD": str(library),
            "DISK_STATE": str(state),
            "DISK_ROOT": str(root),
            "DISK_SEEK": str(self.seek),
            "DISK_RATE": str(self.rate),
            "DISK_INODES": str(int(inodes)),
        }


def read_counts(state: Path) -> tuple[int, int]:
    """Return the seeks and bytes that were counted in a state file, and remove it."""
    with state.open("rb") as file:
        head = file.read(96)
    state.unlink()
    seeks, size = struct.unpack_from("<QQ", head, 56)
    return seeks, size


def compile_disk(folder: Path) -> Path:
    library = folder / "slow_disk.so"
    source = Path(__file__).with_name("slow_disk.c")
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl", "-pthread"], check=True
    )
    return library


def compare(folder: Path, options: argparse.Namespace) -> None:
    import headrace

    photos = unpack_photos(folder, options.repeats)
    headrace.pack_dataset(photos, folder / "shards")
    library = compile_disk(folder)
    print(
        f"{options.seek_ms:g} ms a seek, {options.rate_mb:g} MB/s, batch {BATCH}, "
        f"time dilated {options.dilate:g}x"
    )
    print(f"{'':46} {'images/s':>9} {'seeks':>7} {'MB':>6}")
    ratios = {}
    for inodes in (False, True):
        rates = {}
        for name in LOADERS:
            results = [run(name, folder, library, options, inodes) for _ in range(options.rounds)]
            rate, seeks, size = max(results)
            rates[name] = rate
            disk = "with inodes" if inodes else "data only"
            print(f"{name + ', ' + disk:46} {rate:9.0f} {seeks:7} {size / 1e6:6.0f}", flush=True)
        slow, fast = rates.values()
        ratios[disk] = fast / slow
        print(f"{'':46} {fast / slow:8.1f}x", flush=True)
    for disk, ratio in ratios.items():
        print_claim(f"packed vs torchvision from a slow disk, {disk}", ratio, 10.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10, help="copies of the 600 photos")
    parser.add_argument("--rounds", type=int, default=1, help="the best of so many is shown")
    parser.add_argument("--seek-ms", type=float, default=8)
    parser.add_argument("--rate-mb", type=float, default=150)
    parser.add_argument("--dilate", type=float, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(options.child, options.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), options)


if __name__ == "__main__":
    main()
