"""One step of an epoch, rendered: runs in memory and a plan in, a finished batch out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.errors import DecodeError
from penstock.plan import StepPlan
from penstock.read.columns import ABSENT, NO_LABEL
from penstock.read.layout import Layout, Run
from penstock.read.parts import Table
from penstock.render import Status, render_batch, status_message
from penstock.serve.batch import Batch
from penstock.serve.memory import LoaderMemory
from penstock.serve.recipe import Draw, Drawn, Recipe
from penstock.serve.stats import Counters
from penstock.serve.substitution import OnError, choose_rows

IMAGE, LABEL = "image", "label"
_DAMAGED = "it did not decode when it was indexed"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step, the runs it needs, and its images where they lie; `drawn` is None if none are rendered."""

    number: int
    step: StepPlan
    runs: dict[int, Run]
    images: Sequence[memoryview] = ()
    seeks: Sequence[memoryview | bytes] = ()
    drawn: Drawn | None = None


@dataclass(frozen=True, eq=False)
class Renderer:
    """Renders the steps of an epoch, one after the other; what takes no pixels can be prepared in another thread.

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

    def prepare(self, number: int, step: StepPlan, runs: dict[int, Run]) -> Prepared:
        """A step whose runs are in memory, with all that `render` needs."""
        if IMAGE not in self.fields:
            return Prepared(number, step, runs)
        images, seeks = self._gather_images(step.rows, runs)
        if self.recipe is None:
            return Prepared(number, step, runs, images)
        columns, rows = self.layout.columns, step.rows
        # A damaged image has no size: any box will do, since what comes out is not used.
        heights, widths = np.maximum(columns.height[rows], 1), np.maximum(columns.width[rows], 1)
        drawn = self.recipe.draw(Draw(self.seed, self.epoch, step.draws), heights, widths)
        return Prepared(number, step, runs, images, seeks, drawn)

    def render(self, prepared: Prepared) -> Batch:
        """The batch of a step."""
        step, runs = prepared.step, prepared.runs
        images: Any = None
        errors: list[tuple[str, str]] = []
        bad = self._find_lost(step, runs, errors)
        if prepared.drawn is not None:
            images = self._render_images(prepared, prepared.drawn, bad, errors)
        elif IMAGE in self.fields:
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
        self, step: StepPlan, runs: dict[int, Run], errors: list[tuple[str, str]]
    ) -> NDArray[np.bool_]:
        """Which entries could not be read, reported in `errors`."""
        bad = np.zeros(len(step.rows), np.bool_)
        lost = {row: reason for run in runs.values() for row, reason in run.lost.items()}
        if lost:
            bad = np.isin(step.rows, list(lost))
            rows = step.rows[bad & step.valid].tolist()
            errors.extend(self.report(row, lost[row]) for row in rows)
        return bad

    def _render_images(
        self,
        prepared: Prepared,
        drawn: Drawn,
        bad: NDArray[np.bool_],
        errors: list[tuple[str, str]],
    ) -> NDArray[Any]:
        """The images; those that do not decode are reported in `errors`, and added to `bad`."""
        assert self.recipe is not None
        step, output, size = prepared.step, self.recipe.output, self.recipe.size
        out = self.memory.batches.take(output.shape(len(step.rows), size), output.element)
        out, status = render_batch(
            prepared.images,
            drawn.boxes,
            size,
            window=drawn.window,
            flips=drawn.flips,
            seeks=prepared.seeks,
            color=drawn.color,
            output=output,
            resample=self.recipe.resample,
            out=out,
            threads=self.threads,
        )
        failed = (status != 0) | (self.layout.columns.height[step.rows] == 0)
        for i in np.flatnonzero(failed & step.valid & ~bad):
            row = int(step.rows[i])
            errors.append(self.report(row, self._describe(int(status[i]), row)))
        bad |= failed
        return out

    def _describe(self, status: int, row: int) -> str:
        """Why an image was not rendered."""
        if status == Status.BAD_BOX:
            width, height = self.layout.columns.width[row], self.layout.columns.height[row]
            return (
                f"{width} x {height} pixels are too few, or too long and thin, for this transform"
            )
        return status_message(status) if status else _DAMAGED

    def _gather_images(
        self, rows: NDArray[np.int64], runs: dict[int, Run]
    ) -> tuple[list[memoryview], list[memoryview | bytes]]:
        columns = self.layout.columns
        places = self.layout.places[rows] + columns.image.offset[rows] - columns.span.offset[rows]
        return self._gather(rows, places, columns.image.size[rows], runs)

    def _gather(
        self,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        sizes: NDArray[np.int64],
        runs: dict[int, Run],
    ) -> tuple[list[memoryview], list[memoryview | bytes]]:
        """The bytes and the seek table of each row, where they lie."""
        images: list[memoryview] = []
        seeks: list[memoryview | bytes] = []
        numbers = self.layout.runs_of(rows)
        firsts = self.layout.runs[numbers]
        for row, run, first, place, size in zip(
            rows.tolist(), numbers.tolist(), firsts.tolist(), places.tolist(), sizes.tolist()
        ):
            data = runs[run]
            images.append(data.data.data[place : place + size])
            seeks.append(b"" if data.seeks is None else data.seeks.table(row - first))
        return images, seeks

    def report(self, row: int, reason: str) -> tuple[str, str]:
        """Raises, or says with its key, that the image of a row does not decode, or that there is none."""
        key, image = self.table.name_row(row), self.layout.columns.image
        absent = None if image.size[row] else self.table.describe_absence(row)
        if self.on_error == "raise":
            what = absent or f"at byte {image.offset[row]}: {reason}"
            raise DecodeError(
                f"{key!r} in {self.layout.path_of(row)} {what}. on_error='skip' or 'substitute' goes on without it."
            )
        return key, absent or reason

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
        places = self.layout.places[step.rows] + field.offset[step.rows]
        places -= columns.span.offset[step.rows]
        data, _ = self._gather(step.rows, places, field.size[step.rows], runs)
        offsets = field.offset[step.rows].tolist()
        return [
            None if offset == ABSENT else bytes(item)
            for offset, item in zip(offsets, data, strict=True)
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
