"""Generated epochs for the tests of the plan: runs, and global batches that several ranks share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from penstock.plan import EpochPlan, Shuffle, Split, plan_epoch


@dataclass(frozen=True)
class Job:
    """An epoch, whatever world size runs it."""

    runs: np.ndarray
    rows: np.ndarray | None
    lanes: int
    global_batch: int
    shuffle: Shuffle | None
    epoch: int

    @property
    def entries(self) -> np.ndarray:
        return np.arange(self.runs[-1]) if self.rows is None else self.rows

    @property
    def world_sizes(self) -> list[int]:
        return [w for w in range(1, self.lanes + 1) if self.lanes % w == 0]

    def plan(self, rank: int = 0, world_size: int = 1, last: str = "drop") -> EpochPlan:
        batch_size = self.global_batch // world_size
        split = Split(batch_size, rank, world_size, self.lanes, last)
        return plan_epoch(self.runs, split, epoch=self.epoch, shuffle=self.shuffle, rows=self.rows)

    def plan_ranks(self, world_size: int, last: str = "drop") -> list[EpochPlan]:
        return [self.plan(rank, world_size, last) for rank in range(world_size)]


def make_runs(lengths: list[int]) -> np.ndarray:
    """Runs with so many rows each."""
    return np.append(0, np.cumsum(np.array(lengths, np.int64)))


def valid_rows(plan: EpochPlan, t: int) -> np.ndarray:
    step = plan.step(t)
    return step.rows[step.valid]


def walk(plan: EpochPlan) -> np.ndarray:
    """All valid rows of a plan, step after step."""
    return np.concatenate([valid_rows(plan, t) for t in range(len(plan))] + [np.empty(0, int)])


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    runs = make_runs(draw(st.lists(st.integers(1, 12), max_size=25)))
    count = int(runs[-1])
    rows = None
    if count and draw(st.booleans()):
        picks = draw(st.lists(st.integers(0, count - 1), max_size=120))
        rows = np.sort(np.array(picks, np.int64))
    lanes = draw(st.integers(1, 8))
    shuffle = None
    if draw(st.booleans()):
        window = draw(st.one_of(st.none(), st.integers(0, 150)))
        shuffle = Shuffle(draw(st.integers(0, 2**64 - 1)), window)
    return Job(
        runs, rows, lanes, lanes * draw(st.integers(1, 6)), shuffle, draw(st.integers(0, 99))
    )
