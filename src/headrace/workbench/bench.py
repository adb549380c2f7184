"""`run_bench`: a dataset and options in, every stage and the pipeline measured, a `Bench` out."""

from __future__ import annotations

import datetime
import os
from contextlib import ExitStack

from headrace.serve.choices import find_common_size
from headrace.serve.pipeline import divide_transform
from headrace.workbench import numbers
from headrace.workbench.against import torchvision_jobs
from headrace.workbench.machine import read_machine
from headrace.workbench.numbers import Bench, Setting
from headrace.workbench.options import Options
from headrace.workbench.page_cache import Residency, explain_warmth
from headrace.workbench.pipeline import Pipeline, pipeline_jobs
from headrace.workbench.stages import (
    Workload,
    collate_job,
    compute_jobs,
    copy_job,
    measure_kinds,
    python_job,
    storage_jobs,
)
from headrace.workbench.subject import Subject, describe_data, time_decodes
from headrace.workbench.windows import Job, Watcher, take_turns

_HELD = 256


def run_bench(
    path: str | os.PathLike[str], options: Options, watcher: Watcher | None = None
) -> Bench:
    """Measures. After Ctrl-C the `Bench` holds what was measured until then."""
    subject = Subject(path, options.samples, options.image)
    common_size = find_common_size(subject.table.columns, None)
    pipeline = divide_transform(options.steps(), common_size)
    held = subject.hold(_HELD)
    load = Workload(subject, held, pipeline)
    decode_ms = time_decodes(subject, held)  # first, since it says which sample is broken
    data = describe_data(subject, decode_ms, measure_kinds(load), options.batch_size)
    kept: list[Residency] = []
    with ExitStack() as stack:
        jobs, skipped = _list_jobs(load, options, kept, stack)
        stages, complete = take_turns(jobs, options.rounds, options.seconds, watcher)
    worst = explain_warmth(max(kept, key=lambda found: found.share, default=Residency(0, 0)))
    return Bench(
        setting=_describe_setting(options, load),
        machine=read_machine(subject.path),
        data=data,
        stages=tuple(stages),
        skipped=tuple(skipped),
        notes=() if worst is None else (worst,),
        complete=complete,
    )


def _list_jobs(
    load: Workload, options: Options, kept: list[Residency], stack: ExitStack
) -> tuple[list[Job], list[tuple[str, str]]]:
    """The jobs, and the stages that are left out, each with the reason."""
    threads, skipped = options.thread_counts(), []
    jobs = [*storage_jobs(load.subject, kept.append), *compute_jobs(load, threads)]
    python = python_job(load)
    if python is None:
        skipped.append((numbers.PYTHON, "no step of the transform runs in Python"))
    else:
        jobs.append(python)
    jobs.append(collate_job(load))
    copy = copy_job(load)
    if isinstance(copy, str):
        skipped.append((numbers.COPY, copy))
    else:
        jobs.append(copy)
    pipeline = Pipeline(
        load.subject, options.batch_size, options.steps(), options.cold, kept.append
    )
    jobs += pipeline_jobs(pipeline, threads)
    if options.against == "torchvision":
        found = torchvision_jobs(load.subject, options, stack)
        if isinstance(found, str):
            skipped.append(("torchvision", found))
        else:
            jobs += found
    return jobs, skipped


def _describe_setting(options: Options, load: Workload) -> Setting:
    steps = [f"{line.step} ({line.where})" for line in load.pipeline.lines]
    return Setting(
        command=options.command,
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        batch_size=options.batch_size,
        threads=max(options.thread_counts()),
        transform=", ".join(steps) or "none",
        size=load.recipe.size,
        cold=options.cold,
        samples_used=len(load.subject.rows),
    )
