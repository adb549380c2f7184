"""Render the steps of an epoch: runs in memory and a plan in, finished batches out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._core import crc32c
from headrace.plan import StepPlan
from headrace.read.columns import ABSENT, NO_LABEL
from headrace.read.reading import Reading
from headrace.read.run_layout import Layout, Run
from headrace.read.table import Table
from headrace.recipe.clip import IMAGES, Shape
from headrace.recipe.core_recipe import Recipe
from headrace.recipe.randomness import Randomness
from headrace.render import (
    Arena,
    Crew,
    Draws,
    Jobs,
    Rendering,
    RenderRequest,
)
from headrace.render.labels import LabelRequest
from headrace.render.options import Depth16
from headrace.serve.bad_samples import BadSamples, OnError, choose_rows, take_rows
from headrace.serve.batch import Batch
from headrace.serve.batch_memory import LoaderMemory
from headrace.serve.clip_draws import ClipDraws
from headrace.serve.masks import describe_unlike, find_unlike
from headrace.serve.stats import Counters
from headrace.serve.steps_in_flight import FEWEST

IMAGE, LABEL = "image", "label"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step, the runs it needs, and its images where they lie in memory.

    Args:
        lost: Rows whose bytes are missing or have changed since they were indexed, with the reason.
        images: The encoded images if they are rendered elsewhere.
        jobs: The images to be rendered, if there are any.
        frames: The frames int64[B, K, T] of clips; None for images.
        masks: The masks to be rendered, by their names among the fields.
    """

    number: int
    step: StepPlan
    runs: dict[int, Run]
    lost: dict[int, str]
    images: Arena | None = None
    jobs: Jobs | None = None
    frames: NDArray[np.int64] | None = None
    masks: Mapping[str, LabelRequest] = field(default_factory=dict)


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
    reading: Reading
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
    orient: bool = False
    """Whether images are turned upright."""
    shape: Shape = IMAGES
    """What a sample consists of."""
    clips: ClipDraws | None = None
    """The clips that samples consist of; None for images."""
    in_flight: int = FEWEST
    """How many steps are rendered at the same time."""

    def draw(self, steps: Sequence[StepPlan]) -> list[Draws | None]:
        """Return all that is random in some steps; None for each if no image is rendered.

        The frames of a clip share a row.
        """
        if IMAGE not in self.fields or self.recipe is None:
            return [None] * len(steps)
        columns, rows = self.layout.columns, np.concatenate([step.rows for step in steps])
        rows = np.repeat(rows, self.shape.clips)
        # A damaged image has no size. Any box will do, since the result is not used.
        heights, widths = np.maximum(columns.height[rows], 1), np.maximum(columns.width[rows], 1)
        ids = np.concatenate([step.draws for step in steps])
        randomness = Randomness(self.seed, self.epoch, ids).split(self.shape.clips)
        draws = self.recipe.draw(randomness, heights, widths)
        views = self.shape.clips * self.shape.crops
        ends = (np.cumsum([len(step.rows) for step in steps]) * views).tolist()
        return [draws.take(slice(*bounds)) for bounds in pairwise([0, *ends])]

    def prepare(
        self, number: int, step: StepPlan, draws: Draws | None, runs: dict[int, Run]
    ) -> Prepared:
        """Return a step whose runs are in memory, with all that `begin` needs."""
        lost = {row: reason for run in runs.values() for row, reason in run.lost.items()}
        if self.verify:
            self._find_changed(step.rows, runs, lost)
        if IMAGE not in self.fields:
            return Prepared(number, step, runs, lost)
        frames = None if self.clips is None else self._find_clips(number, step, lost)
        pictures = self._list_pictures(frames)
        found = self.layout.columns.find_pictures(step.rows, pictures)
        images = self._gather(step.rows, found.offset, found.size, runs)
        if draws is None:
            if self.verify:
                self._find_changed_pictures(step.rows, pictures, images, found.checksum, lost)
            return Prepared(number, step, runs, lost, images, frames=frames)
        seeks = self._gather_seeks(step.rows, found.seek_offset, found.seek_size, runs)
        checksums = found.checksum.reshape(-1) if self.verify else None
        turned = self.layout.columns.orientation[step.rows] if self.orient else None
        draws = draws.repeat(self.shape.frames or 1)
        jobs = Jobs(images, draws, seeks, checksums, self._sizes(step), turned)
        masks = self._prepare_masks(step, draws, runs, lost)
        return Prepared(number, step, runs, lost, jobs=jobs, frames=frames, masks=masks)

    def _prepare_masks(
        self, step: StepPlan, draws: Draws, runs: dict[int, Run], lost: dict[int, str]
    ) -> dict[str, LabelRequest]:
        """Return the masks of a step; add the rows whose masks have not the size of their image to `lost`."""
        columns, requests = self.layout.columns, {}
        for name, mask in columns.masks.items():
            for row in step.rows[find_unlike(columns, mask, step.rows)].tolist():
                lost.setdefault(row, describe_unlike(columns, mask, row, name))
            offsets, sizes = mask.ranges.offset[step.rows], mask.ranges.size[step.rows]
            data = self._gather(step.rows, offsets[:, None], sizes[:, None], runs)
            assert self.recipe is not None
            size = self.recipe.make_target(draws).size
            dtype = np.uint16 if mask.is_deep else np.uint8
            requests[name] = LabelRequest(data, draws, size, dtype, threads=self.threads)
        return requests

    def _find_clips(self, number: int, step: StepPlan, lost: dict[int, str]) -> NDArray[np.int64]:
        """Return the frames of a step; add the rows whose videos are too short to `lost`."""
        assert self.clips is not None and self.layout.columns.frames is not None
        frames, short = self.clips.find(number)
        for row in step.rows[short].tolist():
            count = int(self.layout.columns.frames.counts[row])
            lost.setdefault(row, f"its {count} frames are too few for {self.clips.clip}")
        return frames

    def _list_pictures(self, frames: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Return the frame int64[B, J] that each picture of a sample shows; None for images."""
        if frames is None:
            return None
        return np.repeat(frames, self.shape.crops, axis=1).reshape(len(frames), -1)

    def _sizes(self, step: StepPlan) -> NDArray[np.int32] | None:
        """Return the size that each frame of a clip must have, which is that of the video's first frame."""
        if self.clips is None:
            return None
        columns = self.layout.columns
        sizes = np.stack([columns.height[step.rows], columns.width[step.rows]], axis=1)
        return np.repeat(sizes.astype(np.int32), self.shape.pictures, axis=0)

    def _find_changed(
        self, rows: NDArray[np.int64], runs: dict[int, Run], lost: dict[int, str]
    ) -> None:
        """Add the rows with a field of a wrong checksum to `lost`; the core checks images that it renders."""
        columns = self.layout.columns
        for name in self.fields:
            mask = columns.masks.get(name)
            if (ranges := columns.fields.get(name) if mask is None else mask.ranges) is None:
                continue
            offsets, sizes = ranges.offset[rows], ranges.size[rows]
            data = self._gather(rows, offsets[:, None], sizes[:, None], runs)
            found = np.array([crc32c(item) for item in data], np.uint32)
            expected = np.where(data.sizes > 0, ranges.checksum[rows], 0)
            for row in rows[found != expected].tolist():
                lost.setdefault(row, f"{name}: {self.layout.describe_changed(row)}")

    def _find_changed_pictures(
        self,
        rows: NDArray[np.int64],
        pictures: NDArray[np.int64] | None,
        images: Arena,
        checksums: NDArray[np.uint32],
        lost: dict[int, str],
    ) -> None:
        """Add the rows with an encoded image, or a frame of `pictures`, of a wrong checksum to `lost`."""
        found = np.array([crc32c(item) for item in images], np.uint32).reshape(checksums.shape)
        expected = np.where(images.sizes.reshape(checksums.shape) > 0, checksums, 0)
        for i, j in np.argwhere(found != expected):
            name = IMAGE if pictures is None else f"frame {pictures[i, j]}"
            row = int(rows[i])
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
        frames = prepared.frames
        if rendered is not None:
            images, status = rendered
            images = images.reshape(len(step.rows), *self.shape.lead, *images.shape[1:])
            status = status.reshape(len(step.rows), -1)
            self.bad_samples.find_undecoded(step, status, frames, bad, errors)
        elif images is not None and frames is not None:
            count = self.shape.pictures
            images = [images[i : i + count] for i in range(0, len(images), count)]
        masks = self._finish_masks(prepared, bad, errors)
        kept = choose_rows(bad, self.on_error)
        if kept is not None:
            images, frames = take_rows(images, kept), take_rows(frames, kept)
            valid = step.valid[kept] & ~bad[kept]
            step = StepPlan(step.rows[kept], valid, step.draws[kept])
        pixels = {IMAGE: images, **{name: take_rows(mask, kept) for name, mask in masks.items()}}
        values = tuple(
            pixels[name] if name in pixels else self._column(name, step, prepared.runs)
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
            clips=self._drop_axis(frames),
        )

    def _finish_masks(
        self, prepared: Prepared, bad: NDArray[np.bool_], errors: list[tuple[str, str]]
    ) -> dict[str, NDArray[Any]]:
        """Return the masks of a step; add the samples whose masks do not decode to `bad`."""
        masks = {}
        for name, request in prepared.masks.items():
            masks[name], failed = request.render()
            self.bad_samples.find_failed(prepared.step, failed, name, bad, errors)
        return masks

    def _drop_axis(self, frames: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Return the frames of a batch as the user sees them: [B, T] where there is one clip."""
        return frames[:, 0] if frames is not None and self.shape.clips == 1 else frames

    def _gather(
        self,
        rows: NDArray[np.int64],
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        runs: dict[int, Run],
    ) -> Arena:
        """Return where in memory the bytes lie that each row has at `offsets` [B, J] of its file."""
        places = self.reading.place(rows, offsets, runs)
        lost = [row for run in runs.values() for row in run.lost]
        if lost:
            sizes = np.where(np.isin(rows, lost)[:, None], 0, sizes)
        places = np.where(sizes > 0, places, 0)  # a field that a sample lacks has no place
        numbers = np.repeat(self.reading.number_units(rows, runs), sizes.shape[1])
        buffers = [run.data for run in runs.values()]
        return Arena(buffers, places.reshape(-1), sizes.reshape(-1), numbers)

    def _gather_seeks(
        self,
        rows: NDArray[np.int64],
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        runs: dict[int, Run],
    ) -> Arena:
        """Return where in memory the seek tables lie that each row has at `offsets` [B, J] of its seek file."""
        tables = [run.seeks for run in runs.values()]
        numbers = np.repeat(self.reading.number_units(rows, runs), sizes.shape[1])
        starts = np.array([table.start for table in tables])
        readable = np.array([len(table.data) > 0 for table in tables])
        sizes = np.where(readable[numbers], sizes.reshape(-1), 0)
        offsets = np.where(sizes > 0, offsets.reshape(-1) - starts[numbers], 0)
        return Arena([table.data for table in tables], offsets, sizes, numbers)

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
        offsets, sizes = field.offset[step.rows], field.size[step.rows]
        data = self._gather(step.rows, offsets[:, None], sizes[:, None], runs)
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
