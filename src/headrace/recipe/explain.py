"""Describe for `print(loader)` where each step of the transform runs, and why."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from headrace.image_header import describe_deep
from headrace.recipe.core_or_python import Pipeline
from headrace.recipe.mixing import MixChoice
from headrace.recipe.torchvision import TENSORS_RESIZED
from headrace.render.options import Depth16
from headrace.work.call_task import name_of

_WIDEST = 52
_log = logging.getLogger("headrace")


def describe_loader(
    title: str,
    pipelines: Sequence[Pipeline],
    decoded: str,
    workers: int,
    collate_fn: Any,
    threads: int,
    mixing: MixChoice | None = None,
) -> str:
    """Return the title and a line per step of each view; `decoded` says which fields are decoded."""
    first = pipelines[0]
    where = "core" if first.recipe is not None else "core, with Python"
    rows = [(f"decode {decoded}".rstrip(), _describe_place(where, workers, threads), "")]
    for views, pipeline in _group_views(pipelines):
        for line in pipeline.lines:
            name = f"{views}{_name(line.step)}"
            rows.append((name, _describe_place(line.where, workers, threads), line.why))
    if first.clip is not None:
        rows[:2] = rows[1::-1]
    if collate_fn is not None:
        why = "it gets the samples after all steps"
        rows.append((f"collate_fn {_name(collate_fn)}", _describe_place("Python", workers, 0), why))
    for step in mixing.choices if mixing is not None else ():
        rows.append((_name(step), "core, on finished batches", ""))
    width = max((len(name) for name, _, _ in rows), default=0)
    lines = [
        f"  {name:{width}}  {where}{': ' + why if why else ''}".rstrip()
        for name, where, why in rows
    ]
    return "\n".join([title, *lines])


def _group_views(pipelines: Sequence[Pipeline]) -> Iterator[tuple[str, Pipeline]]:
    """Yield each pipeline once, with the numbers of the successive views that have it."""
    if len(pipelines) == 1:
        yield "", pipelines[0]
        return
    number = 0
    for pipeline, group in groupby(pipelines):
        last = number + len(list(group)) - 1
        yield f"view {number}: " if last == number else f"views {number} to {last}: ", pipeline
        number = last + 1


def log_hints(
    dataset: object, kinds: Mapping[str, int], pipeline: Pipeline, depth16: Depth16
) -> None:
    """Warn of what the user may not expect: white images of 16 bits, and a resize that runs in Python."""
    if depth16 == "clip" and (sentence := describe_deep(kinds)):
        _log.warning("%r: %s", dataset, sentence)
    for line in pipeline.lines:
        if line.where == "Python" and TENSORS_RESIZED in line.why:
            name = _name(line.step)
            _log.warning("%s runs in Python, which is several times slower: %s", name, line.why)


def _describe_place(where: str, workers: int, threads: int) -> str:
    processes = f"{workers} worker{'s' * (workers != 1)}" if workers else "the iterating thread"
    return {
        "plan": "chosen before reading",
        "core": f"core, {threads} threads",
        "core, with Python": f"core, {processes}",
        "Python": f"Python, {processes}",
        "core, worker": "core, in Python's place",
        "core, last": "core, on what Python returns",
    }[where]


def _name(step: Any) -> str:
    """Return a step in one line: its repr if it is readable, else the name of the function."""
    text = repr(step)
    if text.startswith("<"):
        text = name_of(step)
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
