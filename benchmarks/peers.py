"""Loaders of other projects on the same photos, each in a process of its own, in turns.

    python benchmarks/peers.py [--folder DIR] [--repeats 4] [--rounds 3] [--only NAME ...] [--json]

RandomResizedCrop(224) and flip, uint8 batches of 256, two workers or threads, warm page cache. A contender whose
package is not installed is left out and named. The first two batches are not counted; rates are medians of the
rounds, CPU time is that of the process and its children while counting. GulpIO2 replaces Pillow and so needs an environment of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

BATCH, SIZE, WORKERS, SKIPPED = 256, 224, 2, 2
Batches = Iterator[int]


def run_penstock(source: Path) -> Batches:
    import penstock
    from penstock.transforms import RandomHorizontalFlip, RandomResizedCrop

    steps = [RandomResizedCrop(SIZE), RandomHorizontalFlip()]
    loader = penstock.Loader(source, BATCH, shuffle=True, transform=steps, threads=WORKERS)
    while True:
        for images, _ in loader:
            yield len(images)


def make_torchvision_steps() -> Callable[[object], object]:
    from penstock.workbench.torchvision_side import import_torchvision

    import_torchvision()
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.RandomResizedCrop(SIZE),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
        ]
    )


def run_torchvision(photos: Path) -> Batches:
    steps = make_torchvision_steps()
    import torch
    from torchvision import datasets

    data = datasets.ImageFolder(str(photos), steps)
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=WORKERS)
    while True:
        for images, _ in loader:
            yield len(images)


def run_webdataset(shards: Path) -> Batches:
    steps = make_torchvision_steps()
    import webdataset

    urls = sorted(map(str, shards.glob("*.tar")))
    data = (
        webdataset.WebDataset(urls, shardshuffle=False, resampled=True)
        .shuffle(1000)
        .decode("pil")
        .to_tuple("jpg;jpeg", "cls")
        .map_tuple(steps, int)
        .batched(BATCH)
    )
    for images, _ in webdataset.WebLoader(data, batch_size=None, num_workers=WORKERS):
        yield len(images)


def run_opencv(photos: Path) -> Batches:
    """What two Python threads and OpenCV give without any loader."""
    from concurrent.futures import ThreadPoolExecutor

    import cv2
    import numpy as np

    cv2.setNumThreads(1)
    files = [path for path in photos.rglob("*") if path.is_file()]
    rng = np.random.default_rng(0)

    def load(slot: np.ndarray, path: Path, draws: np.ndarray) -> None:
        pixels = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        side = np.sqrt(0.08 + 0.92 * draws[0])
        height, width = (max(1, int(side * length)) for length in pixels.shape[:2])
        top = int(draws[1] * (pixels.shape[0] - height))
        left = int(draws[2] * (pixels.shape[1] - width))
        crop = pixels[top : top + height, left : left + width]
        cv2.resize(crop, (SIZE, SIZE), slot, interpolation=cv2.INTER_AREA)
        if draws[3] < 0.5:
            cv2.flip(slot, 1, slot)

    with ThreadPoolExecutor(WORKERS) as pool:
        while True:
            out = np.empty((BATCH, SIZE, SIZE, 3), np.uint8)
            chosen = [files[i] for i in rng.integers(len(files), size=BATCH)]
            list(pool.map(load, out, chosen, rng.random((BATCH, 4))))
            yield len(out)


CONTENDERS: dict[str, tuple[Callable[[Path], Batches], str, tuple[str, ...]]] = {
    "Penstock, packed": (run_penstock, "packed", ("penstock",)),
    "Penstock, image folder": (run_penstock, "photos", ("penstock",)),
    "torchvision ImageFolder": (run_torchvision, "photos", ("torch", "torchvision")),
    "WebDataset": (run_webdataset, "packed", ("torch", "torchvision", "webdataset")),
    "OpenCV in two threads": (run_opencv, "photos", ("cv2",)),
}
"""Each with what it reads and the modules that it needs."""


def count(batches: Batches, images: int) -> dict[str, float]:
    """Images per second and CPU milliseconds an image, over at least so many images."""
    for _ in range(SKIPPED):
        next(batches)
    done, start, cpu = 0, time.perf_counter(), cpu_seconds()
    while done < images:
        done += next(batches)
    seconds = time.perf_counter() - start
    return {"rate": done / seconds, "cpu_ms": (cpu_seconds() - cpu) * 1e3 / done}


def cpu_seconds() -> float:
    """Of this process and those below it, also while they run, and of those that have ended."""
    from penstock.workbench.watch.monitor import list_tree, read_cpu_seconds

    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = sum(map(read_cpu_seconds, list_tree(os.getpid())))
    return running + ended.ru_utime + ended.ru_stime


def measure(
    folder: Path, names: list[str], rounds: int, images: int
) -> dict[str, dict[str, float]]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            arguments = ["--run", name, "--folder", str(folder), "--images", str(images)]
            output = subprocess.run(
                [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, check=True
            ).stdout
            found[name].append(json.loads(output))
    return {
        name: {key: statistics.median(r[key] for r in results) for key in ("rate", "cpu_ms")}
        for name, results in found.items()
    }


def prepare(folder: Path, repeats: int) -> None:
    from photos import unpack_photos

    import penstock

    penstock.pack_dataset(unpack_photos(folder, repeats), folder / "packed", shard_size=64 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--repeats", type=int, default=4, help="copies of the 600 photos")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=2048, help="at least so many a round")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, help="these contenders")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--run", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run, source, _ = CONTENDERS[options.run]
        os.environ.setdefault("PENSTOCK_CACHE", str(Path(options.folder) / "cache"))
        print(json.dumps(count(run(Path(options.folder) / source), options.images)), flush=True)
        os._exit(0)  # workers that are in the middle of a batch need not finish it
    missing = {
        name: module
        for name, (_, _, modules) in CONTENDERS.items()
        for module in modules
        if importlib.util.find_spec(module) is None
    }
    names = [name for name in options.only or CONTENDERS if name not in missing]
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        prepare(Path(temporary), options.repeats)
        results = measure(Path(temporary), names, options.rounds, options.images)
    if options.json:
        print(json.dumps(results))
        return
    base = results.get("torchvision ImageFolder", next(iter(results.values())))["rate"]
    print(f"{'':28}{'images/s':>10}{'CPU ms':>10}{'ratio':>10}")
    for name, result in results.items():
        ratio = result["rate"] / base
        print(f"{name:28}{result['rate']:>10.0f}{result['cpu_ms']:>10.2f}{ratio:>9.2f}x")
    for name, module in missing.items():
        print(f"{name:28} not run: {module} is not installed")


if __name__ == "__main__":
    main()
