"""Schedule runs: when a rank needs which run, for the reader to read ahead and to release memory.

Guaranteed: a step's rows are all in runs with first <= step <= last. With a window of w samples
over L lanes, global batches of G and runs of at most R entries, the runs alive in a step hold, for
each lane of the rank, at most (2 w + G) / L + 2 R entries. (w + G) / L + 2 R is typical: the bound
allows for keys that cluster. With repeats, G is the number of distinct entries of a global batch. With
buckets in blocks of M steps, M G takes the place of G.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.plan.epoch import EpochPlan
from headrace.plan.runs import find_runs


@dataclass(frozen=True, eq=False)
class RunSchedule:
    """`runs` int64[k] in order of first use, with the steps of their `first` and `last` use."""

    runs: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def schedule_runs(plan: EpochPlan) -> RunSchedule:
    """Return when the plan's rank needs which run. Takes about 0.1 s for 1.28 million samples."""
    count = len(plan.runs) - 1
    first, last = np.full(count, len(plan)), np.full(count, -1)
    runs, steps = find_runs(plan.runs, plan.take_rows(plan.order)), _find_steps(plan)
    kept = steps < len(plan)
    np.minimum.at(first, runs[kept], steps[kept])
    np.maximum.at(last, runs[kept], steps[kept])
    if len(plan):  # the last step may repeat a sample of an earlier one, or of another rank
        end = len(plan) - 1
        touched = find_runs(plan.runs, plan.step(end).rows)
        first[touched] = np.minimum(first[touched], end)
        last[touched] = end
    used = np.flatnonzero(last >= 0)
    used = used[np.argsort(first[used], kind="stable")]
    return RunSchedule(used, first[used], last[used])


def _find_steps(plan: EpochPlan) -> NDArray[np.int64]:
    """Return the step in which each place of `plan.order` comes; len(plan) or more if it is dropped."""
    lengths = np.diff(plan.bounds)
    places = np.arange(len(plan.order)) - np.repeat(plan.bounds[:-1], lengths)
    return places // plan.part
