"""Render the steps of an epoch: runs in memory and a plan in, finished batches out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._core import crc32c
from headrace.plan import StepPlan
from headrace.read.reading import Reading
from headrace.read.run_layout import Layout, Run
from headrace.read.table import Table
from headrace.recipe.clip import IMAGES, Shape
from headrace.recipe.randomness import Randomness
from headrace.render import Arena, Jobs
from headrace.render.options import Depth16
from headrace.serve.bad_samples import BadSamples, OnError, choose_rows, take_rows
from headrace.serve.batch import Batch
from headrace.serve.batch_memory import LoaderMemory
from headrace.serve.clip_draws import ClipDraws
from headrace.serve.column_reader import ColumnReader
from headrace.serve.coordinates import Geometry
from headrace.serve.image_renderer import ImageRenderer, Rendered
from headrace.serve.pictures import Drawn, Picture
from headrace.serve.stats import Counters
from headrace.serve.step_bytes import StepBytes
from headrace.serve.steps_in_flight import FEWEST
from headrace.serve.targets import Targets


@dataclass(frozen=True, eq=False)
class Encoded:
    """An image of a step's samples as it lies in memory; with `jobs` if the core renders it.

    `jobs` has the draws of the first view.
    """

    picture: Picture
    images: Arena
    jobs: Jobs | None = None


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step, the runs it needs, and its images and targets where they lie in memory.

    Args:
        lost: Rows whose bytes are missing or have changed since they were indexed, with the reason.
        drawn: The draws of each view of each image.
        encoded: The images, by their names among the fields.
        targets: The bytes of what follows an image, by their names.
        frames: The frames int64[B, K, T] of clips; None for images.
    """

    number: int
    step: StepPlan
    data: StepBytes
    lost: dict[int, str]
    drawn: Drawn = field(default_factory=dict)
    encoded: Mapping[str, Encoded] = field(default_factory=dict)
    targets: Mapping[str, Arena] = field(default_factory=dict)
    frames: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class Begun:
    """A step whose images, if it has any, are being rendered; or the error that prevents it.

    An image is rendered for all samples at once, or for each by itself if results differ in size.
    """

    prepared: Prepared
    images: Mapping[str, Rendered] = field(default_factory=dict)
    error: Exception | None = None

    def measure_seconds(self) -> float:
        """Return how long rendering took, in all threads, once it is finished."""
        return sum(r.seconds for image in self.images.values() for r in image.renderings)


@dataclass(frozen=True, eq=False)
class Renderer:
    """Renders the steps of an epoch. Steps can be prepared in another thread.

    A step can be begun before the previous one is finished, so that the threads continue without a pause.

    For bad samples, `on_error="raise"` stops with the key, `skip` leaves them out of their batch, and
    `substitute` puts the next good sample of the batch in their place. All depend on the data alone.
    """

    layout: Layout
    reading: Reading
    pictures: Sequence[Picture]
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
    targets: Targets
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
    views: bool = False
    """Whether a sample consists of views, in a tuple or an array."""
    stack: bool = False
    """Whether views are one array."""
    as_list: bool = False
    """Whether the values of a batch are lists, since they may differ in size."""
    buckets: Sequence[Sequence[Picture]] = ()
    """The images with the recipes of each bucket, if batches have sizes of their own."""

    later: Sequence[tuple[int, Sequence[Picture]]] = ()
    """Steps at which the sizes of images change, in order, each with the images from there on."""

    def draw(self, first: int, steps: Sequence[StepPlan]) -> list[Drawn]:
        """Return all that is random in some steps, from number `first` on; nothing if no image is rendered.

        The frames of a clip share a row.
        """
        if not self.buckets and not self.later:
            return self._draw(steps, self.pictures)
        return [
            self._draw([step], self._find_pictures(number, step))[0]
            for number, step in enumerate(steps, first)
        ]

    def _find_pictures(self, number: int, step: StepPlan) -> Sequence[Picture]:
        """Return the images with the recipes of a step."""
        if step.bucket is not None:
            return self.buckets[step.bucket]
        before = (pictures for start, pictures in reversed(self.later) if start <= number)
        return next(before, self.pictures)

    def _draw(self, steps: Sequence[StepPlan], pictures: Sequence[Picture]) -> list[Drawn]:
        rows = np.repeat(np.concatenate([step.rows for step in steps]), self.shape.clips)
        ids = np.concatenate([step.draws for step in steps])
        randomness = Randomness(self.seed, self.epoch, ids).split(self.shape.clips)
        drawn = {picture.name: picture.draw(randomness, rows) for picture in pictures}
        views = self.shape.clips * self.shape.crops
        ends = (np.cumsum([len(step.rows) for step in steps]) * views).tolist()
        return [
            {
                name: tuple(part.take(slice(*bounds)) for part in parts)
                for name, parts in drawn.items()
            }
            for bounds in pairwise([0, *ends])
        ]

    def prepare(self, number: int, step: StepPlan, drawn: Drawn, runs: dict[int, Run]) -> Prepared:
        """Return a step whose runs are in memory, with all that `begin` needs."""
        data = StepBytes(self.reading, step, runs)
        lost = dict(data.lost)
        if self.verify:
            self._find_changed(data, lost)
        frames = None if self.clips is None else self._find_clips(number, step, lost)
        encoded = {
            picture.name: self._prepare_picture(picture, step, drawn, data, frames, lost)
            for picture in self._find_pictures(number, step)
        }
        self.targets.find_unlike(step.rows, lost)
        targets = self.targets.gather(data)
        return Prepared(number, step, data, lost, drawn, encoded, targets, frames)

    def _prepare_picture(
        self,
        picture: Picture,
        step: StepPlan,
        drawn: Drawn,
        data: StepBytes,
        frames: NDArray[np.int64] | None,
        lost: dict[int, str],
    ) -> Encoded:
        numbers, columns = self._list_pictures(frames), self.layout.columns
        found = columns.find_pictures(step.rows, numbers, picture.columns)
        images = data.gather(found.offset, found.size)
        if not picture.recipes:
            if self.verify:
                self._find_changed_pictures(
                    step.rows, numbers, images, found.checksum, picture.name, lost
                )
            return Encoded(picture, images)
        seeks = data.gather_seeks(found.seek_offset, found.seek_size)
        checksums = found.checksum.reshape(-1) if self.verify else None
        turned = picture.columns.orientation[step.rows] if self.orient else None
        draws = drawn[picture.name][0].repeat(self.shape.frames or 1)
        jobs = Jobs(images, draws, seeks, checksums, self._sizes(step), turned)
        return Encoded(picture, images, jobs)

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

    def _find_changed(self, data: StepBytes, lost: dict[int, str]) -> None:
        """Add the rows with a field of a wrong checksum to `lost`; the core checks images that it renders."""
        columns, rows = self.layout.columns, data.rows
        others = {name: target.ranges for name, target in columns.targets.items()}
        for name, ranges in {**columns.fields, **others}.items():
            items = data.gather_field(ranges)
            found = np.array([crc32c(item) for item in items], np.uint32)
            expected = np.where(items.sizes > 0, ranges.checksum[rows], 0)
            for row in rows[found != expected].tolist():
                lost.setdefault(row, f"{name}: {self.layout.describe_changed(row)}")

    def _find_changed_pictures(
        self,
        rows: NDArray[np.int64],
        pictures: NDArray[np.int64] | None,
        images: Arena,
        checksums: NDArray[np.uint32],
        field: str,
        lost: dict[int, str],
    ) -> None:
        """Add the rows with an encoded image, or a frame of `pictures`, of a wrong checksum to `lost`."""
        found = np.array([crc32c(item) for item in images], np.uint32).reshape(checksums.shape)
        expected = np.where(images.sizes.reshape(checksums.shape) > 0, checksums, 0)
        for i, j in np.argwhere(found != expected):
            name = field if pictures is None else f"frame {pictures[i, j]}"
            row = int(rows[i])
            lost.setdefault(row, f"{name}: {self.layout.describe_changed(row)}")

    @cached_property
    def bad_samples(self) -> BadSamples:
        """What to do with samples that cannot be rendered."""
        return BadSamples(self.layout, self.table, self.on_error)

    @cached_property
    def _images(self) -> ImageRenderer:
        return ImageRenderer(self.memory, self.threads, self.depth16, self.stack, self.as_list)

    @cached_property
    def _columns(self) -> ColumnReader:
        return ColumnReader(self.layout.columns, self.table, self.filler_label)

    def begin(self, prepared: Prepared) -> Begun:
        """Begin to render a step. An error is raised when the step is finished, after the steps before it."""
        try:
            images = {
                name: self._images.begin(encoded.picture, encoded.jobs, prepared.drawn[name])
                for name, encoded in prepared.encoded.items()
                if encoded.jobs is not None
            }
        except Exception as error:  # noqa: BLE001 - see above
            return Begun(prepared, error=error)
        return Begun(prepared, images)

    def finish(self, begun: Begun) -> Batch:
        """Return the batch of a step."""
        if begun.error is not None:
            raise begun.error
        # Before anything is raised: afterwards, nothing reads the memory of the step.
        rendered = {
            name: [rendering.finish_all() for rendering in image.renderings]
            for name, image in begun.images.items()
        }
        prepared, step = begun.prepared, begun.prepared.step
        errors: list[tuple[str, str]] = []
        bad = self.bad_samples.find_lost(step, prepared.lost, errors)
        values = {
            name: self._take_views(prepared, name, rendered[name], bad, errors)
            if name in rendered
            else self._list_encoded(prepared, name)
            for name in prepared.encoded
        }
        values |= self._make_targets(prepared, bad, errors)
        frames, kept = prepared.frames, choose_rows(bad, self.on_error)
        if kept is not None:
            frames = take_rows(frames, kept)
            valid = step.valid[kept] & ~bad[kept]
            step = StepPlan(step.rows[kept], valid, step.draws[kept], step.bucket)
        joined = {
            name: self._join_views(views, kept, begun.images.get(name))
            for name, views in values.items()
        }
        others = self._columns
        return Batch(
            tuple(
                joined[name] if name in joined else others.read(name, step, prepared.data, kept)
                for name in self.fields
            ),
            valid=step.valid,
            rows=step.rows,
            draws=step.draws,
            errors=tuple(errors),
            epoch=self.epoch,
            step=prepared.number,
            clips=self._drop_axis(frames),
        )

    def _list_encoded(self, prepared: Prepared, name: str) -> list[Any]:
        """Return the encoded images of a step, or the frames of each sample: one view of them."""
        images: list[Any] = list(map(bytes, prepared.encoded[name].images))
        if prepared.frames is not None:
            count = self.shape.pictures
            images = [images[i : i + count] for i in range(0, len(images), count)]
        return [images]

    def _take_views(
        self,
        prepared: Prepared,
        name: str,
        results: Sequence[Any],
        bad: NDArray[np.bool_],
        errors: list[tuple[str, str]],
    ) -> list[Any]:
        """Return what was rendered of an image, view by view; add the samples that failed to `bad`."""
        step, picture = prepared.step, prepared.encoded[name].picture
        count, views = len(step.rows), []
        for view in range(len(picture.recipes)):
            status = np.concatenate([result[view][1] for result in results]).reshape(count, -1)
            self.bad_samples.find_undecoded(
                step, picture.columns, name, status, prepared.frames, bad, errors
            )
            if self.as_list:
                views.append([result[view][0][0] for result in results])
            else:
                out = results[0][view][0]
                views.append(out.reshape(count, *self.shape.lead, *out.shape[1:]))
        return views

    def _make_targets(
        self, prepared: Prepared, bad: NDArray[np.bool_], errors: list[tuple[str, str]]
    ) -> dict[str, list[Any]]:
        """Return all that follows an image, view by view; add the samples that failed to `bad`."""
        if not self.targets:
            return {}
        rows, failed = prepared.step.rows, dict[int, str]()
        if not self.pictures[0].recipes:
            views = [self.targets.read(rows, prepared.targets, failed)]
        else:
            views = [
                self.targets.make(
                    rows, prepared.targets, partial(self._find_geometry, prepared, view), failed
                )
                for view in range(len(self.pictures[0].recipes))
            ]
        self.bad_samples.find_failed(prepared.step, failed, bad, errors)
        return {name: [view[name] for view in views] for name in views[0]}

    def _find_geometry(self, prepared: Prepared, view: int, name: str) -> Geometry:
        picture, rows = prepared.encoded[name].picture, prepared.step.rows
        heights, widths = (np.maximum(sides[rows], 1) for sides in picture.sides)
        return Geometry(picture.recipes[view], prepared.drawn[name][view], heights, widths)

    def _join_views(
        self, views: list[Any], kept: NDArray[np.int64] | None, rendered: Rendered | None
    ) -> Any:
        """Return the value of a field: of one view alone, else all views in a tuple or an array."""
        if not self.views:
            return take_rows(views[0], kept)
        if rendered is not None and rendered.stacked is not None:
            return rendered.stacked if kept is None else rendered.stacked[:, kept]
        chosen = tuple(take_rows(view, kept) for view in views)
        stacks = self.stack and all(isinstance(view, np.ndarray) for view in chosen)
        return np.stack(chosen) if stacks else chosen

    def _drop_axis(self, frames: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Return the frames of a batch as the user sees them: [B, T] where there is one clip."""
        return frames[:, 0] if frames is not None and self.shape.clips == 1 else frames
