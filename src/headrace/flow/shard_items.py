"""Items in a packed dataset, saved in ordinary shards and read back unchanged.

Byte strings and arrays become files: an encoded image `jpg`, `png`, ..., also where it is a 1-D
uint8 array; other bytes `bin`; other arrays `npy`. Where there are several, each has its path
before its suffix (`mask.png`, `0.jpg`). The field `item.json` is the tree of the item (see
`item_codec`), in which the nodes of bytes and arrays name their field. An integer becomes the label
where tensorpack's readers expect one: `label` of a dict, the second or else the last element of a
list. A `Sample` is packed as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import CorruptError, PackError, SourceError
from headrace.flow.item_codec import Leaf, put_together, take_apart
from headrace.formats.codecs.arrays import decode_npy
from headrace.formats.codecs.datapoint import encode_component, join_field, parse_label
from headrace.pack.pack_stream import pack_samples
from headrace.read.dataset import Dataset, open_indexed
from headrace.sample import Sample

ITEM = "item.json"
_TAKEN = frozenset({ITEM, "cls", "json"})


class ShardItems(Sequence[Any]):
    """The items of a packed dataset in its order; a sample that stores no item is a `Sample`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._dataset: Dataset = open_indexed(path)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        sample = self._dataset[int(index)]
        return make_item(sample) if ITEM in sample.fields else sample


def save_shards(
    items: Iterable[Any],
    path: str | os.PathLike[str],
    shard_size: int,
    classes: Sequence[str] | None,
) -> int:
    """Pack items into a new dataset, which appears when it is complete; return their number."""
    samples = (make_sample(position, item) for position, item in enumerate(items))
    return pack_samples(samples, Path(path), shard_size, classes)


def make_sample(position: int, item: Any) -> Sample:
    """Return the sample that stores an item. PackError names what cannot be saved."""
    if isinstance(item, Sample):
        return item
    try:
        tree, leaves = take_apart(item)
        fields = _name_fields(leaves)
        content = json.dumps(tree, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise PackError(f"item {position} cannot be saved: {error}") from error
    return Sample(f"{position:08d}", {**fields, ITEM: content.encode()}, _find_label(item))


def _name_fields(leaves: list[Leaf]) -> dict[str, bytes]:
    fields: dict[str, bytes] = {}
    for number, leaf in enumerate(leaves):
        kind, data = encode_component(_check_leaf(leaf))
        name = kind if len(leaves) == 1 else join_field(leaf.path, kind)
        while name in fields or name in _TAKEN:  # of `a` and `A`, and of names that are not ASCII
            name = f"{number}.{name}"
        fields[name] = data
        leaf.node.append(name)
    return fields


def _check_leaf(leaf: Leaf) -> Any:
    value = leaf.value
    if not isinstance(value, np.ndarray):
        return bytes(value)
    if value.dtype.kind not in "biufcSUmM":
        raise TypeError(
            f"its field {leaf.path!r} has the dtype {value.dtype}: arrays of numbers, text and times "
            "can be saved"
        )
    return value


def _find_label(item: Any) -> int | None:
    values = [item.get("label")] if isinstance(item, dict) else []
    if isinstance(item, (list, tuple)) and len(item) > 1:
        values = [item[1], item[-1]]
    for value in values:
        if type(value) is int or isinstance(value, np.integer):
            with suppress(SourceError):  # beyond 64 bits: it stays in the item
                return parse_label(value)
    return None


def make_item(sample: Sample) -> Any:
    """Return the item that a sample stores, with arrays of its own. CorruptError if it stores none."""

    def find(kind: str, name: str) -> Any:
        if kind != "a":
            return sample[name]
        if name.endswith("npy"):
            return decode_npy(sample[name])
        return np.frombuffer(sample[name], np.uint8).copy()

    try:
        return put_together(json.loads(sample[ITEM]), find)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"sample {sample.key!r}: {ITEM}: {error}") from error
