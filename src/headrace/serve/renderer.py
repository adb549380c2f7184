"""Render the steps of an epoch: runs in memory and a plan in, finished batches out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._core import crc32c
from headrace.plan import StepPlan
from headrace.read.columns import ABSENT, NO_LABEL
from headrace.read.run_layout import Layout, Run
from headrace.read.table import Table
from headrace.recipe.core_recipe import Randomness, Recipe
from headrace.render import (
    Arena,
    Crew,
    Draws,
    Jobs,
    Rendering,
    RenderRequest,
)
from headrace.render.options import Depth16
from headrace.serve.bad_samples import BadSamples, OnError, choose_rows, take_rows
from headrace.serve.batch import Batch
from headrace.serve.batch_memory import LoaderMemory
from headrace.serve.stats import Counters

IMAGE, LABEL = "image", "label"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step, the runs it needs, and its images where they lie in memory.

    Args:
        lost: Rows whose bytes are missing or have changed since they were indexed, with the reason.
        images: The encoded images if they are rendered elsewhere.
        jobs: The images to be rendered, if there are any.
    """

    number: int
    step: StepPlan
    runs: dict[int, Run]
    lost: dict[int, str]
    images: Arena | None = None
    jobs: Jobs | None = None


@dataclass(frozen=True, eq=False)
class Begun:
    """A step whose images, if it has any, are being rendered; or the error that prevents it."""

    prepared: Prepared
    rendering: Rendering | None = None
    error: Exception | None = None


@dataclass(frozen=True, eq=False)
class Renderer:
    """Renders the steps of an epoch. Steps can be prepared in another thread.

    A step can be begun before the previous one is finished, so that the threads continue without a pause.

    For bad samples, `on_error="raise"` stops with the key, `skip` leaves them out of their batch, and
    `substitute` puts the next good sample of the batch in their place. All depend on the data alone.
    """

    layout: Layout
    recipe: Recipe | None
    """None if images are passed on as they are encoded."""
    fields: Sequence[str]
    seed: int
    epoch: int
    threads: int
    on_error: OnError
    filler_label: int | None
    """Label of entries that only fill up a batch; None for the label of their sample."""
    table: Table
    counters: Counters
    memory: LoaderMemory
    depth16: Depth16 = "clip"
    verify: bool = True
    """Whether samples with a wrong checksum are bad samples."""

    def draw(self, steps: Sequence[StepPlan]) -> list[Draws | None]:
        """Return all that is random in some steps; None for each if no image is rendered."""
        if IMAGE not in self.fields or self.recipe is None:
            return [None] * len(steps)
        columns, rows = self.layout.columns, np.concatenate([step.rows for step in steps])
        # A damaged image has no size. Any box will do, since the result is not used.
        heights, widths = np.maximum(columns.height[rows], 1), np.maximum(columns.width[rows], 1)
        ids = np.concatenate([step.draws for step in steps])
        draws = self.recipe.draw(Randomness(self.seed, self.epoch, ids), heights, widths)
        ends = np.cumsum([len(step.rows) for step in steps]).tolist()
        return [draws.take(slice(*bounds)) for bounds in pairwise([0, *ends])]

    def prepare(
        self, number: int, step: StepPlan, draws: Draws | None, runs: dict[int, Run]
    ) -> Prepared:
        """Return a step whose runs are in memory, with all that `begin` needs."""
        lost = {row: reason for run in runs.values() for row, reason in run.lost.items()}
        if self.verify:
            self._find_changed(step.rows, runs, lost, image=draws is None)
        if IMAGE not in self.fields:
            return Prepared(number, step, runs, lost)
        image, rows = self.layout.columns.image, step.rows
        images = self._gather(rows, image.offset[rows], image.size[rows], runs)
        if draws is None:
            return Prepared(number, step, runs, lost, images)
        checksums = image.checksum[rows] if self.verify else None
        jobs = Jobs(images, draws, self._gather_seeks(rows, runs), checksums)
        return Prepared(number, step, runs, lost, jobs=jobs)

    def _find_changed(
        self, rows: NDArray[np.int64], runs: dict[int, Run], lost: dict[int, str], *, image: bool
    ) -> None:
        """Add the rows with a field of a wrong checksum to `lost`; the core checks images that it renders."""
        columns = self.layout.columns
        fields = {name: columns.fields[name] for name in self.fields if name in columns.fields}
        if image and IMAGE in self.fields:
            fields[IMAGE] = columns.image
        for name, field in fields.items():
            data = self._gather(rows, field.offset[rows], field.size[rows], runs)
            found = np.array([crc32c(item) for item in data], np.uint32)
            expected = np.where(data.sizes > 0, field.checksum[rows], 0)
            for row in rows[found != expected].tolist():
                lost.setdefault(row, f"{name}: {self.layout.describe_changed(row)}")

    @cached_property
    def bad_samples(self) -> BadSamples:
        """What to do with samples that cannot be rendered."""
        return BadSamples(self.layout, self.table, self.on_error)

    @cached_property
    def _crew(self) -> Crew:
        return Crew(self.threads)

    def begin(self, prepared: Prepared) -> Begun:
        """Begin to render a step. An error is raised when the step is finished, after the steps before it."""
        if prepared.jobs is None:
            return Begun(prepared)
        try:
            return Begun(prepared, self._begin_jobs(prepared.jobs))
        except Exception as error:  # noqa: BLE001 - see above
            return Begun(prepared, error=error)

    def _begin_jobs(self, jobs: Jobs) -> Rendering:
        assert self.recipe is not None
        target = self.recipe.make_target(jobs.draws)
        shape = target.output.shape(len(jobs), target.size)
        out = self.memory.batches.take(shape, target.output.element)
        target = replace(target, depth16=self.depth16, out=out, threads=self.threads)
        return RenderRequest(jobs, target).begin(self._crew)

    def finish(self, begun: Begun) -> Batch:
        """Return the batch of a step."""
        if begun.error is not None:
            raise begun.error
        # Before anything is raised: afterwards, nothing reads the memory of the step.
        rendered = None if begun.rendering is None else begun.rendering.finish()
        prepared, step = begun.prepared, begun.prepared.step
        errors: list[tuple[str, str]] = []
        bad = self.bad_samples.find_lost(step, prepared.lost, errors)
        images: Any = None if prepared.images is None else list(map(bytes, prepared.images))
        if rendered is not None:
            images, status = rendered
            self.bad_samples.find_undecoded(step, status, bad, errors)
        kept = choose_rows(bad, self.on_error)
        if kept is not None:
            images = take_rows(images, kept)
            valid = step.valid[kept] & ~bad[kept]
            step = StepPlan(step.rows[kept], valid, step.draws[kept])
        values = tuple(
            images if name == IMAGE else self._column(name, step, prepared.runs)
            for name in self.fields
        )
        return Batch(
            values,
            valid=step.valid,
            rows=step.rows,
            draws=step.draws,
            errors=tuple(errors),
            epoch=self.epoch,
            step=prepared.number,
        )

    def _gather(
        self,
        rows: NDArray[np.int64],
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        runs: dict[int, Run],
    ) -> Arena:
        """Return where in memory the bytes lie that each row has at `offsets` of its file."""
        places = self.layout.places[rows] + offsets - self.layout.columns.span.offset[rows]
        lost = [row for run in runs.values() for row in run.lost]
        if lost:
            sizes = np.where(np.isin(rows, lost), 0, sizes)
        places = np.where(sizes > 0, places, 0)  # a field that a sample lacks has no place
        numbers = self._number_runs(rows, runs)
        return Arena([run.data for run in runs.values()], places, sizes, numbers)

    def _gather_seeks(self, rows: NDArray[np.int64], runs: dict[int, Run]) -> Arena:
        tables, numbers = [run.seeks for run in runs.values()], self._number_runs(rows, runs)
        starts = np.array([table.start for table in tables])
        readable = np.array([len(table.data) > 0 for table in tables])
        seek = self.layout.columns.seek
        sizes = np.where(readable[numbers], seek.size[rows], 0)
        offsets = np.where(sizes > 0, seek.offset[rows] - starts[numbers], 0)
        return Arena([table.data for table in tables], offsets, sizes, numbers)

    def _number_runs(self, rows: NDArray[np.int64], runs: dict[int, Run]) -> NDArray[np.int64]:
        """Return which of `runs`, whose keys increase, each row lies in."""
        return np.searchsorted(list(runs), self.layout.runs_of(rows))

    def _column(self, name: str, step: StepPlan, runs: dict[int, Run]) -> Any:
        columns = self.layout.columns
        if name == LABEL:
            return self._labels(step)
        if name in columns.numbers:
            return columns.numbers[name][step.rows]
        if name in columns.user:
            column = columns.user[name]
            return [column[int(row)].as_py() for row in step.rows]
        field = columns.fields[name]
        offsets = field.offset[step.rows]
        data = self._gather(step.rows, offsets, field.size[step.rows], runs)
        return [
            None if offset == ABSENT else bytes(item)
            for offset, item in zip(offsets.tolist(), data, strict=True)
        ]

    def _labels(self, step: StepPlan) -> NDArray[np.int64]:
        labels = self.layout.columns.label[step.rows]
        missing = np.flatnonzero(labels == NO_LABEL)
        if len(missing):
            raise ValueError(self._describe_unlabelled(int(step.rows[missing[0]])))
        return (
            labels if self.filler_label is None else np.where(step.valid, labels, self.filler_label)
        )

    def _describe_unlabelled(self, row: int) -> str:
        message = f"{self.table.name_row(row)!r} has no label: leave 'label' out of fields"
        if columns := self.table.list_columns(row):
            message += f", or ask for a column in its place: it has {', '.join(columns)}"
        return message
