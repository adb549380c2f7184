"""Items on disk, in one of two layouts: tensorpack's LMDB, or a packed dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headrace.flow.lmdb_items import LmdbItems, save_lmdb
from headrace.flow.shard_items import ShardItems, save_shards
from headrace.formats.layouts.lmdb import DATA_FILE
from headrace.store.manifest import MANIFEST

StrPath = str | os.PathLike[str]


def open_items(path: StrPath) -> Sequence[Any]:
    """Return the items that `save_items` or tensorpack wrote."""
    packed = Path(path).name == MANIFEST or (
        os.path.isdir(path) and not os.path.exists(os.path.join(path, DATA_FILE))
    )
    return ShardItems(path) if packed else LmdbItems(path)


def save_items(
    items: Iterable[Any], path: StrPath, shard_size: int, classes: Sequence[str] | None
) -> int:
    """Write the items to `x.lmdb`, or to any other path as a dataset; return their number."""
    if os.fspath(path).endswith(".lmdb"):
        return save_lmdb(items, os.fspath(path))
    return save_shards(items, path, shard_size, classes)
