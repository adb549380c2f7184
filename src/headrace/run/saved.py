"""Items on disk, in one of two layouts: an LMDB of tensorpack's, or a packed dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headrace.formats.lmdb import DATA_FILE
from headrace.pack.manifest import NAME as MANIFEST
from headrace.run.lmdb import LmdbItems, save_lmdb
from headrace.run.shards import ShardItems, save_shards

StrPath = str | os.PathLike[str]


def open_items(path: StrPath) -> Sequence[Any]:
    """The items that `save_items` or tensorpack wrote."""
    packed = Path(path).name == MANIFEST or (
        os.path.isdir(path) and not os.path.exists(os.path.join(path, DATA_FILE))
    )
    return ShardItems(path) if packed else LmdbItems(path)


def save_items(
    items: Iterable[Any], path: StrPath, shard_size: int, classes: Sequence[str] | None
) -> int:
    """Writes them to `x.lmdb`, or to any other path as a dataset; how many there were."""
    if os.fspath(path).endswith(".lmdb"):
        return save_lmdb(items, os.fspath(path))
    return save_shards(items, path, shard_size, classes)
