"""Indexing image files where they are: every file its own shard, nothing is copied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from headrace.errors import SourceError
from headrace.formats.files import MISSING, ImageFiles
from headrace.formats.limits import check_size
from headrace.pack.describe import describe_image
from headrace.pack.index import IndexBuilder, check_file_names
from headrace.pack.index_folder import open_index_folder
from headrace.pack.manifest import Manifest
from headrace.pack.parts import run_parts, while_wanted
from headrace.pack.progress import ProgressCounter, Watcher
from headrace.pack.shard import ShardResult, assemble_manifest

_ROWS = 4096  # of an index file: what one thread does at a time


def index_files(
    source: ImageFiles, folder: Path, *, on_error: str = "raise", watcher: Watcher | None = None
) -> Manifest:
    """Write index and manifest of the files into a folder. Damaged images are marked there.

    Files that a listing names and that are not there, and files that are too large to be read, make it fail, or
    are left out with on_error="skip". The manifest's recipe has the names of those that could not be read this time.
    """
    check_file_names(source.names)
    root, rejected = source.root, _find_rejected(source)
    if rejected and (on_error == "raise" or len(rejected) == len(source.names)):
        row, reason = next(iter(rejected.items()))
        share = f"{len(rejected)} of {len(source.names)} cannot be indexed"
        raise SourceError(f"{root / source.names[row]}: {reason} ({share})")
    left_out = [(source.names[row], reason) for row, reason in rejected.items()]
    if rejected:
        source = source.take([row for row in range(len(source.names)) if row not in rejected])
    unread: list[str] = []
    progress = ProgressCounter(len(source.names), int(source.sizes.sum()), watcher)
    with open_index_folder(folder) as target:

        def index_part(start: int) -> ShardResult:
            index = IndexBuilder(source.columns)
            for row in while_wanted(range(start, min(start + _ROWS, len(source.names)))):
                if not _add_file(index, source, row):
                    unread.append(source.names[row])
                progress.add(1, int(source.sizes[row]))
            return target.write(index, f"files-{start // _ROWS:06d}", None)

        results = run_parts(index_part, range(0, len(source.names), _ROWS))
        manifest = assemble_manifest(
            results,
            classes=source.classes,
            root=str(root.resolve()),
            recipe={"unread": sorted(unread)} if unread else None,
        )
        manifest = replace(manifest, bytes=int(source.sizes.sum()))
        target.publish(manifest, left_out)
    return manifest


def _find_rejected(source: ImageFiles) -> dict[int, str]:
    """Return the rows of files that are not there or too large, and why they are rejected."""
    rejected = dict.fromkeys(
        np.flatnonzero(source.mtimes == MISSING).tolist(), f"no such file below {source.root}"
    )
    for row in np.flatnonzero(source.sizes > source.max_file_size).tolist():
        try:
            check_size(int(source.sizes[row]), source.max_file_size)
        except SourceError as error:
            rejected[row] = str(error)
    return dict(sorted(rejected.items()))


def _add_file(index: IndexBuilder, source: ImageFiles, row: int) -> bool:
    """Adds a row; False if the file could not be read, which may be different next time."""
    columns = source.rows[row] if source.rows else {}
    index.add_sample(source.keys[row], source.labels[row], source.names[row], columns)
    try:
        (field, data), *_ = source.read(row).items()
    except SourceError:
        index.add_field("jpg", 0, b"", None)
        return False
    try:
        image = describe_image(data)
    except SourceError:
        image = None
    index.add_field(field, 0, data, image)
    return True
