"""Measures every stage and the whole pipeline on a dataset; returns a `Bench`."""

from __future__ import annotations

import datetime
import os
from dataclasses import replace

from headrace.recipe.core_or_python import divide_transform
from headrace.serve.derived_options import find_common_size
from headrace.workbench.bench import results
from headrace.workbench.bench.dataset_sample import DatasetSample, describe_data, time_decodes
from headrace.workbench.bench.kind_costs import measure_kinds
from headrace.workbench.bench.machine import read_machine
from headrace.workbench.bench.measure_options import Options
from headrace.workbench.bench.page_cache import Residency, explain_warmth
from headrace.workbench.bench.pipeline_job import Pipeline
from headrace.workbench.bench.results import Bench, Setting
from headrace.workbench.bench.rounds import Job, Report, take_turns
from headrace.workbench.bench.stage_jobs import (
    Workload,
    collate_job,
    compute_jobs,
    copy_job,
    python_job,
    storage_jobs,
)

_HELD = 256


def run_bench(
    path: str | os.PathLike[str], options: Options, report: Report | None = None
) -> Bench:
    """Measure every stage. After Ctrl-C, the result holds what was measured until then."""
    subset = DatasetSample(path, options.samples, options.image)
    common_size = find_common_size(subset.table.columns, None)
    pipeline = divide_transform(options.steps(), common_size)
    held = subset.hold(_HELD)
    load = Workload(subset, held, pipeline)
    decode_ms = time_decodes(subset, held)  # first: it names a broken sample
    costs = measure_kinds(load)
    data = replace(
        describe_data(subset, decode_ms, options.batch_size),
        kind_ms=costs.kind_ms,
        recoded_ms=costs.recoded_ms,
    )
    kept: list[Residency] = []
    jobs, skipped = _list_jobs(load, options, kept)
    stages, complete = take_turns(jobs, options.rounds, options.seconds, report)
    worst = explain_warmth(max(kept, key=lambda found: found.share, default=Residency(0, 0)))
    return Bench(
        setting=_describe_setting(options, load),
        machine=read_machine(subset.path),
        data=data,
        stages=tuple(stages),
        skipped=tuple(skipped),
        notes=() if worst is None else (worst,),
        complete=complete,
    )


def _list_jobs(
    load: Workload, options: Options, kept: list[Residency]
) -> tuple[list[Job], list[tuple[str, str]]]:
    """Return the jobs, and the stages that cannot be measured, each with the reason."""
    threads = options.thread_counts()
    jobs = [
        *storage_jobs(load.subset, kept.append),
        *compute_jobs(load, threads),
        collate_job(load),
    ]
    skipped = []
    for name, job in ((results.PYTHON, python_job(load)), (results.COPY, copy_job(load))):
        if isinstance(job, str):
            skipped.append((name, job))
        else:
            jobs.append(job)
    steps = options.steps()
    pipeline = Pipeline(load.subset, options.batch_size, steps, options.cold, kept.append)
    return [*jobs, *map(pipeline.job, threads)], skipped


def _describe_setting(options: Options, load: Workload) -> Setting:
    steps = [f"{line.step} ({line.where})" for line in load.pipeline.lines]
    return Setting(
        command=options.command,
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        batch_size=options.batch_size,
        threads=max(options.thread_counts()),
        transform=", ".join(steps) or "none",
        size=load.recipe.size or (0, 0),
        cold=options.cold,
        samples_used=len(load.subset.rows),
    )
