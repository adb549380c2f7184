"""One step of an epoch, rendered: runs in memory and a plan in, a finished batch out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._core import crc32c
from headrace.errors import DecodeError
from headrace.plan import StepPlan
from headrace.read.columns import ABSENT, NO_LABEL
from headrace.read.layout import Layout, Run
from headrace.read.parts import Table
from headrace.render import Arena, Crew, Rendering, Status, begin_batch, status_message
from headrace.render.options import Depth16
from headrace.serve.batch import Batch
from headrace.serve.memory import LoaderMemory
from headrace.serve.recipe import Draw, Drawn, Recipe
from headrace.serve.stats import Counters
from headrace.serve.substitution import OnError, choose_rows

IMAGE, LABEL = "image", "label"
_DAMAGED = "it did not decode when it was indexed"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step, the runs it needs, and its images where they lie; `drawn` is None if none are rendered.

    `lost` says of rows why their bytes are not there, or are not those that were indexed.
    """

    number: int
    step: StepPlan
    runs: dict[int, Run]
    lost: dict[int, str]
    images: Arena | None = None
    seeks: Arena | None = None
    drawn: Drawn | None = None


@dataclass(frozen=True, eq=False)
class Begun:
    """A step whose images, if it has any to render, are being rendered, or why that cannot be."""

    prepared: Prepared
    rendering: Rendering | None = None
    error: Exception | None = None


@dataclass(frozen=True, eq=False)
class Renderer:
    """Renders the steps of an epoch; what takes no pixels can be prepared in another thread.

    A step can be begun before the last one is finished: then the threads go on with it without a pause.

    Bad samples under on_error: `raise` stops with the key, `skip` leaves them out of their batch,
    `substitute` puts the next good sample of the batch in their place. All depend on the data alone.
    """

    layout: Layout
    recipe: Recipe | None
    """None where images are handed on as they are encoded."""
    fields: Sequence[str]
    seed: int
    epoch: int
    threads: int
    on_error: OnError
    filler_label: int | None
    """What entries that only fill up a batch are labelled; None for the label of their sample."""
    table: Table
    counters: Counters
    memory: LoaderMemory
    depth16: Depth16 = "clip"
    verify: bool = True
    """Whether samples whose bytes do not have their checksum are bad samples."""

    def draw(self, steps: Sequence[StepPlan]) -> list[Drawn | None]:
        """Boxes and all else that is random in some steps; None for each if no image is rendered."""
        if IMAGE not in self.fields or self.recipe is None:
            return [None] * len(steps)
        columns, rows = self.layout.columns, np.concatenate([step.rows for step in steps])
        # A damaged image has no size: any box will do, since what comes out is not used.
        heights, widths = np.maximum(columns.height[rows], 1), np.maximum(columns.width[rows], 1)
        draws = np.concatenate([step.draws for step in steps])
        drawn = self.recipe.draw(Draw(self.seed, self.epoch, draws), heights, widths)
        ends = np.cumsum([len(step.rows) for step in steps]).tolist()
        return [drawn.take(slice(*bounds)) for bounds in pairwise([0, *ends])]

    def prepare(
        self, number: int, step: StepPlan, drawn: Drawn | None, runs: dict[int, Run]
    ) -> Prepared:
        """A step whose runs are in memory, with all that `render` needs."""
        lost = {row: reason for run in runs.values() for row, reason in run.lost.items()}
        if self.verify:
            self._find_changed(step.rows, runs, lost, image=drawn is None)
        if IMAGE not in self.fields:
            return Prepared(number, step, runs, lost)
        images = self._gather_images(step.rows, runs)
        seeks = None if drawn is None else self._gather_seeks(step.rows, runs)
        return Prepared(number, step, runs, lost, images, seeks, drawn)

    def _find_changed(
        self, rows: NDArray[np.int64], runs: dict[int, Run], lost: dict[int, str], *, image: bool
    ) -> None:
        """Add the rows of which a field does not have its checksum to `lost`; the core checks images that it renders."""
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
    def _crew(self) -> Crew:
        return Crew(self.threads)

    def begin(self, prepared: Prepared) -> Begun:
        """Begins to render a step. What goes wrong is raised when it is finished, after the steps before it."""
        if prepared.drawn is None:
            return Begun(prepared)
        try:
            return Begun(prepared, self._begin_images(prepared, prepared.drawn))
        except Exception as error:  # noqa: BLE001 - see above
            return Begun(prepared, error=error)

    def _begin_images(self, prepared: Prepared, drawn: Drawn) -> Rendering:
        assert self.recipe is not None
        assert prepared.images is not None
        output, size = self.recipe.output, self.recipe.find_size(drawn)
        shape = output.shape(len(prepared.step.rows), size)
        return begin_batch(
            prepared.images,
            drawn.boxes,
            size,
            crew=self._crew,
            window=drawn.window,
            flips=drawn.flips,
            seeks=prepared.seeks,
            checksums=self.layout.columns.image.checksum[prepared.step.rows]
            if self.verify
            else None,
            color=drawn.color,
            output=output,
            resample=self.recipe.resample,
            depth16=self.depth16,
            out=self.memory.batches.take(shape, output.element),
            threads=self.threads,
        )

    def finish(self, begun: Begun) -> Batch:
        """The batch of a step."""
        if begun.error is not None:
            raise begun.error
        # Before anything may be raised: then nothing is read any more of what the step holds.
        rendered = None if begun.rendering is None else begun.rendering.finish()
        prepared = begun.prepared
        step, runs = prepared.step, prepared.runs
        images: Any = None
        errors: list[tuple[str, str]] = []
        bad = self._find_lost(step, prepared.lost, errors)
        if rendered is not None:
            images, status = rendered
            self._find_undecoded(step, status, bad, errors)
        elif prepared.images is not None:
            images = [bytes(data) for data in prepared.images]
        kept = choose_rows(bad, self.on_error)
        if kept is not None:
            images = None if images is None else _take(images, kept)
            valid = step.valid[kept] & ~bad[kept]
            step = StepPlan(step.rows[kept], valid, step.draws[kept])
        values = tuple(
            images if name == IMAGE else self._column(name, step, runs) for name in self.fields
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

    def _find_lost(
        self, step: StepPlan, lost: dict[int, str], errors: list[tuple[str, str]]
    ) -> NDArray[np.bool_]:
        """Return which entries are lost, reported in `errors`."""
        bad = np.zeros(len(step.rows), np.bool_)
        if lost:
            bad = np.isin(step.rows, list(lost))
            rows = step.rows[bad & step.valid].tolist()
            errors.extend(self._report(row, f": {lost[row]}", lost[row]) for row in rows)
        return bad

    def _find_undecoded(
        self,
        step: StepPlan,
        status: NDArray[np.int32],
        bad: NDArray[np.bool_],
        errors: list[tuple[str, str]],
    ) -> None:
        """Adds the images that did not decode to `bad`, reported in `errors`."""
        failed = (status != 0) | (self.layout.columns.height[step.rows] == 0)
        for i in np.flatnonzero(failed & step.valid & ~bad):
            row = int(step.rows[i])
            errors.append(self.report(row, self._describe(int(status[i]), row)))
        bad |= failed

    def _describe(self, status: int, row: int) -> str:
        """Say why an image was not rendered."""
        if status == Status.CHANGED:
            return self.layout.describe_changed(row)
        if status == Status.BAD_BOX:
            width, height = self.layout.columns.width[row], self.layout.columns.height[row]
            return (
                f"{width} x {height} pixels are too few, or too long and thin, for this transform"
            )
        return status_message(status) if status else _DAMAGED

    def _gather_images(self, rows: NDArray[np.int64], runs: dict[int, Run]) -> Arena:
        image = self.layout.columns.image
        return self._gather(rows, image.offset[rows], image.size[rows], runs)

    def _gather(
        self,
        rows: NDArray[np.int64],
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        runs: dict[int, Run],
    ) -> Arena:
        """The bytes of each row that lie at `offsets` of its file, where they are in memory."""
        places = self.layout.places[rows] + offsets - self.layout.columns.span.offset[rows]
        lost = [row for run in runs.values() for row in run.lost]
        if lost:
            sizes = np.where(np.isin(rows, lost), 0, sizes)
        places = np.where(sizes > 0, places, 0)  # what a sample lacks lies nowhere
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
        """Which of `runs`, whose keys increase, each row lies in."""
        return np.searchsorted(list(runs), self.layout.runs_of(rows))

    def report(self, row: int, reason: str) -> tuple[str, str]:
        """Raise, or return with its key, that the image of a row does not decode, or that there is none."""
        image = self.layout.columns.image
        absent = None if image.size[row] else self.table.describe_absence(row)
        if absent is not None:
            return self._report(row, f" {absent}", absent)
        return self._report(row, f" at byte {image.offset[row]}: {reason}", reason)

    def _report(self, row: int, what: str, reason: str) -> tuple[str, str]:
        """Raise what is wrong with a row, or return its key and the reason."""
        key = self.table.name_row(row)
        if self.on_error == "raise":
            raise DecodeError(
                f"{key!r} in {self.layout.path_of(row)}{what}. on_error='skip' or 'substitute' goes on without it."
            )
        return key, reason

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


def _take(images: Any, kept: NDArray[np.int64]) -> Any:
    return [images[i] for i in kept] if isinstance(images, list) else images[kept]
