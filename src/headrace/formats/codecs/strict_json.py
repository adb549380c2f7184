"""JSON in which a name that comes twice in an object is an error: Python would keep the last in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from headrace.store.keys import printable


def parse_json(text: str | bytes, parse_int: Callable[[str], int] = int) -> Any:
    """Parse a text. Raise ValueError or RecursionError if it is not such JSON."""
    return json.loads(text, object_pairs_hook=_make_dict, parse_int=parse_int)


def _make_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"{printable(name)} is there twice")
        result[name] = value
    return result
