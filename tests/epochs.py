"""Generated epochs for the tests of the plan: runs, and global batches that several ranks share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from headrace.plan import BucketOrder, EpochPlan, Runs, Shuffle, Split, plan_epoch


@dataclass(frozen=True)
class Job:
    """An epoch, whatever world size runs it."""

    runs: Runs
    rows: np.ndarray | None
    lanes: int
    global_batch: int
    shuffle: Shuffle | None
    epoch: int
    repeat: int = 1
    buckets: BucketOrder | None = None

    @property
    def entries(self) -> np.ndarray:
        return np.arange(self.runs.entries) if self.rows is None else self.rows

    @property
    def world_sizes(self) -> list[int]:
        return [w for w in range(1, self.lanes + 1) if self.lanes % w == 0]

    def plan(self, rank: int = 0, world_size: int = 1, last: str = "drop") -> EpochPlan:
        batch_size = self.global_batch // world_size
        return plan_epoch(
            self.runs,
            Split(batch_size, rank, world_size, self.lanes, last, self.repeat),
            epoch=self.epoch,
            shuffle=self.shuffle,
            rows=self.rows,
            buckets=self.buckets,
        )

    def plan_with(self, window: int) -> EpochPlan:
        return replace(self, shuffle=replace(self.shuffle, window=window)).plan(last="short")

    def plan_ranks(self, world_size: int, last: str = "drop") -> list[EpochPlan]:
        return [self.plan(rank, world_size, last) for rank in range(world_size)]


def make_runs(lengths: list[int]) -> Runs:
    """Runs with so many rows each."""
    return Runs.of_bounds(np.append(0, np.cumsum(np.array(lengths, np.int64))))


def list_order(plan: EpochPlan) -> np.ndarray:
    """The draws of all valid entries of a plan, lane after lane: without repeats of rows, these are the rows."""
    steps = [plan.step(t) for t in range(len(plan))]
    draws = np.concatenate([step.draws[step.valid] for step in steps] + [np.empty(0, int)])
    lanes = np.concatenate(
        [plan.find_lanes(t)[step.valid] for t, step in enumerate(steps)] + [np.empty(0, int)]
    )
    return draws[np.argsort(lanes, kind="stable")]


def valid_rows(plan: EpochPlan, t: int) -> np.ndarray:
    step = plan.step(t)
    return step.rows[step.valid]


def walk(plan: EpochPlan) -> np.ndarray:
    """All valid rows of a plan, step after step."""
    return np.concatenate([valid_rows(plan, t) for t in range(len(plan))] + [np.empty(0, int)])


@st.composite
def jobs(
    draw: st.DrawFn,
    kinds: tuple[str, ...] = ("index", "global", "window"),
    buckets: tuple[bool, ...] = (False, True),
) -> Job:
    """Epochs of 0 to 300 rows, whole or in part, in an order of one of the `kinds`, in buckets or not."""
    count = draw(st.integers(0, 25))
    runs = make_runs(draw(st.lists(st.integers(1, 12), min_size=count, max_size=count)))
    rows = draw(st.none() | chosen_rows(runs.entries))
    entries = len(rows) if rows is not None else runs.entries
    lanes = draw(st.integers(1, 8))
    batch = lanes * draw(st.integers(1, 6))
    windows = {"global": st.none(), "window": st.integers(0, max(entries - 1, 0))}
    kind = draw(st.sampled_from(kinds))
    shuffle = None if kind == "index" else Shuffle(draw(st.integers(0, 99)), draw(windows[kind]))
    job = Job(runs, rows, lanes, batch, shuffle, epoch=draw(st.integers(0, 99)))
    if draw(st.sampled_from(buckets)):
        job = replace(job, buckets=draw(bucket_orders(runs.entries)))
    return job


def windowed_jobs() -> st.SearchStrategy[Job]:
    """Jobs whose window is shorter than their epoch."""
    return jobs(("window",), buckets=(False,)).filter(lambda job: len(job.entries) > 0)


@st.composite
def bucket_orders(draw: st.DrawFn, rows: int) -> BucketOrder:
    """Buckets of 1 to 5 ratios for so many rows, in blocks of a few steps."""
    aspects = np.random.default_rng(draw(st.integers(0, 99))).integers(1, 41, rows) / 10
    ratios = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True))
    block = draw(st.sampled_from([None, 1, 2, 3, 7]))
    return BucketOrder(aspects, tuple(r / 10 for r in ratios), block)


def chosen_rows(count: int) -> st.SearchStrategy[np.ndarray]:
    """Rows out of so many, ascending, some missing and some repeated."""
    times = st.lists(st.integers(0, 2), min_size=count, max_size=count)
    return times.map(lambda times: np.repeat(np.arange(count), times))
