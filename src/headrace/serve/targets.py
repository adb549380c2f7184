"""Fields that follow the geometry of an image: masks, maps, points and boxes, and the columns of boxes.

In: their bytes or columns, and the draws of their image. Out: a value for each sample, or why there is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace import plan
from headrace.errors import DecodeError
from headrace.kinds import NAMES, Boxes, Map, Mask, Points
from headrace.read.columns import Columns, TargetColumns
from headrace.recipe.core_recipe import Recipe
from headrace.render import Arena, Draws
from headrace.render.arrays import is_array, read_array
from headrace.render.labels import LabelRequest
from headrace.render.maps import MapRequest
from headrace.serve.pictures import Picture
from headrace.serve.step_bytes import StepBytes

Values = NDArray[Any] | list[Any]
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


@dataclass(frozen=True, eq=False)
class Targets:
    """All fields of a batch that follow an image.

    Args:
        columns: All samples.
        owners: The image that each of them follows, by their names.
        threads: The most threads to use.
        as_list: Whether results may differ in size.
    """

    columns: Columns
    owners: Mapping[str, Picture] = field(default_factory=dict)
    threads: int = 1
    as_list: bool = False

    def __bool__(self) -> bool:
        return bool(self.owners)

    def find_unlike(self, rows: NDArray[np.int64], lost: dict[int, str]) -> None:
        """Add the rows that lack a target, or whose mask or map has not the size of its image, to `lost`."""
        for name, target in self.columns.targets.items():
            kind, owner = self.columns.requested.kinds[name], self.owners[name]
            unlike = target.ranges.size[rows] == 0
            if isinstance(kind, (Mask, Map)):
                sides = zip((target.height, target.width), owner.sides, strict=True)
                unlike = np.logical_or.reduce([unlike, *(a[rows] != b[rows] for a, b in sides)])
                unlike &= owner.columns.height[rows] > 0  # of damaged images, that is the fault
            for row in rows[unlike].tolist():
                lost.setdefault(row, _describe_unlike(target, owner, row, name))

    def gather(self, data: StepBytes) -> dict[str, Arena]:
        """Return the bytes of a step's targets, by their names."""
        return {
            name: data.gather_field(target.ranges) for name, target in self.columns.targets.items()
        }

    def make(
        self,
        rows: NDArray[np.int64],
        found: Mapping[str, Arena],
        geometry: Callable[[str], Geometry],
        failed: dict[int, str],
    ) -> dict[str, Values]:
        """Return the values of all targets of a step under a geometry; add why samples have none to `failed`."""
        values: dict[str, Values] = {}
        for name, owner in self.owners.items():
            kind = self.columns.requested.kinds[name]
            if isinstance(kind, (Mask, Map)):
                values[name] = self._render(name, kind, found[name], geometry(owner.name), failed)
        return values | self._move(rows, found, geometry, failed)

    def read(
        self, rows: NDArray[np.int64], found: Mapping[str, Arena], failed: dict[int, str]
    ) -> dict[str, Values]:
        """Return the targets of a step as they are: encoded masks and maps, points and boxes in their image."""
        encoded = {
            name: list(map(bytes, found[name]))
            for name in self.owners
            if isinstance(self.columns.requested.kinds[name], (Mask, Map))
        }
        return {**encoded, **self._move(rows, found, None, failed)}

    def _render(
        self,
        name: str,
        kind: Mask | Map,
        found: Arena,
        geometry: Geometry,
        failed: dict[int, str],
    ) -> Values:
        if not self.as_list:
            out, wrong = self._request(name, kind, found, geometry).render()
            failed |= {place: f"{name}: {reason}" for place, reason in wrong.items()}
            return out
        results = []
        for place in range(len(found)):
            out, wrong = self._request(name, kind, [found[place]], geometry.take(place)).render()
            if wrong:
                failed[place] = f"{name}: {wrong[0]}"
            results.append(out[0])
        return results

    def _request(
        self, name: str, kind: Mask | Map, found: Any, geometry: Geometry
    ) -> LabelRequest | MapRequest:
        recipe, draws, size = geometry.recipe, geometry.draws, geometry.size
        if isinstance(kind, Map):
            return MapRequest(
                found,
                draws,
                size,
                channels=_count_channels(name, self.columns.targets[name]),
                scale=kind.scale,
                interpolation=kind.interpolation,
                fill=kind.fill,
                divisor=kind.divisor,
                threads=self.threads,
            )
        return LabelRequest(
            found,
            draws,
            size,
            dtype=_choose_dtype(kind, self.columns.targets[name], recipe.mask_dtype),
            fill=kind.fill if recipe.mask_fill is None else recipe.mask_fill,
            threads=self.threads,
            interpolation=kind.interpolation,
            rgb_ids=kind.rgb_ids,
        )

    def _move(
        self,
        rows: NDArray[np.int64],
        found: Mapping[str, Arena],
        geometry: Callable[[str], Geometry] | None,
        failed: dict[int, str],
    ) -> dict[str, Values]:
        """Return points and boxes, moved with their images unless `geometry` is None, and the columns of boxes."""
        values: dict[str, Values] = {}
        kept: dict[str, list[NDArray[np.bool_]]] = {}
        requested = self.columns.requested
        for name, owner in self.owners.items():
            kind = requested.kinds[name]
            if not isinstance(kind, (Points, Boxes)):
                continue
            arrays = _Ragged.join(self._read_numbers(name, kind, rows, found, failed))
            view = None if geometry is None else geometry(owner.name)
            if view is not None:
                arrays = arrays.move(kind, view)
            values[name] = arrays.list()
            if isinstance(kind, Boxes):
                kept[name] = arrays.split(arrays.find_kept(view))
        for name, boxes in requested.per_box.items():
            if boxes not in kept:
                continue  # an ordinary column
            if name not in values:
                values[name] = self._read_per_box(name, rows, failed)
            values[name] = _keep(name, values[name], kept[boxes], failed)
        values |= {name: _keep(name, values[name], keep, failed) for name, keep in kept.items()}
        return {name: self._stack(name, value) for name, value in values.items()}

    def _stack(self, name: str, arrays: Values) -> Values:
        """Return points in one array if those of all samples of the dataset have one shape."""
        target, kind = self.columns.targets.get(name), self.columns.requested.kinds.get(name)
        if self.as_list or target is None or not target.is_uniform or not isinstance(kind, Points):
            return list(arrays)
        shapes = {array.shape for array in arrays if array.size}
        if len(shapes) != 1:
            return arrays
        shape = shapes.pop()
        return np.stack([a if a.shape == shape else np.zeros(shape, np.float32) for a in arrays])

    def _read_numbers(
        self,
        name: str,
        kind: Points | Boxes,
        rows: NDArray[np.int64],
        found: Mapping[str, Arena],
        failed: dict[int, str],
    ) -> list[NDArray[np.float32]]:
        """Return the points or boxes of each sample as they are stored; none for a sample that fails."""
        arrays = []
        for place, row in enumerate(rows.tolist()):
            try:
                value = (
                    self.columns.user[name][row].as_py()
                    if name not in found
                    else _decode_numbers(kind, found[name][place])
                )
                arrays.append(_read_coordinates(kind, value))
            except (DecodeError, ValueError, TypeError, OverflowError, RecursionError) as error:
                failed.setdefault(place, f"{name}: {error}")
                arrays.append(np.zeros((0, 4 if isinstance(kind, Boxes) else 2), np.float32))
        return arrays

    def _read_per_box(
        self, name: str, rows: NDArray[np.int64], failed: dict[int, str]
    ) -> list[Any]:
        column, values = self.columns.user[name], []
        for place, row in enumerate(rows.tolist()):
            try:
                values.append(_as_column(column[row].as_py(), column.type))
            except (TypeError, ValueError, OverflowError) as error:
                failed.setdefault(place, f"{name}: {error}")
                values.append([])
        return values


class _Ragged(NamedTuple):
    """Arrays [..., D] of different lengths as one array [P, D]."""

    flat: NDArray[np.float32]
    shapes: list[tuple[int, ...]]
    samples: NDArray[np.int64]

    @classmethod
    def join(cls, arrays: Sequence[NDArray[np.float32]]) -> _Ragged:
        flat = [array.reshape(-1, array.shape[-1]) for array in arrays]
        lengths = [len(array) for array in flat]
        samples = np.repeat(np.arange(len(arrays)), lengths)
        return cls(np.concatenate(flat), [array.shape for array in arrays], samples)

    def move(self, kind: Points | Boxes, geometry: Geometry) -> _Ragged:
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


def _describe_unlike(target: TargetColumns, owner: Picture, row: int, name: str) -> str:
    """Say why the target of a row cannot follow its image."""
    if target.ranges.size[row] == 0:
        return f"it has no {name}"
    if target.height[row] == 0:
        return f"{name}: it did not decode when it was indexed"
    (height, width), sizes = owner.sides, f"{target.width[row]} x {target.height[row]}"
    return f"{name}: it has {sizes} pixels, and its image {width[row]} x {height[row]}"


def _choose_dtype(kind: Mask, target: TargetColumns, wanted: str | None) -> Any:
    """Return the type of labels: the one asked for, or the smallest that holds all that such files can have."""
    if wanted is not None or kind.dtype is not None:
        return np.dtype(wanted or kind.dtype)
    if kind.rgb_ids:
        return np.dtype(np.int32)
    arrays = [np.dtype(n.split("-")[1]) for n in target.encodings if n.startswith("npy-")]
    small = [np.dtype(np.uint16 if target.is_deep else np.uint8)]
    found = np.result_type(*(arrays or small), *(small if target.is_deep else []))
    if found.name in ("uint8", "uint16", "int32", "int64"):
        return found
    return np.dtype(np.int32 if found.itemsize <= 2 else np.int64)


def _count_channels(name: str, target: TargetColumns) -> int | None:
    """Return how many channels maps have; None for one, which has no axis."""
    arrays = {n.rpartition("-")[2] for n in target.encodings if n.startswith("npy-")}
    counts = {int(count) for count in arrays} or {1}
    if len(counts) > 1:
        raise ValueError(f"{name!r}: maps of {sorted(counts)} channels do not make a batch")
    count = counts.pop()
    return None if count == 1 else count


def _decode_numbers(kind: Points | Boxes, data: memoryview) -> Any:
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


def _read_coordinates(kind: Points | Boxes, value: Any) -> NDArray[np.float32]:
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


def _as_column(value: Any, dtype: pa.DataType) -> Any:
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


def _keep(
    name: str, values: Any, kept: list[NDArray[np.bool_]], failed: dict[int, str]
) -> list[Any]:
    """Return the values of the boxes that are kept, of each sample; a sample with another number of values fails."""
    chosen = []
    for place, (value, keep) in enumerate(zip(values, kept, strict=True)):
        if len(value) != len(keep):
            failed.setdefault(place, f"{name}: {len(value)} values for {len(keep)} boxes")
            keep = np.zeros(len(value), np.bool_)
        chosen.append(
            value[keep]
            if isinstance(value, np.ndarray)
            else [item for item, wanted in zip(value, keep, strict=True) if wanted]
        )
    return chosen


def find_targets(
    columns: Columns, pictures: Sequence[Picture], fields: Sequence[str], **options: Any
) -> Targets:
    """Return the fields of a batch that follow an image.

    Raises:
        ValueError: The image that one of them belongs to is not among the fields.
    """
    owners = {}
    for name in fields:
        kind = columns.requested.kinds.get(name)
        if isinstance(kind, (Mask, Map, Points, Boxes)):
            owners[name] = _find_owner(columns, pictures, name, kind)
    return Targets(columns, owners, **options)


def _find_owner(
    columns: Columns, pictures: Sequence[Picture], name: str, kind: Mask | Map | Points | Boxes
) -> Picture:
    if not pictures:
        raise ValueError(f"{name!r} follows the geometry of its image: add 'image' to fields")
    if kind.of is None:
        return pictures[0]
    stored = columns.requested.fields
    for picture in pictures:
        place = stored.get(picture.name, picture.name)
        if kind.of in (picture.name, place, place.rpartition(".")[0]):
            return picture
    raise ValueError(f"{name!r} belongs to {kind.of!r}: add {kind.of!r} to fields, or give kinds")
