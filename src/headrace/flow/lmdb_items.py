"""Items in an LMDB of tensorpack's layout: written by either, read by either.

Keys are '{:08}' from 0, values are pickles that any NumPy reads, and `__keys__` lists the keys. Reading
accepts plain data only (see `formats.layouts.lmdb`): a file from elsewhere cannot run code, and a
damaged one is a SourceError, since liblmdb is not involved. Writing refuses what reading would, and
needs the extra `lmdb`.
"""

from __future__ import annotations

import os
import pickle
import pickletools
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import PackError, SourceError
from headrace.flow.batching import ItemList
from headrace.formats.layouts.lmdb import decode_value, open_database
from headrace.pack.export.to_lmdb import KEYS, write_values
from headrace.store.durable import new_place

_NEW_NAME, _OLD_NAME = b"cnumpy._core.", b"cnumpy.core."  # as protocol 3 begins a global


class LmdbRecords(Sequence[Any]):
    """[key, value] of an LMDB as bytes, in the order of `__keys__`, or else of the database."""

    def __init__(self, path: str | os.PathLike[str], keys: Sequence[bytes] | None = None) -> None:
        self._database = open_database(path)
        self.path = self._database.path
        listed = self._read_listed() if keys is None else keys
        self._keys = self._database.keys if listed == self._database.keys else listed

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: Any) -> Any:
        key = self._keys[index]
        place = bisect_left(self._database.keys, key)  # LMDB keeps its keys sorted
        if self._database.keys[place : place + 1] != [key]:
            raise SourceError(f"{self.path}: has no key {key!r}, which is listed")
        return self._decode(key, self._database.read(self._database.entry(place)))

    def _decode(self, key: bytes, value: bytes) -> Any:
        return [key, value]

    def _read_listed(self) -> Sequence[bytes]:
        entry = self._database.contents.get(KEYS)
        if entry is None:
            return self._database.keys
        keys = self._load(KEYS, self._database.read(entry))
        if not isinstance(keys, list) or not all(isinstance(key, bytes) for key in keys):
            raise SourceError(f"{self.path}: {KEYS!r} is not a list of keys")
        return keys

    def _load(self, key: bytes, value: bytes) -> Any:
        try:
            return decode_value(value)
        except SourceError as error:
            raise SourceError(f"{self.path}: the value of {key!r}: {error}") from error


class LmdbItems(LmdbRecords):
    """The items of an LMDB, in the order in which they were written."""

    def _decode(self, key: bytes, value: bytes) -> Any:
        return make_writable(self._load(key, value))


def make_writable(value: Any) -> Any:
    """Return the value with arrays that can be changed in place, as unpickled ones can."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple):
        return type(value)(make_writable(item) for item in value)
    if isinstance(value, dict):
        return {key: make_writable(item) for key, item in value.items()}
    return value


def save_lmdb(items: Iterable[Any], path: str) -> int:
    """Write `items` to a new file at `path`, which appears only when it is complete."""
    values = (_encode(number, item) for number, item in enumerate(items))
    with new_place(Path(path)) as place:
        return write_values(values, place)


def _encode(number: int, item: Any) -> bytes:
    """Return the pickle of an item. PackError if it holds more than plain data, which reading refuses."""
    try:
        value = pickle.dumps(list(item) if type(item) is ItemList else item, 3)
        decode_value(value)
    except (SourceError, pickle.PicklingError, TypeError, AttributeError, OverflowError) as error:
        raise PackError(f"item {number} cannot be saved in an LMDB: {error}") from error
    return _use_old_names(value)


def _use_old_names(value: bytes) -> bytes:
    """Return the pickle with NumPy 1's module names, which NumPy 2 accepts too."""
    if _NEW_NAME not in value:
        return value
    parts, done = [], 0
    for opcode, _, at in pickletools.genops(value):
        assert at is not None  # known of bytes
        if opcode.code == "c" and value.startswith(_NEW_NAME, at):
            parts += [value[done:at], _OLD_NAME]
            done = at + len(_NEW_NAME)
    return b"".join([*parts, value[done:]])
