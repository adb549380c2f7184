"""The Python part of a batch: each sample goes through the user's steps with its own randomness, then all are collated.

In: pixels that the core rendered, or encoded images, and a seed per sample. Out: the values of the batch.
Guaranteed: a result depends on its sample and its seed alone, in any process; the sample whose step raised is
known; samples that do not decode are reported, not raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.image_header import read_orientation
from headrace.recipe.core_or_python import Pipeline
from headrace.recipe.pixels import convert_pixels
from headrace.render import decode_jpeg
from headrace.render.decode import turn_upright
from headrace.render.options import Depth16
from headrace.serve.bad_samples import OnError, choose_rows, take_rows
from headrace.serve.batch import IGNORED_LABEL, map_nested
from headrace.serve.collate import collate, fold_clips, is_array, stack_pictures
from headrace.work.call_task import Failure, make_failure
from headrace.work.seeding import set_globals

Collate = Callable[[list[Any]], Any]
_BLACK = np.zeros((256, 256, 3), np.uint8)


@dataclass(frozen=True, eq=False)
class Raw:
    """A batch on its way into Python. `columns` holds its fields in order, None for the image.

    `images` has all pictures of a sample next to each other, and `seeds` a number for each of them: the same for
    the frames of a clip, which so get the same random numbers.
    """

    images: NDArray[np.uint8] | Sequence[bytes]
    columns: tuple[Any, ...]
    seeds: NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Done:
    """A batch that comes back.

    Args:
        values: The fields, or what collate_fn made of them.
        kept: Which samples they are; None if all.
        pictures: Whether the images are RGB bytes, on which the last steps have still to run.
        bad: (place, reason) of the samples that did not decode.
        failure: What went wrong, and at which place.
    """

    values: Any
    kept: NDArray[np.int64] | None = None
    pictures: bool = False
    bad: tuple[tuple[int, str], ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class PythonSteps:
    """The Python part of a pipeline as a function of batches. Workers get it once."""

    pipeline: Pipeline
    collate_fn: Collate | None
    tensors: bool
    image_at: int
    on_error: OnError
    label_at: int | None
    """The column whose labels are replaced in a batch without a good sample; None if they stay."""
    depth16: Depth16 = "clip"
    orient: bool = False
    lead: tuple[int, ...] = ()
    """The axes of a batch between its samples and the pixels of a picture; see `Shape`."""

    def __call__(self, raw: Raw) -> Done:
        results: dict[int, list[Any]] = {}
        bad: list[tuple[int, str]] = []
        each = math.prod(self.lead)
        count = len(raw.images) // each
        for place in range(count):
            try:
                numbers = range(place * each, (place + 1) * each)
                results[place] = [self._transform(raw.images[n], raw.seeds[n]) for n in numbers]
            except _BadImage as error:
                bad.append((place, str(error)))
            except Exception as error:  # noqa: BLE001 - raised again in the training loop
                failure = make_failure(error, "transform failed", "its traceback", place)
                return Done((), failure=failure)
        if bad and self.on_error == "raise":
            return Done((), bad=tuple(bad))
        kept = _choose(count, bad, self.on_error)
        try:
            if bad and not results:  # the batch is still needed, marked invalid: see choose_rows
                black = [self._transform(_BLACK, raw.seeds[0])] * each
                results = dict.fromkeys(range(count), black)
                raw = self._ignore_labels(raw)
            return self._collate(raw, results, kept, tuple(bad))
        except Exception as error:  # noqa: BLE001
            return Done((), failure=make_failure(error, "collating failed", "its traceback", None))

    def _ignore_labels(self, raw: Raw) -> Raw:
        if self.label_at is None:
            return raw
        columns = list(raw.columns)
        columns[self.label_at] = np.full_like(columns[self.label_at], IGNORED_LABEL)
        return replace(raw, columns=tuple(columns))

    def _transform(self, image: Any, seed: np.uint64) -> Any:
        set_globals(int(seed))
        pixels = image if isinstance(image, np.ndarray) else self._decode(image)
        value = convert_pixels(pixels, self.pipeline.entry)
        for step in self.pipeline.steps:
            value = step(value)
        return value

    def _decode(self, data: bytes) -> NDArray[np.uint8]:
        try:
            pixels = decode_jpeg(data, self.depth16)
        except DecodeError as error:
            raise _BadImage(str(error)) from None
        return turn_upright(pixels, read_orientation(data)) if self.orient else pixels

    def _collate(
        self,
        raw: Raw,
        results: dict[int, list[Any]],
        kept: NDArray[np.int64] | None,
        bad: tuple[tuple[int, str], ...],
    ) -> Done:
        places = list(results) if kept is None else kept.tolist()
        columns = [take_rows(column, kept) for column in raw.columns]
        if self.collate_fn is not None:
            lists = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns]
            lists[self.image_at] = [self._join(results[place]) for place in places]
            return Done(self.collate_fn(list(zip(*lists))), kept, bad=bad)
        images = [image for place in places for image in results[place]]
        # Where images are converted after Python, arrays are images too.
        pictures = stack_pictures(images, arrays=self.pipeline.converts)
        values = pictures if pictures is not None else self._collate_images(images)
        columns[self.image_at] = fold_clips(values, self.lead)
        return Done(tuple(columns), kept, pictures is not None, bad)

    def _join(self, images: list[Any]) -> Any:
        """Return what collate_fn gets for a sample: the result of its image, or those of its frames in one value."""
        if not self.lead:
            return images[0]
        pictures = stack_pictures(images, arrays=True)
        values = collate(images, tensors=self.tensors) if pictures is None else pictures
        return map_nested(fold_clips(values, self.lead), is_array, lambda array: array[0])

    def _collate_images(self, images: list[Any]) -> Any:
        """Collate values that are not pictures of one size, after the steps that the core would have run."""
        for step in self.pipeline.last:
            images = [step(image) for image in images]
        return collate(images, tensors=self.tensors) if images else []


class _BadImage(Exception):
    """A sample does not decode, so the transform has not failed."""


def _choose(count: int, bad: list[tuple[int, str]], on_error: OnError) -> NDArray[np.int64] | None:
    marks = np.zeros(count, np.bool_)
    marks[[place for place, _ in bad]] = True
    return choose_rows(marks, on_error)
