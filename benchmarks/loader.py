"""The loader beside rendering alone and beside torchvision's ImageFolder + DataLoader, in one run.

    python benchmarks/loader.py [--folder DIR] [--rounds 5] [--json]

600 photos, 12 times, warm page cache, batch 256, RandomResizedCrop(224) + flip, uint8 out, two threads or two
workers. The jobs take turns, after one round to warm up: in each round all of them and then back to the first, so that a machine
that gets slower or faster meanwhile favours none. Rates are medians over the rounds, ratios are medians of those within a round,
CPU time is that of the process and its children.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from claims import print_claim
from cpu import cpu_seconds
from photos import unpack_photos
from torchvision_import import import_torchvision

import headrace
from headrace.render import RenderRequest, Target
from headrace.serve.epochs import Position
from headrace.transforms import RandomHorizontalFlip, RandomResizedCrop

BATCH = 256
STEPS = [RandomResizedCrop(224), RandomHorizontalFlip()]


def make_loader(path: Path, verify: bool = True) -> headrace.Loader:
    return headrace.Loader(path, BATCH, shuffle=True, transform=STEPS, threads=2, verify=verify)


def render_alone(path: Path) -> Callable[[], int]:
    """Render the same epoch from memory into reused memory: the upper bound of the loader."""
    loader = make_loader(path)
    plan, layout = loader._epochs.plan(Position(0, 0)), loader._epochs.layout
    renderer = loader._producer.make_renderer(loader, loader._epochs, 0, plan)
    runs = {
        run: layout.read_run(run, lambda size: np.empty(size, np.uint8))
        for run in range(len(layout.sizes))
    }
    steps = [plan.step(number) for number in range(len(plan))]
    batches = []
    for number, (step, drawn) in enumerate(zip(steps, renderer.draw(steps), strict=True)):
        needed = {run: runs[run] for run in np.unique(layout.runs_of(step.rows)).tolist()}
        batches.append(renderer.prepare(number, step, drawn, needed).jobs)
    out = np.empty((BATCH, 224, 224, 3), np.uint8)

    def run() -> int:
        for jobs in batches:
            into = out[: len(jobs.draws.boxes)]
            RenderRequest(jobs, Target((224, 224), out=into, threads=2)).render()
        return len(layout.columns)

    return run


def load(path: Path, verify: bool = True) -> Callable[[], int]:
    loader = make_loader(path, verify)
    return lambda: sum(len(images) for images, _ in loader)


def load_with_torchvision(path: Path) -> Callable[[], int]:
    import torch

    torchvision = import_torchvision()
    T = torchvision.transforms
    steps = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), np.asarray])
    dataset = torchvision.datasets.ImageFolder(str(path), steps)
    loader = torch.utils.data.DataLoader(
        dataset, BATCH, shuffle=True, num_workers=2, collate_fn=collate, persistent_workers=True
    )
    return lambda: sum(len(images) for images, _ in loader)


def collate(samples: list[tuple[np.ndarray, int]]) -> tuple[object, object]:
    import torch

    images = torch.from_numpy(np.stack([image for image, _ in samples]))
    return images, torch.tensor([label for _, label in samples])


@dataclass(frozen=True)
class Figures:
    """The results of a job in each round."""

    rates: list[float]
    costs: list[float]

    def compare(self, other: Figures) -> tuple[float, float]:
        """Return the ratios of rate and CPU time to another job: medians of the ratios within a round."""
        return tuple(
            statistics.median(map(operator.truediv, ours, theirs))
            for ours, theirs in ((self.rates, other.rates), (self.costs, other.costs))
        )


def measure(jobs: dict[str, Callable[[], int]], rounds: int) -> dict[str, Figures]:
    figures = {name: Figures([], []) for name in jobs}
    there_and_back = [*jobs, *list(jobs)[-2::-1]]
    for number in range(rounds + 1):
        totals = {name: np.zeros(3) for name in jobs}
        for name in there_and_back:
            start, cpu = time.perf_counter(), cpu_seconds()
            count = jobs[name]()
            totals[name] += count, time.perf_counter() - start, cpu_seconds() - cpu
        for name, (count, seconds, cpu) in totals.items():
            if number:
                figures[name].rates.append(count / seconds)
                figures[name].costs.append(cpu / count * 1e3)
    return figures


PEAK = """
import re, sys, time
import headrace
from headrace.transforms import RandomHorizontalFlip, RandomResizedCrop
imported = time.perf_counter()
steps = [RandomResizedCrop(224), RandomHorizontalFlip()]
loader = headrace.Loader(sys.argv[1], 256, shuffle=True, transform=steps, threads=2)
first = None
for images, labels in loader:
    first = first or time.perf_counter() - imported
peak = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())  # unlike ru_maxrss, not inherited
print(first, int(peak[1]) / 1024)
"""


def measure_alone(path: Path) -> dict[str, float]:
    """Return seconds to the first batch, and peak MB, of a process that loads one epoch."""
    output = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True
    ).stdout.split()
    return {"first_batch_seconds": float(output[0]), "peak_mb": float(output[1])}


def measure_waiting(path: Path) -> float:
    """Return the share of time that a loop waits if its step takes twice as long as loading."""
    loader = make_loader(path)
    for _ in loader:
        pass
    stats = loader.stats()
    step = 2 * BATCH / stats.images_per_second
    waited = total = 0.0
    for _ in range(2):
        iterator: Iterator[object] = iter(loader)
        next(iterator)
        while True:
            end = time.perf_counter() + step
            while time.perf_counter() < end:
                time.sleep(end - time.perf_counter() if end > time.perf_counter() else 0)
            before = time.perf_counter()
            if next(iterator, None) is None:
                break
            waited += time.perf_counter() - before
            total += time.perf_counter() - before + step
    return waited / total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        os.environ["HEADRACE_CACHE"] = str(Path(temporary) / "cache")
        source = unpack_photos(Path(temporary), repeats=12)
        packed = Path(temporary) / "packed"
        headrace.pack_dataset(source, packed)
        jobs = {
            "render_batch alone": render_alone(packed),
            "Loader, packed": load(packed),
            "the same, verify=False": load(packed, verify=False),
            "Loader, image folder": load(source),
            "torchvision ImageFolder": load_with_torchvision(source),
        }
        results = measure(jobs, options.rounds)
        alone = measure_alone(packed)
        waiting = measure_waiting(packed)
    if options.json:
        rates = {name: asdict(figures) for name, figures in results.items()}
        print(json.dumps({"rates": rates, **alone, "waiting": waiting}))
        return
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; {' '.join(sys.argv)}"
    )
    slowest, best = results["torchvision ImageFolder"], results["render_batch alone"]
    print(f"{'':26}{'images/s':>10}{'CPU ms':>8}{'x torchvision':>15}{'x render':>10}{'CPU x':>7}")
    for name, figures in results.items():
        rate, cost = statistics.median(figures.rates), statistics.median(figures.costs)
        share, cpu = figures.compare(best)
        print(
            f"{name:26}{rate:10.0f}{cost:8.2f}{figures.compare(slowest)[0]:15.1f}{share:10.2f}{cpu:7.2f}"
        )
    packed, loose = results["Loader, packed"], results["Loader, image folder"]
    share, cpu = packed.compare(best)
    print_claim("Loader vs render_batch alone", share, 0.92)
    print_claim("CPU of the Loader vs render_batch alone", cpu, 1.1, at_most=True)
    verifying = packed.compare(results["the same, verify=False"])
    print_claim("Loader with verify=True vs without", verifying[0], 0.97)
    times, loose_times = packed.compare(slowest)[0], loose.compare(slowest)[0]
    print_claim("Loader, packed vs torchvision ImageFolder", times, 8.0)
    print_claim("Loader, image folder vs torchvision ImageFolder", loose_times, 4.0)
    print_claim("first batch", alone["first_batch_seconds"], 0.5, " s", at_most=True)
    print_claim("peak memory of an epoch", alone["peak_mb"], 600, " MB", at_most=True)
    print_claim(
        "waiting of a step that takes twice as long as loading", waiting, 0.01, "%", at_most=True
    )


if __name__ == "__main__":
    main()
