"""How far is the windowed shuffle from a global one? Prints two tables: images, by default ImageNet's, and videos.

    python benchmarks/shuffle_quality.py

Each line of the first is a window, shared by all lanes. The columns:

entropy   mean entropy of the classes in a batch, in parts of what a global shuffle gives: for a
          source sorted by class, as folders are, and for a pack, which is written in random order
moved     how far samples move from their places on the line of runs, counted along the epoch
held      the most samples that the runs in memory hold at a time
together  pairs of samples that share a batch in epoch 0 and again in epoch 1, over chance
plan      time to plan an epoch

Each line of the second is a dataset of videos in batches of 64, with the window that a loader chooses: small videos that
a clip covers are read whole, in runs, and mixed over 96 MiB; of others, spans are read one by one and all are mixed.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from dataclasses import dataclass

import numpy as np
from claims import print_claim

from headrace.plan import EpochPlan, Runs, Shuffle, Split, Stream, plan_epoch
from headrace.plan.line import Line
from headrace.plan.runs import RUN_BYTES
from headrace.plan.shuffle import order_randomly
from headrace.serve.derived_options import WINDOW_BYTES
from headrace.workbench.bench.shuffle_quality import measure_entropy

HEADER = """\
 window  entropy, sorted  entropy, pack  moved, mean  moved, max       held  together  plan
samples      % of global    % of global      samples     samples    samples  × chance    ms"""


def main() -> None:
    options = parse_options()
    bounds = np.append(np.arange(0, options.samples, options.run), options.samples)
    runs = Runs.of_bounds(bounds)
    sorted_labels = np.arange(options.samples) * options.classes // options.samples
    labels = {"sorted": sorted_labels, "pack": np.random.default_rng(0).permutation(sorted_labels)}
    print(f"python {' '.join(sys.argv)}")
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(
        f"{options.samples:,} samples, {options.classes:,} classes, runs of {options.run} samples,"
        f" batches of {options.batch}\n\n{HEADER}"
    )
    best, smallest, mixed = {name: 1.0 for name in labels}, 0, 1.0
    for window in [None, *sorted(options.windows, reverse=True)]:
        found = measure(runs, labels, options.batch, Shuffle(options.seed, window))
        if window is None:
            best = found.entropy
        print_line(f"{'global' if window is None else window:>7}", found, best)
        if window:
            smallest, mixed = window, found.entropy["pack"] / best["pack"]
    mixed_videos = [compare_videos(videos, options.seed) for videos in VIDEOS]
    if options.windows:
        what = f"mixing of classes in a batch of a pack, window {smallest}, vs global"
        print_claim(what, mixed, 0.99, "%")
    for videos, share in zip(VIDEOS, mixed_videos, strict=True):
        print_claim(f"mixing of classes in a batch of {videos.name}, vs global", share, 0.99, "%")


@dataclass(frozen=True)
class Videos:
    """A dataset of videos. `size`: bytes of a video that is read whole; None if spans are read one by one."""

    name: str
    samples: int
    classes: int
    size: int | None


VIDEOS = [
    Videos("videos like Jester's, 160 kB, read whole", 118_562, 27, 160_000),
    Videos("the largest videos that are read whole, 256 KiB", 118_562, 27, 256 << 10),
    Videos("videos like Kinetics-400's, spans", 240_000, 400, None),
]
VIDEO_BATCH = 64


def compare_videos(videos: Videos, seed: int) -> float:
    """Print the line of a dataset of videos; return the entropy of a pack, relative to a global shuffle."""
    samples = np.arange(videos.samples)
    sorted_labels = samples * videos.classes // videos.samples
    labels = {"sorted": sorted_labels, "pack": np.random.default_rng(0).permutation(sorted_labels)}
    run, window = 1, None
    if videos.size is not None:
        run, window = RUN_BYTES // videos.size, max(WINDOW_BYTES // videos.size, 4 * VIDEO_BATCH)
    bounds = np.append(np.arange(0, videos.samples, run), videos.samples)
    runs = Runs.of_bounds(bounds)
    best = measure(runs, labels, VIDEO_BATCH, Shuffle(seed, None)).entropy
    found = measure(runs, labels, VIDEO_BATCH, Shuffle(seed, window))
    print(f"\n{videos.name}: {videos.samples:,} of {videos.classes} classes, runs of {run}")
    print_line(f"{'global' if window is None else window:>7}", found, best)
    return found.entropy["pack"] / best["pack"]


@dataclass(frozen=True, eq=False)
class Mixing:
    """How well an epoch is mixed: the columns of a line."""

    entropy: dict[str, float]
    moved: np.ndarray
    held: int
    together: float
    milliseconds: float


def measure(runs: Runs, labels: dict[str, np.ndarray], batch: int, shuffle: Shuffle) -> Mixing:
    began = time.perf_counter()
    plan = plan_epoch(runs, Split(batch), shuffle=shuffle)
    milliseconds = (time.perf_counter() - began) * 1e3
    batches = take_batches(plan)
    later = plan_epoch(runs, Split(batch), epoch=1, shuffle=shuffle)
    return Mixing(
        {name: measure_entropy(values[batches]) for name, values in labels.items()},
        measure_moves(plan, shuffle),
        count_held(plan),
        compare_neighbours(batches, take_batches(later), runs.entries),
        milliseconds,
    )


def print_line(window: str, found: Mixing, best: dict[str, float]) -> None:
    parts = [100 * found.entropy[name] / best[name] for name in ("sorted", "pack")]
    print(
        f"{window} {parts[0]:16.1f} {parts[1]:14.1f} {found.moved.mean():12,.0f} {found.moved.max():11,}"
        f" {found.held:10,} {found.together:9.2f} {found.milliseconds:5.0f}",
        flush=True,
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1_281_167)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--run", type=int, default=76, help="samples in a run of 8 MiB")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    windows = [0, 1024, 4096, 16384, 65536, 262144]
    parser.add_argument("--windows", type=int, nargs="*", default=windows)
    return parser.parse_args()


def take_batches(plan: EpochPlan) -> np.ndarray:
    """Return the rows of every batch, as int64[steps, batch]."""
    return np.stack([plan.step(t).rows for t in range(len(plan))])


def measure_moves(plan: EpochPlan, shuffle: Shuffle) -> np.ndarray:
    """Return how far each sample moved; a position in a lane is `lanes` positions in the epoch."""
    count = plan.runs.entries
    order = order_randomly(shuffle.seed, 0, Stream.RUNS, len(plan.runs))
    line = Line.lay(plan.runs, order).find(np.arange(count))[0]
    places = np.empty(count, np.int64)
    places[line] = np.arange(count)
    steps = [(plan.find_lanes(t), plan.step(t).rows) for t in range(len(plan))]
    lanes, rows = (np.concatenate(arrays) for arrays in zip(*steps, strict=True))
    # Rows that the last batch drops are at the end of each lane.
    number = np.arange(len(rows)) // plan.split.batch_size * plan.part
    number += np.tile(np.arange(plan.part), len(rows) // plan.part)
    positions = lanes * count // plan.lanes + number
    moves = abs(places[rows] - positions)
    return moves if shuffle.is_global(count) else moves * plan.lanes


def count_held(plan: EpochPlan) -> int:
    """Return the largest number of samples in memory at any step."""
    spans: dict[int, list[int]] = {}
    for t in range(len(plan)):
        for unit in plan.count_units(t):
            spans.setdefault(unit, [t, t])[1] = t
    held = np.zeros(len(plan) + 1, np.int64)
    for unit, (first, last) in spans.items():
        held[first] += plan.count_entries(unit)
        held[last + 1] -= plan.count_entries(unit)
    return int(np.cumsum(held).max())


def compare_neighbours(batches: np.ndarray, later: np.ndarray, samples: int) -> float:
    """Return the pairs that share a batch in both epochs, relative to independent permutations."""
    steps, batch = batches.shape
    step_of = np.full(samples, -1)
    step_of[later] = np.arange(steps)[:, None]
    both = np.arange(steps)[:, None] * (steps + 1) + step_of[batches] + 1
    both = both[step_of[batches] >= 0]
    shared = np.unique(both, return_counts=True)[1]
    pairs = (shared * (shared - 1)).sum() / 2
    expected = steps * batch * (batch - 1) / 2 * (batch - 1) / (samples - 1)
    return float(pairs / expected)


if __name__ == "__main__":
    main()
