"""The Python part of a batch: each sample goes through the user's steps with its own randomness, then all are collated.

In: pixels that the core rendered, or encoded images, what follows them, and a seed per sample and view. Out: the
values of the batch. Guaranteed: a result depends on its sample and its seed alone, in any process; the sample whose
step raised is known; samples that do not decode are reported, not raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.kinds import Boxes, Image
from headrace.recipe.core_or_python import Pipeline
from headrace.serve.bad_samples import OnError, choose_rows, take_rows
from headrace.serve.batch import IGNORED_LABEL, map_nested
from headrace.serve.collate import collate, fold_clips, is_array, stack_pictures
from headrace.serve.python_sample import BadImage, SampleSteps
from headrace.work.call_task import Failure, make_failure
from headrace.work.seeding import set_globals

Collate = Callable[[list[Any]], Any]
Tokenize = Callable[[list[str]], Any]


@dataclass(frozen=True, eq=False)
class Raw:
    """A batch on its way into Python.

    Args:
        values: For each view, the fields that go through the steps, by their names. Of clips, an image has all frames
            next to each other.
        columns: The fields in order, None for those in `values`.
        seeds: For each view, a number for each picture: the same for the frames of a clip, which so get the same
            random numbers.
    """

    values: Sequence[Mapping[str, Any]]
    columns: tuple[Any, ...]
    seeds: Sequence[NDArray[np.uint64]]


@dataclass(frozen=True, eq=False)
class Pictures:
    """RGB images in bytes, on which the last steps have still to run."""

    pixels: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Done:
    """A batch that comes back.

    Args:
        values: The fields, or what collate_fn made of them; None for those that stayed behind.
        kept: Which samples they are; None if all.
        bad: (place, reason) of the samples that did not decode.
        failure: What went wrong, and at which place.
    """

    values: Any
    kept: NDArray[np.int64] | None = None
    bad: tuple[tuple[int, str], ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class PythonSteps:
    """The Python part of a loader as a function of batches. Workers get it once."""

    pipelines: tuple[Pipeline, ...]
    """What each view goes through."""
    sample: SampleSteps
    fields: tuple[str, ...]
    collate_fn: Collate | None
    tensors: bool
    on_error: OnError
    label_at: int | None
    """The column whose labels are replaced in a batch without a good sample; None if they stay."""
    lead: tuple[int, ...] = ()
    """The axes of a batch between its samples and the pixels of a picture; see `Shape`."""
    views: bool = False
    stack: bool = False
    as_list: bool = False
    """Whether images are lists, since they may differ in size."""
    ragged: frozenset[str] = frozenset()
    """Points whose number differs."""
    tokenize: Tokenize | None = None
    texts: tuple[int, ...] = ()
    """The columns that `tokenize` gets."""

    @property
    def moves_pixels(self) -> bool:
        """Whether images go through Python at all, instead of staying where they were rendered."""
        return self.collate_fn is not None or any(pipeline.steps for pipeline in self.pipelines)

    @property
    def moved(self) -> tuple[str, ...]:
        """The fields that go through the steps."""
        return (*self.sample.kinds, *self.sample.columns) if self.moves_pixels else ()

    @property
    def kept_behind(self) -> tuple[str, ...]:
        """The fields that stay where they were rendered, since nothing in Python needs them."""
        return () if self.moves_pixels else (*self.sample.kinds, *self.sample.columns)

    @property
    def images(self) -> tuple[str, ...]:
        """The fields that are images."""
        kinds = self.sample.kinds
        return tuple(name for name in kinds if isinstance(kinds[name], Image))

    def __call__(self, raw: Raw) -> Done:
        if not self.moves_pixels:
            return self._finish(dict(zip(self.fields, raw.columns, strict=True)), None, ())
        results: dict[int, list[list[Any]]] = {}
        bad: list[tuple[int, str]] = []
        count = len(raw.seeds[0]) // math.prod(self.lead)
        for place in range(count):
            try:
                results[place] = self._transform(raw, place)
            except BadImage as error:
                bad.append((place, str(error)))
            except Exception as error:  # noqa: BLE001 - raised again in the training loop
                failure = make_failure(error, "transform failed", "its traceback", place)
                return Done((), failure=failure)
        if bad and self.on_error == "raise":
            return Done((), bad=tuple(bad))
        kept = _choose(count, bad, self.on_error)
        try:
            if bad and not results:  # the batch is still needed, marked invalid: see choose_rows
                results = dict.fromkeys(range(count), self._make_black(raw))
                raw = self._ignore_labels(raw)
            return self._collate(raw, results, kept, tuple(bad))
        except Exception as error:  # noqa: BLE001
            return Done((), failure=make_failure(error, "collating failed", "its traceback", None))

    def _finish(
        self,
        columns: dict[str, Any],
        kept: NDArray[np.int64] | None,
        bad: tuple[tuple[int, str], ...],
    ) -> Done:
        """Return the values of a batch, with what `tokenize` makes of texts; a sample without one has an empty one."""
        for place in self.texts if self.tokenize is not None else ():
            assert self.tokenize is not None
            name = self.fields[place]
            texts = ["" if text is None else text for text in columns[name]]
            try:
                columns[name] = self.tokenize(texts)
            except Exception as error:  # noqa: BLE001 - raised again in the training loop
                failure = make_failure(error, "tokenize failed", "its traceback", None)
                return Done((), failure=failure)
        return Done(tuple(columns.values()), kept, bad)

    def _ignore_labels(self, raw: Raw) -> Raw:
        if self.label_at is None:
            return raw
        columns = list(raw.columns)
        columns[self.label_at] = np.full_like(columns[self.label_at], IGNORED_LABEL)
        return replace(raw, columns=tuple(columns))

    def _transform(self, raw: Raw, place: int) -> list[list[Any]]:
        """Return, for each view, the results of a sample: one, or those of its frames."""
        each = math.prod(self.lead)
        views = []
        for pipeline, values, seeds in zip(self.pipelines, raw.values, raw.seeds, strict=True):
            results = []
            for number in range(place * each, (place + 1) * each):
                set_globals(int(seeds[number]))
                sample = {name: value[number] for name, value in values.items()}
                results.append(self.sample.transform(pipeline, sample))
            views.append(results)
        return views

    def _make_black(self, raw: Raw) -> list[list[Any]]:
        views = []
        for pipeline, seeds in zip(self.pipelines, raw.seeds, strict=True):
            set_globals(int(seeds[0]))
            views.append([self.sample.make_black(pipeline)] * math.prod(self.lead))
        return views

    def _collate(
        self,
        raw: Raw,
        results: dict[int, list[list[Any]]],
        kept: NDArray[np.int64] | None,
        bad: tuple[tuple[int, str], ...],
    ) -> Done:
        places = list(results) if kept is None else kept.tolist()
        columns = dict(zip(self.fields, (take_rows(column, kept) for column in raw.columns)))
        if self.collate_fn is not None:
            lists = {n: c.tolist() if isinstance(c, np.ndarray) else c for n, c in columns.items()}
            for name in raw.values[0]:
                lists[name] = [self._join(results[place], name) for place in places]
            return Done(self.collate_fn(list(zip(*lists.values(), strict=True))), kept, bad)
        for name in raw.values[0]:
            views = [
                self._collate_field(name, view, [results[place][view] for place in places])
                for view in range(len(self.pipelines))
            ]
            columns[name] = self._join_views(views)
        return self._finish(columns, kept, bad)

    def _collate_field(self, name: str, view: int, samples: list[list[Any]]) -> Any:
        """Return the values of a field in one view."""
        values, pipeline = [s[name] for results in samples for s in results], self.pipelines[view]
        kind = self.sample.kinds.get(name)
        if kind is None or isinstance(kind, Boxes) or name in self.ragged:
            return values
        if not isinstance(kind, Image):
            return values if self.as_list else collate(values, tensors=self.tensors)
        if self.as_list:
            return [self._finish_image(pipeline, value) for value in values]
        # Where images are converted after Python, arrays are images too.
        pictures = stack_pictures(values, arrays=pipeline.converts)
        if pictures is not None:
            return Pictures(fold_clips(pictures, self.lead))
        return fold_clips(self._collate_images(pipeline, values), self.lead)

    def _finish_image(self, pipeline: Pipeline, value: Any) -> Any:
        pictures = stack_pictures([value], arrays=pipeline.converts)
        if pictures is not None:
            return Pictures(pictures[0])
        for step in pipeline.last:
            value = step(value)
        return value

    def _join_views(self, views: list[Any]) -> Any:
        if not self.views:
            return views[0]
        if not self.stack:
            return tuple(views)
        if all(isinstance(view, Pictures) for view in views):
            return Pictures(np.stack([view.pixels for view in views]))
        return collate(views, tensors=self.tensors) if is_array(views[0]) else tuple(views)

    def _join(self, views: list[list[Any]], name: str) -> Any:
        """Return what collate_fn gets for a field of a sample: a value, or one for each view."""
        joined = [self._join_frames([result[name] for result in view]) for view in views]
        return tuple(joined) if self.views else joined[0]

    def _join_frames(self, values: list[Any]) -> Any:
        """Return the result of an image, or those of all frames in one value."""
        if not self.lead:
            return values[0]
        pictures = stack_pictures(values, arrays=True)
        joined = collate(values, tensors=self.tensors) if pictures is None else pictures
        return map_nested(fold_clips(joined, self.lead), is_array, lambda array: array[0])

    def _collate_images(self, pipeline: Pipeline, images: list[Any]) -> Any:
        """Collate values that are not pictures of one size, after the steps that the core would have run."""
        for step in pipeline.last:
            images = [step(image) for image in images]
        return collate(images, tensors=self.tensors) if images else []


def _choose(count: int, bad: list[tuple[int, str]], on_error: OnError) -> NDArray[np.int64] | None:
    marks = np.zeros(count, np.bool_)
    marks[[place for place, _ in bad]] = True
    return choose_rows(marks, on_error)
