"""Which fields and columns of a dataset a loader means by the names of its fields, and of which kind they are.

A field with its suffix (`mask.png`) is its bytes. Without the suffix (`mask`, `d1.label`) it is what its kind says;
and the name of a kind (`mask`, `points`, `boxes`) is the only field or column of that kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from headrace.kinds import NAMES, Boxes, Image, Kind, Points, Text
from headrace.read.dataset import Dataset
from headrace.store.index_schema import field_names

Kinds = Mapping[str, Kind | None]
"""Kinds by the names of fields; None means that a field is passed on as it is stored."""


@dataclass(frozen=True)
class Requested:
    """What a loader wants of one dataset, by the names that its batches use.

    Args:
        fields: The field of each name that means one.
        columns: The column of each name that means one.
        kinds: The kind of each name that is decoded; all others are passed on as they are stored.
        per_box: The boxes that each name belongs to which means a column with a value per box.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    per_box: Mapping[str, str] = field(default_factory=dict)

    @property
    def images(self) -> list[str]:
        """The names that are images."""
        return [name for name, kind in self.kinds.items() if isinstance(kind, Image)]


def find_requested(
    dataset: Dataset, schema: pa.Schema, names: Sequence[str], kinds: Kinds
) -> Requested:
    """Find the fields and columns that names mean in a dataset.

    Args:
        dataset: The dataset.
        schema: Schema of its index.
        names: Names of fields, columns or kinds.
        kinds: Kinds to use instead of those in the manifest.

    Raises:
        ValueError: The dataset has none for a name, or several.
    """
    stored, columns = field_names(schema), schema.names
    known = {
        name: kind for name, kind in dataset.field_kinds.items() if name in (*stored, *columns)
    }
    fields: dict[str, str] = {}
    chosen: dict[str, str] = {}
    decoded: dict[str, Kind] = {}
    missing = []
    for name in names:
        place = _find_place(name, stored, columns, {**known, **_find_given(kinds, name)})
        if place is None:
            missing.append(name)
            continue
        (fields if place in stored else chosen)[name] = place
        kind = kinds[name] if name in kinds else _find_kind(name, place, stored, known)
        if kind is not None:
            _check_stored(name, place, kind, is_field=place in stored)
            decoded[name] = _complete(kind, known.get(place))
    if missing:
        raise ValueError(
            f"{dataset.origin} has no {sorted(missing)}: it has the fields {list(dataset.fields)} "
            f"and the columns {columns}"
        )
    return Requested(fields, chosen, decoded, _find_owners(known, decoded, chosen))


def _check_stored(name: str, place: str, kind: Kind, *, is_field: bool) -> None:
    """Raise ValueError if a column is to be decoded as if it were a file."""
    if not is_field and not isinstance(kind, (Points, Boxes)):
        raise ValueError(
            f"kinds: {name!r} is the column {place!r}, which cannot be {NAMES[type(kind)]}; only points and boxes may be "
            "in a column"
        )


def _complete(kind: Kind, known: Kind | None) -> Kind:
    """Return a kind with what the manifest knows of it: the columns of boxes."""
    if isinstance(kind, Boxes) and isinstance(known, Boxes) and not kind.columns:
        return replace(kind, columns=known.columns)
    return kind


def _find_given(kinds: Kinds, name: str) -> dict[str, Kind]:
    """Return the kind that was given for a name, which may be a field without its suffix."""
    kind = kinds.get(name)
    return {} if kind is None else {name: kind}


def _find_place(
    name: str, stored: Sequence[str], columns: Sequence[str], known: Mapping[str, Kind]
) -> str | None:
    """Return the field or column that a name means; None if there is none."""
    if name in stored or name in columns:
        return name
    stems = [place for place in stored if place.rpartition(".")[0] == name]
    found = stems if name in known else [place for place in stems if place in known]
    if not found:
        found = [place for place, kind in known.items() if NAMES[type(kind)] == name]
    if len(found) > 1:
        raise ValueError(f"{name!r} may be any of {', '.join(found)}: name one of them")
    return found[0] if found else None


def _find_kind(
    name: str, place: str, stored: Sequence[str], known: Mapping[str, Kind]
) -> Kind | None:
    """Return how a name is decoded: a field that is named with its suffix only if it is text."""
    kind = known.get(place)
    if name in stored and not isinstance(kind, Text):
        return None
    return kind


def _find_owners(
    known: Mapping[str, Kind], decoded: Mapping[str, Kind], columns: Mapping[str, str]
) -> dict[str, str]:
    """Return the boxes that columns with a value per box belong to: the requested ones, if they have any."""
    owners: dict[str, str] = {}
    for boxes, kind in {**known, **decoded}.items():
        if isinstance(kind, Boxes):
            owners |= {name: boxes for name, column in columns.items() if column in kind.columns}
    return owners
