"""What Headrace would give on the images that a watched program loaded: measured, not assumed."""

from __future__ import annotations

from pathlib import Path

from headrace.serve.pipeline import divide_transform
from headrace.workbench.numbers import RENDER
from headrace.workbench.options import Options
from headrace.workbench.stages import Workload, compute_jobs
from headrace.workbench.subject import Subject
from headrace.workbench.verdict import ENOUGH
from headrace.workbench.watch.record import Watched
from headrace.workbench.watch.verdict import CORE_WORK, find_slow_work
from headrace.workbench.windows import take_turns


def measure_rate(watched: Watched) -> float | None:
    """Images per second; None if the program's images are not a folder that can be read, or the loop does not wait for what the core does.

    The render on all cores, less what the rest of a pipeline takes.
    """
    sources = [s.source for s in watched.loaders if s.source and s.kind.startswith("torch")]
    if not sources or find_slow_work(watched) not in CORE_WORK or not Path(sources[0]).is_dir():
        return None
    subject = Subject(sources[0], samples=256)
    options = Options(samples=256)
    load = Workload(subject, subject.hold(64), divide_transform(options.steps(), None))
    jobs = [job for job in compute_jobs(load, [max(options.thread_counts())]) if job.name == RENDER]
    stages, _ = take_turns(jobs, rounds=3, seconds=0.2)
    return stages[0].rate.median / ENOUGH
