"""Points and boxes of a batch: read from arrays, JSON and columns, and moved with their images all at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace import plan
from headrace.kinds import NAMES, Boxes, Points
from headrace.recipe.core_recipe import Recipe
from headrace.render import Draws
from headrace.render.arrays import is_array, read_array

_ENTRIES = {Boxes: ("boxes", "bboxes", "bbox"), Points: ("points", "keypoints")}


class Geometry(NamedTuple):
    """The geometry of one view of a step's images: the recipe, its draws, and the sizes of the images."""

    recipe: Recipe
    draws: Draws
    heights: NDArray[np.int64]
    widths: NDArray[np.int64]

    def take(self, row: int) -> Geometry:
        """Return the geometry of one image."""
        rows = slice(row, row + 1)
        return Geometry(self.recipe, self.draws.take(rows), self.heights[rows], self.widths[rows])

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of all results."""
        return self.recipe.geometry.find_size(self.draws)


class Ragged(NamedTuple):
    """Arrays [..., D] of different lengths as one array [P, D]."""

    flat: NDArray[np.float32]
    shapes: list[tuple[int, ...]]
    samples: NDArray[np.int64]

    @classmethod
    def join(cls, arrays: Sequence[NDArray[np.float32]]) -> Ragged:
        flat = [array.reshape(-1, array.shape[-1]) for array in arrays]
        lengths = [len(array) for array in flat]
        samples = np.repeat(np.arange(len(arrays)), lengths)
        return cls(np.concatenate(flat), [array.shape for array in arrays], samples)

    def move(self, kind: Points | Boxes, geometry: Geometry) -> Ragged:
        """Return these points or boxes under a geometry."""
        recipe, draws, heights, widths = geometry
        moves = recipe.geometry.list_moves(draws, heights, widths)
        move = plan.move_boxes if isinstance(kind, Boxes) else plan.move_points
        return self._replace(flat=move(self.flat, self.samples, moves))

    def find_kept(self, geometry: Geometry | None) -> NDArray[np.bool_]:
        """Return which boxes are large enough, all of them where nothing says how large that is."""
        sanitize = None if geometry is None else geometry.recipe.sanitize
        if geometry is None or sanitize is None:
            return np.ones(len(self.flat), np.bool_)
        heights, widths = geometry.recipe.geometry.find_sizes(geometry.draws)
        return plan.keep_boxes(
            self.flat, self.samples, heights, widths, sanitize.min_size, sanitize.min_area
        )

    def split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the values of each array, from one value per row of all of them."""
        counts = np.bincount(self.samples, minlength=len(self.shapes))
        return np.split(values, np.cumsum(counts)[:-1])

    def list(self) -> list[NDArray[np.float32]]:
        """Return the arrays in their shapes."""
        parts = self.split(self.flat)
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]


def decode_numbers(kind: Points | Boxes, data: memoryview) -> Any:
    """Return the numbers of an array or of JSON, where they may be an entry of an object."""
    if is_array(data):
        return read_array(data)
    value = json.loads(bytes(data))
    if not isinstance(value, dict):
        return value
    entries = _ENTRIES[type(kind)]
    found = next((name for name in entries if name in value), None)
    if found is None:
        raise ValueError(f"it is an object without an entry {' or '.join(entries)}")
    return value[found]


def read_coordinates(kind: Points | Boxes, value: Any) -> NDArray[np.float32]:
    """Return points [..., 2], or boxes [N, 4] as (left, top, right, bottom)."""
    if value is None:
        raise ValueError(f"there are no {NAMES[type(kind)]}, not even an empty list")
    array = np.asarray(value, np.float32)
    last = 4 if isinstance(kind, Boxes) else 2
    if not array.size:
        array = array.reshape(0, last)
    if array.ndim < 2 or array.shape[-1] != last or (last == 4 and array.ndim != 2):
        wanted = "[N, 4]" if last == 4 else "[..., 2]"
        raise ValueError(
            f"{NAMES[type(kind)]} have the shape {list(array.shape)}; they must be {wanted}"
        )
    return plan.to_xyxy(array, kind.format) if isinstance(kind, Boxes) else array


def read_per_box(value: Any, dtype: pa.DataType) -> Any:
    """Return the values per box of a sample: an array of numbers, or a list of anything else."""
    values = [] if value is None else value
    inner = getattr(dtype, "value_type", None)
    if inner is not None and pa.types.is_boolean(inner):
        return np.asarray(values, np.bool_)
    if inner is not None and pa.types.is_integer(inner):
        return np.asarray(values, np.int64)
    if inner is not None and pa.types.is_floating(inner):
        return np.asarray(values, inner.to_pandas_dtype())
    return values
