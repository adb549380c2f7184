"""Indexing what exists already: index and manifest are made, the data files stay as they are.

Anything whose encoded bytes lie contiguous in files will do: WebDataset tars, `.gulp` chunks, TFRecords,
LMDB databases. The loader then trains from those files without a copy.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow as pa

from headrace.errors import PackError, SourceChangedError, SourceError
from headrace.formats.class_tars import TarNames, check_no_classes
from headrace.formats.data_files import find_root, name_below
from headrace.formats.detect import find_format, open_source
from headrace.formats.files import ImageFiles
from headrace.formats.keys import keep_key
from headrace.formats.limits import (
    DEFAULT_MAX_FILE_SIZE,
    blame_file,
    check_size,
    current_limit,
    limit_file_size,
)
from headrace.formats.names import printable
from headrace.formats.pread import open_regular, pread_all
from headrace.formats.source import PlacedSource
from headrace.formats.tar import scan_tar
from headrace.formats.unfinished import check_finished
from headrace.formats.webdataset import (
    Group,
    check_no_archives,
    find_tars,
    group_members,
    parse_cls,
    parse_frames,
    printable_key,
)
from headrace.pack.describe import ImageNote, describe_image, describe_sample, describe_video
from headrace.pack.durable import as_pack_error
from headrace.pack.index import IndexBuilder, check_column_names, check_file_names
from headrace.pack.index_folder import open_index_folder
from headrace.pack.loose import index_files
from headrace.pack.manifest import Manifest, record_file
from headrace.pack.outside import check_outside
from headrace.pack.parts import run_parts, while_wanted
from headrace.pack.progress import ProgressCounter, Watcher
from headrace.pack.refusal import refuse_index
from headrace.pack.rejected import Rejected
from headrace.pack.shard import ShardResult, assemble_manifest
from headrace.pack.target import Target
from headrace.sample import is_image_field, is_video_field

_SHOWN = 5
_log = logging.getLogger("headrace")


def index_dataset(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    max_file_size: int = DEFAULT_MAX_FILE_SIZE,
    out: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    workers: int | None = None,
    watcher: Watcher | None = None,
) -> Manifest:
    """Indexes a dataset where it lies: tars, gulp chunks, TFRecords, an LMDB database, loose images.

    Index and manifest go beside the data, or into the folder `out`. Samples that cannot be read make
    it fail; with `on_error="skip"` they are left out and listed in `rejected.jsonl`. `path_column` and `label_column`
    name the columns of a listing. Samples larger than `max_file_size` bytes cannot be read.

        index_dataset("ILSVRC-train.lmdb", out="train-index")
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error is {on_error!r}; it must be 'raise' or 'skip'")
    named = path_column is not None or label_column is not None
    with blame_file(path):
        check_finished(path)
        name = format or ("listing" if named else find_format(path)[0])
        tars = find_tars(path) if name == "webdataset" else []
    with as_pack_error("indexing", "run the same command again"):
        if out is not None and Path(out).resolve() != Path(path).resolve():
            check_outside(Path(path), Path(out), name)
    if tars:
        with limit_file_size(max_file_size):
            return _index_tars(tars, format, out, on_error, workers, watcher)
    source = open_source(
        path,
        format=format,
        path_column=path_column,
        label_column=label_column,
        max_file_size=max_file_size,
    )
    if isinstance(source, ImageFiles):
        folder = _choose(out, source.root)
        return index_files(source, folder, on_error=on_error, watcher=watcher)
    if not isinstance(source, PlacedSource):
        raise SourceError(
            f"{path}: its samples do not lie contiguous in files, so that it cannot be indexed "
            "where it is; pack it instead"
        )
    return index_source(source, out=out, on_error=on_error, workers=workers, watcher=watcher)


def index_source(
    source: PlacedSource,
    *,
    out: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    workers: int | None = None,
    watcher: Watcher | None = None,
) -> Manifest:
    """Indexes an open source, a shard for each of its files, rows in the order of their bytes."""
    check_column_names(source.columns.names)
    check_file_names(source.files)
    progress = ProgressCounter(len(source.names), int(source.sizes.sum()), watcher)
    with open_index_folder(_choose(out, source.root)) as target:
        job = _Job(source, target, progress)
        results = run_parts(job.index_file, list(job.files), workers)
        rejected = [(source.names[i], reason) for i, reason in sorted(job.rejected)]
        if rejected and (on_error == "raise" or not any(r.record.samples for r in results)):
            raise refuse_index(rejected, len(source.names), on_error)
        return _finish(results, source.root, target, source.classes, rejected)


@dataclass
class _Job:
    source: PlacedSource
    target: Target
    progress: ProgressCounter
    rejected: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files = self.source.files

    def index_file(self, name: str) -> ShardResult:
        """The index of one file of the source."""
        index = IndexBuilder(self.source.columns)
        for i in while_wanted(self.files[name]):
            try:
                self._add_sample(index, i, name)
            except SourceChangedError as error:
                raise PackError(
                    f"{printable(self.source.names[i])}: {error}; index again"
                ) from None
            except SourceError as error:
                self.rejected.append((i, str(error)))
            self.progress.add(1, int(self.source.sizes[i]))
        data = record_file(self.source.root / name, name)
        return self.target.write(index, name, data)

    def _add_sample(self, index: IndexBuilder, i: int, name: str) -> None:
        sample, file, offsets = self.source.locate(i)
        assert file == name
        images = describe_sample(sample).images
        index.add_sample(sample.key, sample.label, name, sample.columns)
        for field_, data in sample.items():
            index.add_field(field_, offsets[field_], data, images.get(field_))


def _choose(out: str | os.PathLike[str] | None, root: Path) -> Path:
    """The folder for index and manifest."""
    return root if out is None else Path(out)


def _finish(
    results: list[ShardResult],
    root: Path,
    target: Target,
    classes: Sequence[str] | None,
    rejected: Rejected,
) -> Manifest:
    same = root.resolve() == target.folder.resolve()
    manifest = assemble_manifest(
        results, classes=classes, root="." if same else str(root.resolve())
    )
    target.publish(manifest, rejected)
    return manifest


class _TarPart(NamedTuple):
    """What became of one tar."""

    shard: ShardResult
    keys: list[str]
    names: TarNames
    rejected: list[tuple[str, str]]


def _index_tars(
    tars: list[Path],
    format: str | None,
    out: str | os.PathLike[str] | None,
    on_error: str,
    workers: int | None,
    watcher: Watcher | None,
) -> Manifest:
    for tar in tars:
        _check_plain(tar)
    root = find_root(tars)
    check_file_names(name_below(root, tar) for tar in tars)
    progress = ProgressCounter(None, sum(tar.stat().st_size for tar in tars), watcher)
    limit = current_limit()
    with open_index_folder(_choose(out, root)) as target:

        def index_one(tar: Path) -> _TarPart:
            return _index_tar(tar, name_below(root, tar), target, on_error, progress, limit)

        parts = run_parts(index_one, tars, workers)
        _check_keys(tars, parts)
        rejected = [entry for part in parts for entry in part.rejected]
        if not any(part.shard.record.samples for part in parts):
            if rejected:
                raise refuse_index(rejected, len(rejected), on_error)
            raise SourceError(f"{tars[0]}: no samples in the {len(tars)} tars from this one on")
        check_no_archives(tars[0], (field for part in parts for field in part.shard.fields))
        if format is None:
            check_no_classes(tars[0], [part.names for part in parts])
        return _finish([part.shard for part in parts], root, target, None, rejected)


def _check_keys(tars: list[Path], parts: list[_TarPart]) -> None:
    seen: set[str] = set()
    for tar, part in zip(tars, parts, strict=True):
        if twice := next((key for key in part.keys if key in seen), None):
            raise SourceError(f"{tar}: the key {printable(twice)} is in another tar too")
        seen.update(part.keys)


def _check_plain(tar: Path) -> None:
    if tar.suffix != ".tar":
        raise SourceError(
            f"{tar}: only plain .tar files can be read in place; unpack compressed ones first"
        )


def _index_tar(
    tar: Path, name: str, target: Target, on_error: str, progress: ProgressCounter, limit: int
) -> _TarPart:
    index, keys, names = IndexBuilder(pa.schema([])), list[str](), TarNames(tar.name)
    rejected: list[tuple[str, str]] = []
    passed: list[str] = []
    with blame_file(tar):
        fd = open_regular(tar)
    unseen = os.fstat(fd).st_size  # without the bytes of samples, that of headers and padding
    try:
        for group in while_wanted(group_members(scan_tar(fd, passed), passed)):
            keys.append(group.key)
            names.add(group.key, group.members)
            size = sum(member.size for member in group.members.values())
            try:
                check_size(size, limit)
                _add_group(index, fd, name, group)
            except SourceError as error:
                if on_error == "raise":
                    raise
                rejected.append((printable_key(group.key), str(error)))
            unseen -= size
            progress.add(1, size)
        progress.add(0, unseen)
    except SourceError as error:
        raise SourceError(f"{tar}: {error}") from None
    except OSError as error:
        raise SourceError(f"{tar}: {error.strerror}") from None
    finally:
        os.close(fd)
    if passed:
        shown = ", ".join(map(printable, passed[:_SHOWN]))
        _log.warning(
            "%s: %d members are no files, or have no suffix, and are not in the index: %s",
            tar,
            len(passed),
            shown,
        )
    data = record_file(tar, name)
    return _TarPart(target.write(index, name.removesuffix(".tar"), data), keys, names, rejected)


def _add_group(index: IndexBuilder, fd: int, file: str, group: Group) -> None:
    data = {name: pread_all(fd, m.size, m.offset) for name, m in group.members.items()}
    frames = parse_frames(data)
    key = keep_key(printable_key(group.key))
    index.add_sample(key, parse_cls(key, data.get("cls")), file, {})
    for name, member in group.members.items():
        note = _describe(name, data[name], frames.get(name, ()))
        index.add_field(name, member.offset, data[name], note)


def _describe(name: str, data: bytes, frames: Sequence[int]) -> ImageNote | None:
    """What the index says of a field; None where it says "damaged", while the tar stays as it is."""
    try:
        if is_image_field(name):
            return describe_image(data)
        if is_video_field(name):
            return describe_video(data, frames)
    except SourceError:
        pass
    return None
