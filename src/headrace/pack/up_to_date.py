"""Checks whether a finished dataset is intact, and its source still the one that it was packed from.

Guaranteed: an image or video file that was written, or moved into its place, after the dataset was finished is compared
by its content, whatever its time says; one that was merely touched counts as unchanged. Samples in tars,
databases and tables are compared, with their labels and columns, if the time of their file is later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace._core import crc32c
from headrace.errors import CorruptError, PackError, SourceError
from headrace.formats.image_files import ImageFiles
from headrace.formats.layouts.coco import CocoFiles
from headrace.formats.pair_files import PairFiles
from headrace.formats.source import Source
from headrace.formats.video_files import VideoFiles
from headrace.pack.pack_options import PackOptions, describe_pack
from headrace.pack.refusal import refuse_incomplete
from headrace.store.index_reader import read_indexes
from headrace.store.index_schema import Described
from headrace.store.keys import printable
from headrace.store.manifest import MANIFEST, Manifest, read_manifest
from headrace.store.rejected import read_rejected
from headrace.store.rows import read_rows
from headrace.store.tar_members import shard_fields
from headrace.store.verify import find_damaged
from headrace.work.cancellable import run_cancellable


def check_up_to_date(
    source: Source, options: PackOptions, read: Callable[[int], Described], destination: Path
) -> tuple[Manifest, list[tuple[str, str]]]:
    """Return the manifest of a finished destination, and its rejected samples. `read` returns a packed row.

    PackError if the destination is not what this pack would make, is damaged, or lacks samples.
    """
    try:
        manifest = read_manifest(destination)
    except CorruptError as error:
        raise PackError(f"{destination}: holds something else: {error}") from None
    rejected = read_rejected(destination)
    if manifest.recipe != json.loads(json.dumps(describe_pack(source, options))):
        raise PackError(
            f"{destination}: already holds a dataset made from another source or with other "
            "options; choose another folder or remove it"
        )
    if damaged := find_damaged(destination, manifest):
        raise PackError(
            f"{destination}: already holds this dataset, but {damaged}; `headrace verify` lists what is wrong. "
            "Remove the folder to pack it again"
        )
    names = {name for name, _ in rejected}
    if changed := _find_changed(source, read, destination, manifest, names):
        raise PackError(
            f"{destination}: already holds a dataset, and {printable(changed)} changed after it was "
            "packed; choose another folder or remove it"
        )
    total = len(source.names)
    if options.on_error == "raise" and manifest.samples < total:
        raise refuse_incomplete(rejected, total, manifest.samples, destination)
    return manifest, rejected


def _find_changed(
    source: Source,
    read: Callable[[int], Described],
    destination: Path,
    manifest: Manifest,
    rejected: Collection[str],
) -> str | None:
    """Return the name of a sample that is not what was packed, if there is one."""
    finished = (destination / MANIFEST).stat().st_mtime_ns
    doubtful = np.flatnonzero(_find_changes(source) >= finished).tolist()
    if not doubtful:
        return None
    packed = _read_checksums(destination, manifest)

    def check(row: int) -> None:
        try:
            sample = read(row).sample
        except SourceError:
            same = source.names[row] in rejected
        else:
            sums = {name: crc32c(data) for name, data in shard_fields(sample).items()}
            same = packed.get(sample.key) == sums
        if not same:
            raise _Changed(source.names[row])

    try:
        run_cancellable(check, doubtful)
    except _Changed as changed:
        return str(changed)
    return None


class _Changed(Exception):
    """A sample is not what was packed. Its name is the argument."""


def _find_changes(source: Source) -> NDArray[np.int64]:
    """Return when each sample last changed. A file that is moved keeps its mtime, but not its ctime."""
    if isinstance(source, CocoFiles):
        source = source.images
    if isinstance(source, PairFiles):
        files = [[file.name for file in source.list_files(i)] for i in range(len(source.names))]
    elif isinstance(source, VideoFiles):
        files = [[name] for name in source.files]
    elif isinstance(source, ImageFiles):
        files = [[name] for name in source.names]
    else:
        return source.mtimes
    found = (max(_find_ctime(source.root / name) for name in names) for names in files)
    ctimes = np.fromiter(found, np.int64, len(files))
    changes: NDArray[np.int64] = np.maximum(source.mtimes, ctimes)
    return changes


def _find_ctime(path: Path) -> int:
    """Return the later ctime of a file and the link to it; 0 if it cannot be read."""
    try:
        return max(os.stat(path).st_ctime_ns, os.lstat(path).st_ctime_ns)
    except OSError:
        return 0


def _read_checksums(destination: Path, manifest: Manifest) -> dict[str, dict[str, int]]:
    """Return the checksums of the fields of each sample, by its key."""
    rows = read_rows(read_indexes(destination, manifest.shards))
    return {row.key: {name: f.crc32c for name, f in row.fields.items()} for row in rows}
