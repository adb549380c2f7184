"""The plan of an epoch as whole arrays: the plain twin that the plan of single steps is compared with."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from epochs import Job
from headrace.plan import Split
from headrace.plan.buckets import choose_block, choose_buckets, fill_steps
from headrace.plan.permutation import Permutation
from headrace.plan.philox import Stream, draw_words
from headrace.plan.shuffle import Shuffle, order_randomly

_COPY = 1 << 48


def lay_runs(pieces: list[np.ndarray], order: np.ndarray) -> np.ndarray:
    """The entries of the pieces `order[0]`, `order[1]`, ..., one after the other."""
    return np.concatenate([pieces[i] for i in order.tolist()] + [np.empty(0, np.int64)])


def cut_pieces(entries: int, bounds: np.ndarray) -> list[np.ndarray]:
    return [np.arange(entries)[a:b] for a, b in pairwise(bounds)]


def deal_pieces(job: Job, bounds: np.ndarray) -> list[np.ndarray]:
    """The entries of an epoch with repeats, in pieces of runs."""
    entries, (deal, turn) = int(bounds[-1]), divmod(job.epoch, job.repeat)
    runs, count = cut_pieces(entries, bounds), -(-entries // job.repeat)
    places = np.arange(turn * count, (turn + 1) * count) % max(entries, 1)
    used, seed = sum(len(run) > 0 for run in runs), job.shuffle.seed
    if used < 64 * job.repeat or used == entries:
        dealt = np.sort(order_randomly(seed, deal, Stream.REPEAT, entries)[places])
        cuts = np.searchsorted(dealt, bounds)
        return [dealt[a:b] for a, b in pairwise(cuts)]
    line = lay_runs(runs, order_randomly(seed, deal, Stream.REPEAT, len(runs)))[places]
    run_of = np.searchsorted(bounds, line, side="right")
    changes = np.flatnonzero((np.diff(run_of) != 0) | (np.diff(line) != 1)) + 1
    return sorted(np.split(line, changes), key=lambda piece: int(piece[0]))


def shuffle_lane(
    line: np.ndarray, start: int, stop: int, shuffle: Shuffle, window: int, epoch: int
) -> np.ndarray:
    """The lane line[start:stop], sorted by the keys of all of its positions."""
    length = stop - start
    ids = start + np.arange(-(-length // 4))
    words = draw_words(shuffle.seed, epoch, Stream.WINDOW, ids, 4).reshape(-1)[:length]
    keys = (np.arange(length, dtype=np.uint64) << np.uint64(16)) + (
        (words * np.uint64(window)) >> np.uint64(16)
    )
    return line[start:stop][np.argsort(keys, kind="stable")]


def order_lanes(job: Job) -> list[np.ndarray]:
    """The entries of each lane in the order in which they come, without buckets."""
    bounds = job.runs.list_bounds()
    if job.rows is not None:
        bounds = np.searchsorted(job.rows, bounds)
    pieces = cut_pieces(int(bounds[-1]), bounds)
    if job.repeat > 1:
        pieces = deal_pieces(job, bounds)
    line, shuffle = lay_runs(pieces, np.arange(len(pieces))), job.shuffle
    cuts = [lane * len(line) // job.lanes for lane in range(job.lanes + 1)]
    if shuffle is None or shuffle.is_global(len(line)):
        if shuffle is not None:
            permutation = Permutation(shuffle.seed, job.epoch, Stream.PERMUTATION, len(line))
            line = line[permutation.find(np.arange(len(line)))]
        return [line[a:b] for a, b in pairwise(cuts)]
    line = lay_runs(pieces, order_randomly(shuffle.seed, job.epoch, Stream.RUNS, len(pieces)))
    window = shuffle.window // job.lanes
    return [shuffle_lane(line, a, b, shuffle, window, job.epoch) for a, b in pairwise(cuts)]


def list_steps(
    job: Job, rank: int = 0, world_size: int = 1, last: str = "drop"
) -> list[tuple[list[int], int | None]]:
    """The draws of the valid entries of each step of a rank, and its bucket."""
    split = Split(job.global_batch // world_size, rank, world_size, job.lanes, last, job.repeat)
    lanes, part = order_lanes(job), split.distinct_batch // job.lanes
    steps = split.count_steps(len(job.entries))
    buckets: list[int | None] = [None] * steps
    if job.buckets is not None:
        lanes, buckets = sort_into_buckets(job, lanes, part, steps)
    own = job.lanes // world_size
    listed = []
    for t in range(steps):
        parts = [lane[t * part : (t + 1) * part] for lane in lanes[rank * own : (rank + 1) * own]]
        draws = number_draws(job, np.concatenate(parts))
        copies = draws[:, None] + np.arange(job.repeat) * _COPY
        listed.append((copies.reshape(-1).tolist(), buckets[t]))
    return listed


def sort_into_buckets(
    job: Job, lanes: list[np.ndarray], part: int, steps: int
) -> tuple[list[np.ndarray], list[int | None]]:
    assert job.buckets is not None
    block = job.buckets.block or choose_block(job.global_batch // job.repeat)
    found: list[list[np.ndarray]] = [[] for _ in lanes]
    buckets: list[int | None] = []
    for number, first in enumerate(range(0, steps, block)):
        count = min(block, steps - first)
        parts = [lane[first * part : (first + count) * part] for lane in lanes]
        aspects = [job.buckets.aspects[job.entries[entries]] for entries in parts]
        ranks = choose_buckets(aspects, job.buckets, count, (number, block), job.shuffle, job.epoch)
        buckets += job.buckets.numbers[ranks].tolist()
        for lane, entries in enumerate(parts):
            found[lane].append(entries[fill_steps(aspects[lane], ranks, part)])
    return [np.concatenate([*parts, np.empty(0, np.int64)]) for parts in found], buckets


def number_draws(job: Job, entries: np.ndarray) -> np.ndarray:
    """The row of each entry, and how often it came before."""
    rows = job.entries[entries]
    return rows + (entries - np.searchsorted(job.entries, rows)) * job.runs.entries
