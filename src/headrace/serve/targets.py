"""Fields that follow the geometry of an image: masks, maps, points and boxes, and the columns of boxes.

In: their bytes or columns, and the draws of their image. Out: a value for each sample, or why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.kinds import Boxes, Map, Mask, Points
from headrace.read.columns import Columns
from headrace.read.field_columns import TargetColumns
from headrace.render import Arena
from headrace.render.labels import LabelRequest
from headrace.render.maps import MapRequest
from headrace.serve.coordinates import (
    Geometry,
    Ragged,
    decode_numbers,
    read_coordinates,
    read_per_box,
)
from headrace.serve.pictures import Picture
from headrace.serve.step_bytes import StepBytes

Values = NDArray[Any] | list[Any]


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
            arrays = Ragged.join(self._read_numbers(name, kind, rows, found, failed))
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
                    else decode_numbers(kind, found[name][place])
                )
                arrays.append(read_coordinates(kind, value))
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
                values.append(read_per_box(column[row].as_py(), column.type))
            except (TypeError, ValueError, OverflowError) as error:
                failed.setdefault(place, f"{name}: {error}")
                values.append([])
        return values


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
