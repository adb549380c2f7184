"""Indexing image files where they are: every file its own shard, nothing is copied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from penstock.errors import SourceError
from penstock.formats.files import MISSING, ImageFiles
from penstock.pack.describe import describe_image
from penstock.pack.index import IndexBuilder, check_file_names
from penstock.pack.index_folder import open_index_folder
from penstock.pack.manifest import Manifest
from penstock.pack.parts import run_parts, while_wanted
from penstock.pack.progress import ProgressCounter, Watcher
from penstock.pack.shard import ShardResult, assemble_manifest

_ROWS = 4096  # of an index file: what one thread does at a time


def index_files(
    source: ImageFiles, folder: Path, *, on_error: str = "raise", watcher: Watcher | None = None
) -> Manifest:
    """Writes index and manifest of the files into a folder. Damaged images are marked there.

    Files that a listing names and that are not there make it fail, or are left out with on_error="skip".
    The manifest's recipe has the names of those that could not be read this time.
    """
    check_file_names(source.names)
    root, missing = source.root, source.missing
    if missing and (on_error == "raise" or len(missing) == len(source.names)):
        raise SourceError(
            f"{root / missing[0]}: no such file ({len(missing)} of {len(source.names)} are missing)"
        )
    if missing:
        source = source.take(np.flatnonzero(source.mtimes != MISSING).tolist())
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
        target.publish(manifest, [(name, f"no such file below {root}") for name in missing])
    return manifest


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
