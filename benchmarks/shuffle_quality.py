"""How far is the windowed shuffle from a global one? Prints one table; the defaults are ImageNet's.

    python benchmarks/shuffle_quality.py

Each line is a window, shared by all lanes. The columns:

entropy   mean entropy of the classes in a batch, in parts of what a global shuffle gives: for a
          source sorted by class, as folders are, and for a pack, which is written in random order
moved     how far samples move from their places on the line of runs, counted along the epoch
held      the most samples that the runs in memory hold at a time
together  pairs of samples that share a batch in epoch 0 and again in epoch 1, over chance
plan      time to plan an epoch
"""

from __future__ import annotations

import argparse
import platform
import sys
import time

import numpy as np
from claims import print_claim

from headrace.plan import EpochPlan, Shuffle, Split, plan_epoch, schedule_runs
from headrace.plan.shuffle import shuffle_runs
from headrace.workbench.bench.shuffle_quality import measure_entropy

HEADER = """\
 window  entropy, sorted  entropy, pack  moved, mean  moved, max       held  together  plan
samples      % of global    % of global      samples     samples    samples  × chance    ms"""


def main() -> None:
    options = parse_options()
    runs = np.append(np.arange(0, options.samples, options.run), options.samples)
    sorted_labels = np.arange(options.samples) * options.classes // options.samples
    labels = {"sorted": sorted_labels, "pack": np.random.default_rng(0).permutation(sorted_labels)}
    print(f"python {' '.join(sys.argv)}")
    print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(
        f"{options.samples:,} samples, {options.classes:,} classes, runs of {options.run} samples,"
        f" batches of {options.batch}\n\n{HEADER}"
    )
    best, smallest, mixed = {name: 0.0 for name in labels}, 0, 1.0
    for window in [None, *sorted(options.windows, reverse=True)]:
        began = time.perf_counter()
        plan = plan_epoch(runs, Split(options.batch), shuffle=Shuffle(options.seed, window))
        milliseconds = (time.perf_counter() - began) * 1e3
        batches = take_batches(plan)
        entropy = {name: measure_entropy(labels[name][batches]) for name in labels}
        if window is None:
            best = entropy
        parts = [100 * entropy[name] / best[name] for name in ("sorted", "pack")]
        moved = measure_moves(plan, Shuffle(options.seed, window))
        later = plan_epoch(
            runs, Split(options.batch), epoch=1, shuffle=Shuffle(options.seed, window)
        )
        together = compare_neighbours(batches, take_batches(later), options.samples)
        print(
            f"{'global' if window is None else window:>7} {parts[0]:16.1f} {parts[1]:14.1f}"
            f" {moved.mean():12,.0f} {moved.max():11,} {count_held(plan):10,}"
            f" {together:9.2f} {milliseconds:5.0f}"
        )
        if window:
            smallest, mixed = window, parts[1] / 100
    if options.windows:
        what = f"mixing of classes in a batch of a pack, window {smallest}, vs global"
        print_claim(what, mixed, 0.99, "%")


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
    places = np.empty(len(plan.order), np.int64)
    places[shuffle_runs(plan.runs, shuffle, epoch=0)] = np.arange(len(plan.order))
    moves = abs(places[plan.order] - np.arange(len(plan.order)))
    return moves if shuffle.is_global(len(plan.order)) else moves * plan.lanes


def count_held(plan: EpochPlan) -> int:
    """Return the largest number of samples in memory at any step."""
    schedule, held = schedule_runs(plan), np.zeros(len(plan) + 1, np.int64)
    lengths = np.diff(plan.runs)[schedule.runs]
    np.add.at(held, schedule.first, lengths)
    np.subtract.at(held, schedule.last + 1, lengths)
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
