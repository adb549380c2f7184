"""Indexing in place: an index and a manifest are written, the data files stay as they are.

Any layout whose encoded bytes lie contiguous in files will do: WebDataset tars, `.gulp` chunks, TFRecords, LMDB
databases, image files. The loader then trains from those files without a copy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from headrace.errors import PackError, SourceChangedError, SourceError
from headrace.files.limits import DEFAULT_MAX_FILE_SIZE
from headrace.formats.detect import detect
from headrace.formats.source import Part, Place, PlacedSource
from headrace.pack.check_destination import check_outside
from headrace.pack.check_sizes import check_sizes
from headrace.pack.describe_images import describe_sample
from headrace.pack.publish_index import IndexWriter, open_index_writer
from headrace.pack.refusal import refuse_index
from headrace.store.durable import as_pack_error
from headrace.store.index_schema import IndexBuilder, check_column_names
from headrace.store.keys import printable
from headrace.store.manifest import Manifest, record_file
from headrace.store.write_shard import ShardResult, assemble_manifest
from headrace.work.cancellable import run_cancellable, until_cancelled
from headrace.work.progress import ProgressCallback, ProgressCounter


def index_dataset(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    annotations: str | os.PathLike[str] | None = None,
    max_file_size: int = DEFAULT_MAX_FILE_SIZE,
    out: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    workers: int | None = None,
    progress: ProgressCallback | None = None,
) -> Manifest:
    """Index a dataset where it lies, without copying it.

    Args:
        path: Tars, gulp chunks, TFRecords, an LMDB database, an image folder or a listing.
        format: The layout. Default: detected.
        path_column: The column of a listing that has the paths.
        label_column: The column of a listing that has the labels.
        annotations: COCO's JSON of annotations of the images below `path`.
        max_file_size: The largest sample that is read, in bytes.
        out: The folder for index and manifest. Default: beside the data.
        on_error: What to do with samples that cannot be read: "raise" reads all samples and indexes
            nothing, "skip" leaves them out and lists them in `rejected.jsonl`.
        workers: How many threads. Default: the number of cores.
        progress: Called as work gets done, from worker threads, one at a time.

    Returns:
        The manifest of the index.

    Raises:
        SourceError: The dataset cannot be read, or not in place.
        PackError: Samples cannot be read, or the index cannot be written.

        index_dataset("ILSVRC-train.lmdb", out="train-index")
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error is {on_error!r}; it must be 'raise' or 'skip'")
    layout = detect(
        path,
        format=format,
        path_column=path_column,
        label_column=label_column,
        annotations=annotations,
        max_file_size=max_file_size,
    )
    with as_pack_error("indexing", "run the same command again"):
        if out is not None and Path(out).resolve() != layout.path.resolve():
            check_outside(layout, Path(out))
    source = layout.open_in_place()
    return index_source(source, out=out, on_error=on_error, workers=workers, progress=progress)


def index_source(
    source: PlacedSource,
    *,
    out: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    workers: int | None = None,
    progress: ProgressCallback | None = None,
) -> Manifest:
    """Index an open source: an index file per part, rows in the order of their bytes.

    Names of image files that could not be read this time are in the manifest's recipe, as `unread`.
    """
    check_column_names(source.columns.names)
    if source.rejected and (on_error == "raise" or not source.samples):
        raise refuse_index(source.rejected, len(source.rejected) + (source.samples or 0), on_error)
    size = sum(part.size for part in source.parts)
    counter = ProgressCounter(source.samples, size, progress)
    with open_index_writer(source.root if out is None else Path(out)) as writer:
        job = _Job(source, writer, counter)
        parts = run_cancellable(job.index_part, source.parts, workers)
        source.check()
        manifest = _assemble(source, writer.folder, parts)
        found = [entry for part in parts for entry in part.rejected]
        if found and (on_error == "raise" or not manifest.samples):
            raise refuse_index(found, manifest.samples + len(found), on_error)
        writer.publish(manifest, [*source.rejected, *found])
        return manifest


class _IndexedPart(NamedTuple):
    shard: ShardResult
    rejected: Sequence[tuple[str, str]]
    unread: Sequence[str]


@dataclass(frozen=True)
class _Job:
    source: PlacedSource
    writer: IndexWriter
    counter: ProgressCounter

    def index_part(self, part: Part) -> _IndexedPart:
        """Write the index of one part."""
        index, unseen = IndexBuilder(self.source.columns), part.size
        rejected: list[tuple[str, str]] = []
        unread: list[str] = []
        for place in until_cancelled(part.scan()):
            try:
                if self._add_sample(index, place):
                    unread.append(place.name)
            except SourceChangedError as error:
                raise PackError(f"{printable(place.name)}: {error}; index again") from None
            except SourceError as error:
                rejected.append((place.name, str(error)))
            unseen -= place.size
            self.counter.add(1, place.size)
        self.counter.add(0, unseen)  # headers and padding
        data = None if part.file is None else record_file(self.source.root / part.file, part.file)
        return _IndexedPart(self.writer.write(index, part.stem, data), rejected, unread)

    def _add_sample(self, index: IndexBuilder, place: Place) -> bool:
        """Add a row to the index; return whether its file could not be read."""
        sample, file, offsets, is_unread = place.locate()
        described = describe_sample(sample, keep_damaged=self.source.keeps_damaged)
        check_sizes(described)
        index.add_described(described, file)
        for name, data in sample.items():
            index.add_field(name, offsets[name], data, described.notes.get(name))
        return is_unread


def _assemble(source: PlacedSource, folder: Path, parts: Sequence[_IndexedPart]) -> Manifest:
    unread = sorted(name for part in parts for name in part.unread)
    is_beside = source.root.resolve() == folder.resolve()
    manifest = assemble_manifest(
        [part.shard for part in parts],
        classes=source.classes,
        root="." if is_beside else str(source.root.resolve()),
        recipe={"unread": unread} if unread else None,
        field_kinds=source.field_kinds,
    )
    files = sum(part.size for part in source.parts if part.file is None)
    return replace(manifest, bytes=manifest.bytes + files)
