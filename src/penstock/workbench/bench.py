"""`run_bench`: a data set and options in, every stage and the pipeline measured, a `Bench` out."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from penstock.pack.cores import count_cores
from penstock.serve.pipeline import divide_transform
from penstock.serve.transforms import RandomHorizontalFlip, RandomResizedCrop
from penstock.workbench import numbers
from penstock.workbench.against import torchvision_jobs
from penstock.workbench.machine import read_machine
from penstock.workbench.numbers import Bench, Setting
from penstock.workbench.page_cache import Residency, explain_warmth
from penstock.workbench.pipeline import Pipeline, pipeline_jobs
from penstock.workbench.stages import (
    Workload,
    collate_job,
    compute_jobs,
    copy_job,
    measure_kinds,
    python_job,
    storage_jobs,
)
from penstock.workbench.subject import Subject, describe_data, time_decodes
from penstock.workbench.windows import Job, Watcher, take_turns

_HELD = 256


@dataclass(frozen=True)
class Options:
    """How to measure. `transform` is whatever Loader takes; a crop of `size` and a flip unless given."""

    batch_size: int = 256
    threads: Sequence[int] | None = None
    size: int = 224
    transform: Any = None
    samples: int = 4096
    rounds: int = 5
    seconds: float = 0.5
    cold: bool = False
    against: Literal["torchvision"] | None = None
    command: str = ""

    def __post_init__(self) -> None:
        for name in ("batch_size", "size", "samples", "rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.threads is not None and (not self.threads or min(self.threads) < 1):
            raise ValueError(f"threads are {list(self.threads)}; give numbers from 1 on")

    def steps(self) -> Any:
        """The transform that is measured."""
        if self.transform is None:
            return [RandomResizedCrop(self.size), RandomHorizontalFlip()]
        return self.transform

    def thread_counts(self) -> list[int]:
        return sorted(set(self.threads or choose_threads(count_cores())))


def choose_threads(cores: int) -> list[int]:
    """1, 2, 4, ... and all cores."""
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return sorted({*counts, cores})


def run_bench(
    path: str | os.PathLike[str], options: Options, watcher: Watcher | None = None
) -> Bench:
    """Measures. After Ctrl-C the `Bench` holds what was measured until then."""
    subject = Subject(path, options.samples)
    heights, widths = subject.table.columns.height, subject.table.columns.width
    common = (int(heights[0]), int(widths[0]))
    same = bool((heights == common[0]).all() and (widths == common[1]).all())
    pipeline = divide_transform(options.steps(), common if same else None)
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
        found = torchvision_jobs(load.subject, options.batch_size, threads, options, stack)
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
