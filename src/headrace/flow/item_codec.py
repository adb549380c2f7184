"""Items as a tree that JSON can hold, plus their arrays and byte strings one by one.

An item is made of lists, tuples and dicts of NumPy arrays and scalars, numbers, text, bytes and
None, and is rebuilt with the same types; anything else is an error that names the field. A tree
from a stranger is checked and never executed.

A node is null, true, a finite number or text, or a list that begins with its kind:
  "l", "t", "d"          list and tuple of nodes, dict of [key, value] pairs of nodes
  "f", text              the float nan, inf or -inf
  "s", dtype, hex        a NumPy scalar
  "b", "y", "a", ...     a leaf: bytes, bytearray, array; then what its storage needs to find it
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import SourceError
from headrace.flow.batching import ItemList
from headrace.formats.codecs.arrays import build_scalar, parse_dtype

_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LEAVES = {bytes: "b", bytearray: "y", np.ndarray: "a", np.memmap: "a"}


class Leaf(NamedTuple):
    """An array or byte string, its path (names and numbers joined by dots), and its node in the
    tree, to which its storage appends where the value is stored."""

    path: str
    value: Any
    node: list[Any]


def take_apart(item: Any) -> tuple[Any, list[Leaf]]:
    """Return (tree, leaves) of an item without copying. TypeError names a field that cannot be stored."""
    leaves: list[Leaf] = []
    try:
        return _take(item, (), leaves), leaves
    except RecursionError:
        raise TypeError("it is nested too deep, or holds itself") from None


def _take(value: Any, path: tuple[Any, ...], leaves: list[Leaf]) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else ["f", str(value)]
    if kind in _LEAVES:
        leaves.append(Leaf(".".join(map(str, path)), value, [_LEAVES[kind]]))
        return leaves[-1].node
    if kind in (list, tuple, ItemList):
        nodes = (_take(entry, (*path, i), leaves) for i, entry in enumerate(value))
        return ["t" if kind is tuple else "l", *nodes]
    if kind is dict:
        pairs = (((*path, k), k, v) for k, v in value.items())
        return ["d", *([_take(k, at, leaves), _take(v, at, leaves)] for at, k, v in pairs)]
    if isinstance(value, np.generic) and value.dtype.kind in "biufcSU":
        return ["s", value.dtype.str, value.tobytes().hex()]
    where = f"its field {'.'.join(map(str, path))!r} is" if path else "it is"
    raise TypeError(
        f"{where} of type {kind.__qualname__}: items are made of plain lists, tuples, dicts, NumPy "
        "arrays, numbers, text and bytes"
    )


def put_together(tree: Any, find: Callable[..., Any]) -> Any:
    """Return the item of a tree; `find` turns the content of a leaf's node into its value.

    ValueError if it is no tree or `find` does not give bytes and arrays where they belong.
    """
    try:
        return _put(tree, find)
    except (TypeError, LookupError, RecursionError, SourceError) as error:
        raise ValueError(f"not an item: {type(error).__name__}: {error}") from error


def _put(node: Any, find: Callable[..., Any]) -> Any:
    if not isinstance(node, list):
        return node
    kind, *rest = node
    if kind in ("l", "t"):
        entries = [_put(entry, find) for entry in rest]
        return entries if kind == "l" else tuple(entries)
    if kind == "d":
        return {_put(key, find): _put(value, find) for key, value in rest}
    if kind == "f":
        return _FLOATS[rest[0]]
    if kind == "s":
        return build_scalar(parse_dtype(rest[0]), bytes.fromhex(rest[1]))
    if kind == "a":
        return find(kind, *rest)
    if kind in ("b", "y"):
        return (bytes if kind == "b" else bytearray)(find(kind, *rest))
    raise ValueError(f"not an item: a node of kind {kind!r:.20}")
