"""The kinds of a dataset's fields and columns: joined from those of its samples, written as JSON, read and checked.

None stands for a field whose samples do not agree, or whose values are of no kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.errors import CorruptError
from headrace.kinds import Boxes, Kind, read_kind, write_kind

FoundKinds = Mapping[str, Kind | None]

_TYPES: dict[str, tuple[type, ...]] = {
    "columns": (list,),
    "divisor": (int, float),
    "fill": (int, float),
    "of": (str,),
    "rgb_ids": (bool,),
}
"""Types of the options of kinds as JSON has them. The kinds check the others themselves."""


def join_kinds(known: dict[str, Kind | None], found: FoundKinds) -> None:
    """Add what one sample, or one shard, says about fields to what the others said.

    The order does not matter, except for the order of the columns of boxes.
    """
    for name, kind in found.items():
        known[name] = _join(known[name], kind) if name in known else kind


def _join(first: Kind | None, second: Kind | None) -> Kind | None:
    """Return the kind that both say. Boxes keep the columns that both have."""
    if isinstance(first, Boxes) and isinstance(second, Boxes):
        columns = tuple(name for name in first.columns if name in second.columns)
        first, second = replace(first, columns=columns), replace(second, columns=columns)
    return first if first == second else None


def write_kinds(kinds: FoundKinds) -> dict[str, Any]:
    """Return the kinds as JSON has them, in the order of their names."""
    return {
        name: None if kind is None else write_kind(kind) for name, kind in sorted(kinds.items())
    }


def read_kinds(content: object, *, optional: bool = False) -> dict[str, Any]:
    """Return the kinds that `write_kinds` wrote.

    Args:
        content: The JSON.
        optional: Whether a kind may be None.

    Raises:
        CorruptError: It is something else.
    """
    if not isinstance(content, dict):
        raise CorruptError(f"field_kinds is {type(content).__name__}, not dict")
    return {
        name: None if optional and entry is None else _read_entry(name, entry)
        for name, entry in content.items()
    }


def _read_entry(name: str, entry: object) -> Kind:
    place = f"the kind of {name[:80]!r}"
    if not isinstance(entry, dict):
        raise CorruptError(f"{place} is {type(entry).__name__}, not dict")
    for option, value in entry.items():
        fits = type(value) in _TYPES.get(option, (type(value),))
        if not fits or (isinstance(value, list) and not all(isinstance(v, str) for v in value)):
            raise CorruptError(f"{place} has the {option[:40]} {value!r:.60}")
    try:
        return read_kind(entry)
    except (TypeError, ValueError) as error:
        raise CorruptError(f"{place}: {error!s:.200}") from None
