"""Batch items and split batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from headrace.flow.item_fields import Field, rebuild
from headrace.flow.stage import At, Items, Length, Opener, Stage, opened

Stack: TypeAlias = "bool | Callable[[list[Any]], Any]"
_STACKED = (np.ndarray, np.generic, bool, int, float, complex)
_TEXT = (str, bytes)  # NumPy's are among its scalars


@dataclass(frozen=True)
class Batch(Stage):
    """Batches of `size` consecutive items; a shorter last one is dropped unless `remainder`."""

    size: int
    remainder: bool
    stack: Stack
    seeks = True

    def __post_init__(self) -> None:
        _check_stack(self.stack)

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with opened(inputs[0], at.move(at.start * self.size)) as items:
            number = 0
            while group := list(islice(items, self.size)):
                if len(group) < self.size and not self.remainder:
                    return
                if number % at.step == 0:
                    yield collate(group, self.stack)
                number += 1

    def length(self, lengths: tuple[Length, ...]) -> Length:
        (length,) = lengths
        if length is None or length == math.inf:
            return length
        return math.ceil(length / self.size) if self.remainder else int(length // self.size)

    @property
    def name(self) -> str:
        return f"batch({self.size}, remainder={self.remainder})"

    @property
    def exactness(self) -> str:
        return "each once" if self.remainder else f"each once, up to {self.size - 1} dropped at end"


@dataclass(frozen=True)
class BatchByShape(Stage):
    """Batches of items whose `field` has one shape, each yielded as soon as it is full."""

    size: int
    field: Field | None
    remainder: bool
    stack: Stack
    order = "kept within a shape"

    def __post_init__(self) -> None:
        _check_stack(self.stack)

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        groups: dict[tuple[int, ...], list[Any]] = {}
        with opened(inputs[0], at) as items:
            for item in items:
                shape = np.shape(item if self.field is None else item[self.field])
                group = groups.setdefault(shape, [])
                group.append(item)
                if len(group) == self.size:
                    yield collate(groups.pop(shape), self.stack)
        if self.remainder:
            for group in groups.values():
                yield collate(group, self.stack)

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None

    @property
    def name(self) -> str:
        return f"batch_by_shape({self.size}, remainder={self.remainder})"

    @property
    def exactness(self) -> str:
        return "each once" if self.remainder else "each once, unfilled shapes dropped"


@dataclass(frozen=True)
class Unbatch(Stage):
    """The items of each batch, one by one; the inverse of `batch`."""

    name = "unbatch()"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with opened(inputs[0], at) as batches:
            for batch in batches:
                yield from split_batch(batch)

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return 0 if lengths[0] == 0 else None


def _check_stack(stack: Stack) -> None:
    if not (isinstance(stack, bool) or callable(stack)):
        raise TypeError(
            f"stack must be True, False or a function of a field's values, not {stack!r}"
        )


class ItemList(list[Any]):
    """A batch of unstacked arrays: a list of items, where other batches are lists of columns."""


def collate(items: list[Any], stack: Stack) -> Any:
    """Return one batch of `items`: field by field for lists, tuples and dicts of one structure.

    Arrays and numbers are stacked along a new first axis, each field keeping its dtype; strings,
    bytes and other objects stay lists. `stack=False` leaves every field a list; a function is
    given the values of each field and returns what stands for them.
    """
    first = items[0]
    _check_alike(items)
    if isinstance(first, dict):
        for item in items:
            if item.keys() != first.keys():
                raise ValueError(
                    f"items of one batch have different fields: {sorted(first, key=str)} and {sorted(item, key=str)}"
                )
        return {key: _collate_field([item[key] for item in items], key, stack) for key in first}
    if isinstance(first, (list, tuple)):
        if any(len(item) != len(first) for item in items):
            counts = sorted({len(item) for item in items})
            raise ValueError(f"items of one batch have different numbers of fields: {counts}")
        columns = enumerate(zip(*items))
        return rebuild(first, [_collate_field(list(c), i, stack) for i, c in columns])
    batch = _collate_field(items, None, stack)
    return ItemList(items) if batch is items and _is_column(first) else batch


def _check_alike(items: list[Any]) -> None:
    """Raise ValueError if a batch mixes items with named fields, numbered fields and none."""
    kinds = [(isinstance(item, dict), isinstance(item, (list, tuple))) for item in items]
    odd = next((number for number, kind in enumerate(kinds) if kind != kinds[0]), None)
    if odd is not None:
        first, other = (type(item).__name__ for item in (items[0], items[odd]))
        raise ValueError(
            f"items of one batch have different structures: item 0 is of type {first}, item {odd} "
            f"of type {other}"
        )


def _collate_field(values: list[Any], field: object, stack: Stack) -> Any:
    if stack is False:
        return values
    if callable(stack):
        return stack(values)
    return stack_values(values, field)


def stack_values(values: list[Any], field: object = None) -> Any:
    """Return arrays and numbers as one array, anything else as the list itself."""
    if type(values[0]).__module__ == "torch":
        return _stack_tensors(values)
    if not all(isinstance(value, _STACKED) and not isinstance(value, _TEXT) for value in values):
        return values  # of text and numbers NumPy would make text, of others objects
    shapes = {np.shape(value) for value in values}
    if len(shapes) > 1:
        shown = ", ".join(map(str, sorted(shapes)[:4]))
        where = "" if field is None else f" of field {field!r}"
        raise ValueError(
            f"cannot stack the shapes{where} in one batch: {shown}. Resize the arrays first, keep "
            "them apart with stack=False, or use batch_by_shape"
        )
    return _stack_numbers(values)


def _stack_numbers(values: list[Any]) -> Any:
    """Return one array of values of one shape; the list itself for integers without a common dtype."""
    masked = any(isinstance(value, np.ma.MaskedArray) for value in values)
    stack: Any = np.stack if isinstance(values[0], np.ndarray) else np.array
    stack = np.ma.stack if masked else stack
    stacked = stack(values)
    if stacked.dtype.kind not in "fO" or not all(map(_is_integer, values)):
        return stacked
    # intentional: NumPy makes float64 of int64 and uint64 together, which rounds ids and hashes
    if stacked.dtype.kind == "O" or any(np.any(np.less(value, 0)) for value in values):
        return values
    return stack([np.asanyarray(value).astype(np.uint64) for value in values])


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) or getattr(value, "dtype", np.dtype(float)).kind in "biu"


def _stack_tensors(values: list[Any]) -> Any:
    import torch  # here already, or the values would not be tensors

    return torch.stack(values) if all(isinstance(v, torch.Tensor) for v in values) else values


def split_batch(batch: Any) -> Sequence[Any]:
    """Return the items of one batch, as views of its arrays where it has arrays."""
    if isinstance(batch, dict):
        keys = list(batch)
        return [dict(zip(keys, values)) for values in _split_columns(list(batch.values()))]
    if isinstance(batch, ItemList):
        return list(batch)
    if isinstance(batch, (list, tuple)) and batch and _is_column(batch[0]):
        return [rebuild(batch, list(values)) for values in _split_columns(batch)]
    if isinstance(batch, (list, tuple, np.ndarray)) or hasattr(batch, "unbind"):
        return list(batch)
    raise TypeError(f"unbatch needs batches of lists, dicts or arrays, not {type(batch).__name__}")


def _split_columns(columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"unbatch needs batches with fields of one length, not {lengths}")
    return zip(*columns)


def _is_column(value: object) -> bool:
    return isinstance(value, (np.ndarray, list)) or hasattr(value, "unbind")
