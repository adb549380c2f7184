"""Measures how fast Headrace renders the images that a watched program loaded."""

from __future__ import annotations

from pathlib import Path

from headrace.recipe.core_or_python import divide_transform
from headrace.workbench.bench.dataset_bottleneck import ENOUGH
from headrace.workbench.bench.dataset_sample import DatasetSample
from headrace.workbench.bench.measure_options import Options
from headrace.workbench.bench.results import RENDER
from headrace.workbench.bench.rounds import take_turns
from headrace.workbench.bench.stage_jobs import Workload, compute_jobs
from headrace.workbench.watch.program_bottleneck import CORE_WORK, find_slow_work
from headrace.workbench.watch.watched_program import Watched


def measure_rate(watched: Watched) -> float | None:
    """Return images per second on all cores, reduced by what the rest of a pipeline takes.

    None if the images are not in a known folder, or the loop does not wait for what the core does.
    """
    sources = [s.source for s in watched.loaders if s.source and s.kind.startswith("torch")]
    if not sources or find_slow_work(watched) not in CORE_WORK or not Path(sources[0]).is_dir():
        return None
    subset = DatasetSample(sources[0], samples=256)
    options = Options(samples=256)
    load = Workload(subset, subset.hold(64), divide_transform(options.steps(), None))
    jobs = [job for job in compute_jobs(load, [max(options.thread_counts())]) if job.name == RENDER]
    stages, _ = take_turns(jobs, rounds=3, seconds=0.2)
    return stages[0].rate.median / ENOUGH
