"""Whether slow samples stall the others: what a loader reaches where 1 % of the samples take 50 times as long.

    python benchmarks/giants.py [--folder DIR] [--rounds 5] [--threads 2] [--batches 8 16 64 256]

Every hundredth photo is enlarged and saved as a progressive JPEG, so that a crop to 224x224 pixels takes about 50 times
as long as that of another photo. Epochs of RandomResizedCrop(224) are loaded from a packed dataset in a warm page cache.
What the total work allows is the rate at which as many threads render the same boxes of the same files in memory, 1024
at a time: there, hardly any thread waits for another. All take turns, and a ratio is the median of those within a round.
A batch of 8 is to 2 threads what 64 is to 16.

Where other programs use the CPUs too, rates say little about stalls, since a thread that waits loses nothing that it would
have got. So this also prints the share of the time in which the rendering threads had work, running or waiting for a CPU
(Linux counts both in schedstat). On CPUs of its own, that is the share of the allowed rate without other costs.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from claims import print_claim
from loader import measure
from photos import unpack_photos
from PIL import Image, ImageFile

import headrace
from headrace.render import Draws, Jobs, RenderRequest, Target
from headrace.serve.epochs import Position
from headrace.transforms import RandomResizedCrop

EVERY, DIFFERENT, MARK = 100, 8, "giant-"
PIXELS = 9_000_000
"""Of a giant."""
CHUNK, SIZE = 1024, (224, 224)
BAR = 0.9


def make_giant(photo: Path) -> bytes:
    image, out = Image.open(photo).convert("RGB"), io.BytesIO()
    scale = (PIXELS / (image.width * image.height)) ** 0.5
    size = round(scale * image.width), round(scale * image.height)
    giant = image.resize(size, Image.Resampling.BICUBIC)
    giant.save(out, "JPEG", quality=90, progressive=True)
    return out.getvalue()


def add_giants(root: Path) -> None:
    """Replace every hundredth photo by a giant."""
    ImageFile.MAXBLOCK = 1 << 26  # Pillow fails to write files that need more than its buffer
    photos = sorted(path for path in root.rglob("*") if path.is_file())[::EVERY]
    giants = [make_giant(photo) for photo in photos[:DIFFERENT]]
    for number, photo in enumerate(photos):
        photo.unlink()
        photo.with_name(f"{MARK}{number}.jpg").write_bytes(giants[number % DIFFERENT])


def make_loader(path: Path, batch_size: int, threads: int) -> headrace.Loader:
    steps = [RandomResizedCrop(SIZE)]
    return headrace.Loader(path, batch_size, shuffle=True, transform=steps, threads=threads)


class Work:
    """The samples of an epoch in memory, in large batches."""

    def __init__(self, path: Path) -> None:
        loader = make_loader(path, CHUNK, 1)
        plan, layout = loader._epochs.plan(Position(0, 0)), loader._epochs.layout
        renderer = loader._producer.make_renderer(loader, loader._epochs, 0, plan)
        runs = {
            run: layout.read_run(run, lambda size: np.empty(size, np.uint8))
            for run in range(len(layout.sizes))
        }
        steps = [plan.step(number) for number in range(len(plan))]
        self.batches: list[Jobs] = []
        self.giants: list[np.ndarray] = []
        for number, (step, drawn) in enumerate(zip(steps, renderer.draw(steps), strict=True)):
            needed = {run: runs[run] for run in np.unique(layout.runs_of(step.rows)).tolist()}
            self.batches.append(renderer.prepare(number, step, drawn, needed).jobs)
            names = map(loader._epochs.table.name_row, step.rows.tolist())
            self.giants.append(np.array([MARK in name for name in names]))
        self.out = np.empty((CHUNK, *SIZE, 3), np.uint8)

    def render(self, threads: int) -> int:
        for jobs in self.batches:
            self._render(jobs, threads)
        return sum(map(len, self.batches))

    def measure_giants(self) -> tuple[int, float]:
        """Return how many giants there are, and how many times the CPU time of another sample one takes."""
        seconds, counts = np.zeros(2), np.zeros(2, int)
        for jobs, giants in zip(self.batches, self.giants, strict=True):
            for kind in (0, 1):
                part = take_jobs(jobs, np.flatnonzero(giants == kind)[:100])
                start = time.process_time()
                self._render(part, 1)
                seconds[kind] += time.process_time() - start
                counts[kind] += len(part)
        normal, giant = seconds / counts
        return int(counts[1]), giant / normal

    def _render(self, jobs: Jobs, threads: int) -> None:
        target = Target(SIZE, out=self.out[: len(jobs)], threads=threads)
        assert not RenderRequest(jobs, target).render()[1].any()


def take_jobs(jobs: Jobs, rows: np.ndarray) -> Jobs:
    images, seeks = ([data[row] for row in rows.tolist()] for data in (jobs.images, jobs.seeks))
    return Jobs(images, Draws(jobs.draws.boxes[rows]), seeks)


def read_busy() -> dict[str, float]:
    """Return the seconds in which each thread that is not Python's had work, running or waiting for a CPU."""
    own = {str(thread.native_id) for thread in threading.enumerate()}
    seconds = {}
    for task in set(os.listdir("/proc/self/task")) - own:
        running, waiting, _ = Path(f"/proc/self/task/{task}/schedstat").read_text().split()
        seconds[task] = (int(running) + int(waiting)) / 1e9
    return seconds


class Epochs:
    """Loads the same epoch again and again."""

    def __init__(self, loader: headrace.Loader, threads: int) -> None:
        self.loader, self.threads = loader, threads
        self.busy: list[float] = []
        """The share of each epoch, after its first batch, in which the rendering threads had work."""

    def load(self) -> int:
        self.loader.set_epoch(0)
        batches = iter(self.loader)
        count = len(next(batches)[0])
        before, start = read_busy(), time.perf_counter()
        for images, _ in batches:
            count += len(images)
        seconds, after = time.perf_counter() - start, read_busy()
        most = sorted(after[task] - before.get(task, 0.0) for task in after)[-self.threads :]
        self.busy.append(sum(most) / self.threads / seconds)
        return count


def compare(packed: Path, options: argparse.Namespace) -> None:
    work, threads = Work(packed), options.threads
    count, times = work.measure_giants()
    print(f"{count} giants, each {times:.0f} times the CPU time of another sample\n")
    epochs = {size: Epochs(make_loader(packed, size, threads), threads) for size in options.batches}
    jobs: dict[str, Callable[[], int]] = {
        "render, 1 thread": partial(work.render, 1),
        f"render, {threads} threads": partial(work.render, threads),
        **{f"batches of {size}": epoch.load for size, epoch in epochs.items()},
    }
    results = measure(jobs, options.rounds)
    allowed = results[f"render, {threads} threads"]
    print(
        f"{'':20}{'images/s':>10}{'CPU ms':>8}{'of the allowed rate':>21}{'threads had work':>18}"
    )
    for name, figures in results.items():
        rate, cost = statistics.median(figures.rates), statistics.median(figures.costs)
        print(f"{name:20}{rate:10.0f}{cost:8.3f}{figures.compare(allowed)[0]:21.2f}", end="")
        busy = [
            f"{statistics.median(e.busy):18.2f}"
            for n, e in epochs.items()
            if name.endswith(f" {n}")
        ]
        print(*busy)
    for size, epoch in epochs.items():
        share, _ = results[f"batches of {size}"].compare(allowed)
        print_claim(f"rate with 1% giants, of what the work allows, batches of {size}", share, BAR)
        busy = statistics.median(epoch.busy)
        print_claim(
            f"time in which threads have work, 1% giants, batches of {size}", busy, BAR, "%"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=6, help="copies of the 600 photos")
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 16, 64, 256])
    options = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; {' '.join(sys.argv)}"
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        os.environ["HEADRACE_CACHE"] = str(Path(temporary) / "cache")
        source = unpack_photos(Path(temporary), repeats=options.repeats)
        add_giants(source)
        headrace.pack_dataset(source, Path(temporary) / "packed")
        compare(Path(temporary) / "packed", options)


if __name__ == "__main__":
    main()
