"""Items in an LMDB of tensorpack's layout: written by either, read by either.

Keys are '{:08}' from 0, values are pickles, and `__keys__` lists the keys. Reading allows only
what such values are made of (see `safe_pickle`): a file from elsewhere cannot run code.
"""

from __future__ import annotations

import os
import pickle
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import MissingExtraError, SourceError

KEYS = b"__keys__"
MAP_SIZE = 1 << 40  # address space, not disk: the file grows with what is written
COMMIT_EVERY = 5000
_open: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()


class LmdbRecords(Sequence[Any]):
    """[key, value] of an LMDB as bytes, in the order of its keys."""

    def __init__(self, path: str, keys: list[bytes] | None = None) -> None:
        self.path = os.path.abspath(path)
        self._environment: Any = None
        if keys is None:
            with self._begin() as transaction:
                keys = _read_keys(transaction, self.path)
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: Any) -> Any:
        key = self._keys[index]
        with self._begin() as transaction:
            value = transaction.get(key)
            if value is None:
                raise SourceError(f"{self.path}: {KEYS!r} lists {key!r}, which is not there")
            return self._decode(key, value)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_environment": None}

    def _decode(self, key: bytes, value: memoryview) -> Any:
        return [key, bytes(value)]

    def _begin(self) -> Any:
        if self._environment is None:
            self._environment = open_environment(self.path)
        return self._environment.begin(buffers=True)


class LmdbItems(LmdbRecords):
    """The items of an LMDB, in the order in which they were written."""

    def _decode(self, key: bytes, value: memoryview) -> Any:
        try:
            return _make_writable(_load(value))
        except ValueError as error:
            raise SourceError(f"{self.path}: the value of {key!r}: {error}") from error


def _make_writable(value: Any) -> Any:
    """The value with arrays that may be changed in place, as those of pickle are."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple):
        return type(value)(_make_writable(item) for item in value)
    if isinstance(value, dict):
        return {key: _make_writable(item) for key, item in value.items()}
    return value


def open_environment(path: str) -> Any:
    """The LMDB at `path`, a file or a directory, for reading; one per process and file.

    Read-only and without locks there is nothing in an environment that a fork could spoil.
    """
    if not os.path.exists(path):
        raise SourceError(f"no LMDB at {path}")
    status = os.stat(path)
    identity = (status.st_dev, status.st_ino)
    environment = _open.get(identity)  # lmdb refuses to open a file twice in one process
    if environment is None:
        environment = _open[identity] = _open_new(path)
    return environment


def _open_new(path: str) -> Any:
    lmdb = _import_lmdb()
    options = {"readonly": True, "lock": False, "readahead": True, "max_readers": 1}
    try:
        return lmdb.open(path, subdir=os.path.isdir(path), **options)
    except lmdb.Error as error:
        raise SourceError(f"{path} cannot be opened as an LMDB: {error}") from error


def save_lmdb(items: Iterable[Any], path: str) -> int:
    """Write `items` to a new file at `path`, which appears only when it is complete."""
    lmdb = _import_lmdb()
    target = Path(path)
    if target.exists():
        raise SourceError(f"{path} exists: remove it first, or save under another name")
    partial = target.with_name(target.name + ".partial")
    partial.unlink(missing_ok=True)
    options = {"subdir": False, "map_size": MAP_SIZE, "meminit": False, "lock": False}
    try:
        with lmdb.open(str(partial), **options) as environment:
            count = _write(environment, items)
            environment.sync(True)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _write(environment: Any, items: Iterable[Any]) -> int:
    keys: list[bytes] = []
    transaction = environment.begin(write=True)
    try:
        for number, item in enumerate(items):
            keys.append(b"%08d" % number)
            transaction.put(keys[-1], pickle.dumps(item, 5))
            if len(keys) % COMMIT_EVERY == 0:
                transaction.commit()
                transaction = environment.begin(write=True)
        transaction.put(KEYS, pickle.dumps(keys, 5))
        transaction.commit()
    except BaseException:
        transaction.abort()
        raise
    return len(keys)


def _read_keys(transaction: Any, path: str) -> list[bytes]:
    listed = transaction.get(KEYS)
    if listed is None:
        return [bytes(key) for key in transaction.cursor().iternext(values=False)]
    try:
        keys = _load(listed)
    except ValueError as error:
        raise SourceError(f"{path}: the value of {KEYS!r}: {error}") from error
    if not isinstance(keys, list) or not all(isinstance(key, bytes) for key in keys):
        raise SourceError(f"{path}: {KEYS!r} is not a list of keys")
    return keys


def _load(value: memoryview) -> Any:
    # Imported here, so that `import penstock` does not load the formats.
    from penstock.formats.safe_pickle import load_pickle

    return load_pickle(value)


def _import_lmdb() -> Any:
    try:
        import lmdb
    except ImportError as error:
        raise MissingExtraError("lmdb", "lmdb") from error
    return lmdb
