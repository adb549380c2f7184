"""Fields of an item: the elements of a list or tuple, or the values of a dict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.flow.stage import At, Items, Opener, Stage, opened
from headrace.work.call_task import name_of

Field: TypeAlias = "int | str"


def rebuild(item: Any, values: list[Any]) -> Any:
    """Return a list or tuple of the same type as `item`, named tuples included, holding `values`."""
    if hasattr(item, "_fields"):
        return type(item)(*values)
    return tuple(values) if isinstance(item, tuple) else values


def replace_field(item: Any, field: Field, value: Any) -> Any:
    """Return a shallow copy of `item` with one field replaced."""
    if isinstance(item, dict):
        if field not in item:
            raise KeyError(f"no field {field!r}; the item has {', '.join(map(repr, item))}")
        return {**item, field: value}
    if isinstance(item, (list, tuple)) and not isinstance(field, str):
        values = list(item)
        values[field] = value
        return rebuild(item, values)
    raise TypeError(f"a {type(item).__name__} has no field {field!r}: items must be lists or dicts")


@dataclass(frozen=True)
class FieldFunction:
    """Apply `fn` to one field of an item. A class, so that it can be pickled for spawned processes."""

    fn: Callable[[Any], Any]
    field: Field

    def __call__(self, item: Any) -> Any:
        return replace_field(item, self.field, self.fn(item[self.field]))

    @property
    def __name__(self) -> str:
        return f"{name_of(self.fn)} on {self.field!r}"


@dataclass(frozen=True)
class Select(Stage):
    """The given fields in the given order: a tuple for sequences, a dict for dicts."""

    fields: tuple[Field, ...]
    seeks = True

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with opened(inputs[0], at) as items:
            for item in items:
                if isinstance(item, dict):
                    yield {field: item[field] for field in self.fields}
                else:
                    yield tuple(item[field] for field in self.fields)

    @property
    def name(self) -> str:
        return f"select({', '.join(map(repr, self.fields))})"
