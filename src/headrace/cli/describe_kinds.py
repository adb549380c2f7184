"""Describes the kinds of fields and columns, for `headrace info`, `index` and `pack`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.store.field_kinds import FoundKinds, write_kinds
from headrace.store.keys import printable

_PLAIN = {"kind": "image"}


def list_kinds(kinds: FoundKinds) -> dict[str, Any]:
    """Return the kinds of the fields and columns that have one, for JSON."""
    return write_kinds({name: kind for name, kind in kinds.items() if kind is not None})


def format_fields(
    fields: Sequence[str], kinds: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Return rows with a field and its kind each; one row with all fields if their suffixes say it all."""
    if all(kinds.get(name, _PLAIN) == _PLAIN for name in fields):
        return [("fields", ", ".join(fields))]
    wide = max(map(len, fields))
    lines = [f"{name:{wide}}  {_format_kind(kinds.get(name))}".rstrip() for name in fields]
    return [("" if k else "fields", line) for k, line in enumerate(lines)]


def format_column(kinds: Mapping[str, Mapping[str, Any]], name: str) -> str:
    """Return what is added to the type of a column: `, boxes with labels`, or nothing."""
    return f", {_format_kind(kinds[name])}" if name in kinds else ""


def _format_kind(kind: Mapping[str, Any] | None) -> str:
    """Return a kind with its options in words: `points of d1`, `boxes with labels`, `map, scale x`."""
    if kind is None:
        return ""
    options = dict(kind)
    words = [options.pop("kind")]
    if "of" in options:
        words += ["of", printable(options.pop("of"))]
    if columns := options.pop("columns", ()):
        words += ["with", ", ".join(map(printable, columns))]
    return ", ".join([" ".join(words), *(f"{name} {value}" for name, value in options.items())])
