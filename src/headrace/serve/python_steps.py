"""What Python does to a batch: each sample through the user's steps, with randomness of its own, then collated.

In: pixels that the core rendered, or encoded images, and a seed a sample. Out: the values of the batch.
Guaranteed: a result depends on its sample and its seed alone, in whatever process; the sample whose step
raised is known; samples that do not decode are told, not raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.render import decode_jpeg
from headrace.render.options import Depth16
from headrace.run.seeding import set_globals
from headrace.run.task import Failure, make_failure
from headrace.serve.batch import IGNORED_LABEL
from headrace.serve.collate import collate, stack_pictures
from headrace.serve.conversion import convert_pixels
from headrace.serve.pipeline import Step
from headrace.serve.substitution import OnError, choose_rows
from headrace.serve.taken import Taken

Collate = Callable[[list[Any]], Any]
_BLACK = np.zeros((256, 256, 3), np.uint8)


@dataclass(frozen=True, eq=False)
class Raw:
    """A batch on its way into Python. `columns` are its fields in order, with None for the image."""

    images: NDArray[np.uint8] | Sequence[bytes]
    columns: tuple[Any, ...]
    seeds: NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Done:
    """A batch that comes back.

    values: the fields, or what collate_fn made of them. kept: which samples they are, None if all.
    pictures: whether the images are RGB bytes, on which `last` has still to be done.
    bad: (place, reason) of those that did not decode. failure: what went wrong, and at which place.
    """

    values: Any
    kept: NDArray[np.int64] | None = None
    pictures: bool = False
    bad: tuple[tuple[int, str], ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class PythonSteps:
    """The part of a pipeline that is Python's, as a function of batches. Crosses to workers once."""

    entry: Taken
    steps: tuple[Step, ...]
    last: tuple[Step, ...]
    converts: bool
    """Whether images are converted after Python: then arrays are images too, else what they are."""
    collate_fn: Collate | None
    tensors: bool
    image_at: int
    on_error: OnError
    label_at: int | None
    """Where labels have to be replaced in a batch without a good sample; None if they stay."""
    depth16: Depth16 = "clip"

    def __call__(self, raw: Raw) -> Done:
        results: dict[int, Any] = {}
        bad: list[tuple[int, str]] = []
        for place, image in enumerate(raw.images):
            try:
                set_globals(int(raw.seeds[place]))
                results[place] = self._transform(image)
            except _BadImage as error:
                bad.append((place, str(error)))
            except Exception as error:  # noqa: BLE001 - raised again in the training loop
                failure = make_failure(error, "transform failed", "its traceback", place)
                return Done((), failure=failure)
        if bad and self.on_error == "raise":
            return Done((), bad=tuple(bad))
        kept = _choose(len(raw.images), bad, self.on_error)
        try:
            if bad and not results:  # the batch has to be there, marked invalid: see choose_rows
                results = dict.fromkeys(range(len(raw.images)), self._transform(_BLACK))
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

    def _transform(self, image: Any) -> Any:
        pixels = image if isinstance(image, np.ndarray) else _decode(image, self.depth16)
        value = convert_pixels(pixels, self.entry)
        for step in self.steps:
            value = step(value)
        return value

    def _collate(
        self,
        raw: Raw,
        results: dict[int, Any],
        kept: NDArray[np.int64] | None,
        bad: tuple[tuple[int, str], ...],
    ) -> Done:
        places = list(range(len(raw.images))) if kept is None else kept.tolist()
        images = [results[place] for place in places]
        columns = [_take(column, kept) for column in raw.columns]
        if self.collate_fn is not None:
            lists = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns]
            lists[self.image_at] = images
            return Done(self.collate_fn(list(zip(*lists))), kept, bad=bad)
        pictures = stack_pictures(images, arrays=self.converts)
        columns[self.image_at] = pictures if pictures is not None else self._collate_images(images)
        return Done(tuple(columns), kept, pictures is not None, bad)

    def _collate_images(self, images: list[Any]) -> Any:
        """Those that are not pictures all of one size: the steps left for the core run here."""
        for step in self.last:
            images = [step(image) for image in images]
        return collate(images, tensors=self.tensors) if images else []


class _BadImage(Exception):
    """A sample that does not decode, which is no failure of the transform."""


def _decode(data: bytes, depth16: Depth16) -> NDArray[np.uint8]:
    try:
        return decode_jpeg(data, depth16)
    except DecodeError as error:
        raise _BadImage(str(error)) from None


def _choose(count: int, bad: list[tuple[int, str]], on_error: OnError) -> NDArray[np.int64] | None:
    marks = np.zeros(count, np.bool_)
    marks[[place for place, _ in bad]] = True
    return choose_rows(marks, on_error)


def _take(column: Any, kept: NDArray[np.int64] | None) -> Any:
    if kept is None or column is None:
        return column
    return column[kept] if isinstance(column, np.ndarray) else [column[i] for i in kept]
