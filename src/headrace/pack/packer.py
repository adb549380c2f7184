"""Packing: a source in, a dataset on disk out. Parallel over shards, resumable, all or nothing.

Guaranteed: the bytes depend on the source and the options alone, not on the number of workers nor
on how often the packer was killed on the way; until the manifest is written nothing is visible but
the hidden workshop folder, and whatever can go wrong leaves no dataset that looks finished.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.errors import CorruptError, PackError, SourceChangedError, SourceError
from headrace.formats.detect import open_source
from headrace.formats.limits import DEFAULT_MAX_FILE_SIZE, blame_file
from headrace.formats.names import printable
from headrace.formats.source import Source
from headrace.pack import workshop as ws
from headrace.pack.checks import keep_integers, read_whole
from headrace.pack.cores import count_cores
from headrace.pack.cut import DEFAULT_SHARD_SIZE, cut_shards, order_rows
from headrace.pack.describe import Described, check_pixels, describe_sample
from headrace.pack.durable import as_pack_error
from headrace.pack.encode import Encode, encode_sample
from headrace.pack.index import check_column_names
from headrace.pack.inside import check_names
from headrace.pack.manifest import NAME as MANIFEST
from headrace.pack.manifest import Manifest, read_manifest, write_manifest
from headrace.pack.outside import check_outside
from headrace.pack.packed import PackedSource, open_packed
from headrace.pack.progress import ProgressCounter, Watcher
from headrace.pack.recognise import find_changed, find_damaged
from headrace.pack.refusal import refuse_incomplete, refuse_pack
from headrace.pack.rejected import read_rejected, write_rejected
from headrace.pack.renumber import check_classes, number_classes, renumber_sample
from headrace.pack.shard import assemble_manifest, shard_name, write_shard
from headrace.pack.shrink import Shrink, shrink_sample

_RESUME = "run the same command again to resume"
_LATER = ("encode", "classes", "max_file_size")
"""Options that a recipe leaves out while they are not used."""


@dataclass(frozen=True)
class PackOptions:
    """What decides the bytes of a dataset, besides its source; and what to do with bad files."""

    shard_size: int = DEFAULT_SHARD_SIZE
    order: Literal["shuffled", "source"] = "shuffled"
    seed: int = 0
    shrink: Shrink | None = None
    on_error: Literal["raise", "skip"] = "raise"
    encode: Encode | None = None
    classes: tuple[str, ...] | None = None
    max_file_size: int | None = None

    def __post_init__(self) -> None:
        keep_integers(self, "shard_size", "seed")
        if self.classes is not None:
            check_classes(self.classes)
        if self.shard_size < 1:
            raise ValueError(f"shard_size is {self.shard_size}; it must be at least one byte")
        if self.order not in ("shuffled", "source"):
            raise ValueError(f"order is {self.order!r}; it must be 'shuffled' or 'source'")
        if not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed is {self.seed}; it must be from 0 to 2**64 - 1")
        if self.on_error not in ("raise", "skip"):
            raise ValueError(f"on_error is {self.on_error!r}; it must be 'raise' or 'skip'")


@dataclass(frozen=True)
class PackSummary:
    """What packing did. `resumed` shards were taken over from a run that had been stopped."""

    path: Path
    samples: int
    shards: int
    bytes: int
    source_bytes: int
    kinds: dict[str, int]
    rejected: list[tuple[str, str]]
    ignored: Sequence[str]
    resumed: int
    seconds: float


def pack_dataset(
    source: str | os.PathLike[str] | Source,
    destination: str | os.PathLike[str],
    *,
    listing: str | os.PathLike[str] | None = None,
    format: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    max_file_size: int = DEFAULT_MAX_FILE_SIZE,
    shard_size: int = DEFAULT_SHARD_SIZE,
    order: Literal["shuffled", "source"] = "shuffled",
    seed: int = 0,
    shrink: Shrink | None = None,
    encode: Encode | None = None,
    classes: Sequence[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    workers: int | None = None,
    watcher: Watcher | None = None,
) -> PackSummary:
    """Packs a source of any layout, or the images that a CSV or JSON Lines `listing` names, into shards.

    A dataset that is packed already is such a source, with all that its index knows. The layout is found
    by its content, unless `format` names it (see docs/formats.md). Encoded images go in as they are; decoded
    arrays as `.npy`, or as images if `encode` says how. With `classes`, labels are the places of their names there:
    give a validation set the classes of its training set, and both mean the same.

    `path_column` and `label_column` name the columns of a listing. Files, records and videos of a source that is
    given by its path are rejected if they are larger than `max_file_size` bytes.

    Run again after it was killed, it goes on where it stopped and ends with the same bytes.
    `watcher` is called with a `Progress` as work gets done, from worker threads, one at a time.

        pack_dataset("imagenet/train", "shards/train")
    """
    names = None if classes is None else tuple(classes)
    limit = (
        None
        if max_file_size == DEFAULT_MAX_FILE_SIZE
        else read_whole("max_file_size", max_file_size)
    )
    options = PackOptions(shard_size, order, seed, shrink, on_error, encode, names, limit)
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}; it must be at least 1")
    if isinstance(source, (str, os.PathLike)):
        source = _open(
            source,
            Path(destination),
            listing=listing,
            format=format,
            path_column=path_column,
            label_column=label_column,
            max_file_size=max_file_size,
        )
    check_column_names(source.columns.names)
    with as_pack_error("packing", _RESUME):
        return _pack(_Job(source, options, watcher), Path(destination), workers or count_cores())


def _open(path: str | os.PathLike[str], destination: Path, **options: Any) -> Source:
    listed = any(options[name] is not None for name in ("listing", "path_column", "label_column"))
    with blame_file(path):
        if (
            not listed
            and options["format"] is None
            and (packed := open_packed(Path(path))) is not None
        ):
            return packed
        if not listed:
            with as_pack_error("packing", _RESUME):
                check_outside(Path(path), destination, options["format"])
        return open_source(path, **options)


def _pack(job: _Job, destination: Path, workers: int) -> PackSummary:
    if not (destination / MANIFEST).exists():
        with ws.open_workshop(destination) as workshop:
            if workshop is not None:
                return _fill(job, workshop, workers)
    return _recognise(job, destination)


def _fill(job: _Job, workshop: Path, workers: int) -> PackSummary:
    """Make all shards in the workshop, then the dataset beside it."""
    destination = workshop.parent
    ws.clear_stale(workshop, len(job.shards))
    finished = job.run(workshop, workers)
    results = [shard.result for shard in finished if shard.result is not None]
    rejected = sorted(entry for shard in finished for entry in shard.rejected)
    if job.refused or not results:
        ws.abandon_workshop(workshop)
        bad = [(job.source.names[row], why) for row, why in sorted(job.refused) or rejected]
        raise refuse_pack(bad, len(job.source.names), job.options.on_error)
    manifest = assemble_manifest(results, classes=job.classes, recipe=job.recipe())
    ws.publish(workshop, results)
    write_rejected(destination, [(job.source.names[row], reason) for row, reason in rejected])
    write_manifest(manifest, destination / MANIFEST)
    ws.remove_workshop(workshop)
    return job.summary(destination, manifest, [(job.name(row), reason) for row, reason in rejected])


class _Stopped(Exception):
    """Ends a worker because another one failed or the user interrupted."""


@dataclass
class _Job:
    source: Source
    options: PackOptions
    watcher: Watcher | None
    shards: list[np.ndarray] = field(init=False)
    numbers: list[int] | None = field(init=False, default=None)
    """The label of each class of the source, where they are not counted there."""
    stop: threading.Event = field(default_factory=threading.Event)
    refused: list[tuple[int, str]] = field(default_factory=list)
    """Bad samples under on_error="raise": with the first of them writing ends, checking goes on."""
    resumed: list[int] = field(default_factory=list)
    """Shards that were taken over: a list, to which several threads may add at once."""
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        sizes, options = self.source.sizes, self.options
        rows = order_rows(len(sizes), order=options.order, seed=options.seed)
        self.shards = cut_shards(sizes, rows, options.shard_size)
        self.progress = ProgressCounter(len(sizes), int(sizes.sum()), self.watcher)
        if options.classes is not None:
            self.numbers = number_classes(self.source.classes, options.classes)

    @property
    def classes(self) -> Sequence[str] | None:
        return self.source.classes if self.options.classes is None else self.options.classes

    def run(self, workshop: Path, workers: int) -> list[ws.Finished]:
        """Make all shards, or reuse those of a run that was stopped. Ends with the first error."""
        with ThreadPoolExecutor(workers, thread_name_prefix="headrace-pack") as pool:
            futures = [
                pool.submit(self._make_shard, workshop, number)
                for number in range(len(self.shards))
            ]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                self._raise_first(done)
            finally:
                self.stop.set()
                for future in futures:
                    future.cancel()
        return [future.result() for future in futures]

    @staticmethod
    def _raise_first(done: set[Future[ws.Finished]]) -> None:
        for future in done:
            error = future.exception()
            if error is not None and not isinstance(error, _Stopped):
                raise error

    def _make_shard(self, workshop: Path, number: int) -> ws.Finished:
        rows = self.shards[number]
        plan = self._plan_digest(rows)
        finished = ws.load_finished(workshop, number, plan)
        if finished is not None and not (finished.rejected and self.options.on_error == "raise"):
            self.resumed.append(number)
            self.progress.add(len(rows), int(self.source.sizes[rows].sum()))
            return finished
        ws.forget_shard(workshop, number)
        rejected: list[tuple[int, str]] = []
        result = write_shard(
            self._read_rows(rows, rejected), workshop / shard_name(number), self.source.columns
        )
        finished = ws.Finished(plan, result, rejected)
        if not self.refused:
            ws.save_finished(workshop, number, finished)
        return finished

    def _read_rows(self, rows: np.ndarray, rejected: list[tuple[int, str]]) -> Iterator[Described]:
        """The samples that can be packed; the others go to `rejected` or make the job refuse."""
        for row in map(int, rows):
            if self.stop.is_set():
                raise _Stopped
            try:
                described = self.read(row)
            except SourceChangedError as error:
                raise PackError(f"{self.name(row)}: {error}; pack again") from None
            except OSError as error:
                raise PackError(f"{self.name(row)}: cannot be read: {error}; {_RESUME}") from error
            except SourceError as error:
                (self.refused if self.options.on_error == "raise" else rejected).append(
                    (row, str(error))
                )
            else:
                if not self.refused:
                    yield described
            self.progress.add(1, int(self.source.sizes[row]))

    def read(self, row: int) -> Described:
        """A sample as it is packed."""
        sample = self.source.read(row)
        if self.numbers is not None:
            sample = renumber_sample(sample, self.numbers)
        if self.options.encode is not None:
            sample = encode_sample(sample, self.options.encode)
        if self.options.shrink is not None:
            sample = shrink_sample(sample, self.options.shrink)
        return check_pixels(describe_sample(check_names(sample)))

    def _plan_digest(self, rows: np.ndarray) -> str:
        """Tells whether a shard found in the workshop is the one that would be made now."""
        source = self.source
        content = [
            [source.names[row], int(source.sizes[row]), int(source.mtimes[row])] for row in rows
        ]
        known = [_known_before_reading(source, int(row)) for row in rows]
        plan = [self._recipe(), *_known_at_all(source), content, known]
        return hashlib.sha256(json.dumps(plan, default=str).encode()).hexdigest()

    def _recipe(self) -> dict[str, Any]:
        recipe = asdict(self.options)
        del recipe["on_error"]
        return {
            name: value for name, value in recipe.items() if name not in _LATER or value is not None
        }

    def recipe(self) -> dict[str, Any]:
        """What the manifest says of how the dataset was made; equal for equal packs."""
        digest = hashlib.sha256()
        source = self.source
        digest.update(json.dumps(_known_at_all(source)).encode())
        for row, (name, size) in enumerate(zip(source.names, source.sizes, strict=True)):
            digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
            digest.update(json.dumps(_known_before_reading(source, row), default=str).encode())
        return {**self._recipe(), "source": digest.hexdigest()}

    def name(self, row: int) -> str:
        return printable(self.source.names[row])

    def summary(
        self, path: Path, manifest: Manifest, rejected: list[tuple[str, str]]
    ) -> PackSummary:
        return PackSummary(
            path=path,
            samples=manifest.samples,
            shards=len(manifest.shards),
            bytes=manifest.bytes,
            source_bytes=int(self.source.sizes.sum()),
            kinds=dict(manifest.kinds),
            rejected=rejected,
            ignored=self.source.ignored,
            resumed=len(self.resumed),
            seconds=time.monotonic() - self.started,
        )


def _known_at_all(source: Source) -> list[Any]:
    """Columns and classes of a source, and the digest of one that has checksums."""
    digest = [source.digest] if isinstance(source, PackedSource) else []
    return [str(source.columns), list(source.classes or ()), *digest]


def _known_before_reading(source: Source, row: int) -> list[Any]:
    """Label and columns of a sample where a listing gives them; elsewhere they lie in its bytes."""
    labels, columns = getattr(source, "labels", None), getattr(source, "rows", None)
    return [labels[row] if labels else None, dict(columns[row]) if columns else None]


def _recognise(job: _Job, destination: Path) -> PackSummary:
    """A destination that is finished already: fine if it is this very pack, refused otherwise."""
    try:
        manifest = read_manifest(destination)
    except CorruptError as error:
        raise PackError(f"{destination}: holds something else: {error}") from None
    rejected = read_rejected(destination)
    if manifest.recipe != json.loads(json.dumps(job.recipe())):
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
    if changed := find_changed(job.source, job.read, destination, manifest, names):
        raise PackError(
            f"{destination}: already holds a dataset, and {printable(changed)} changed after it was "
            "packed; choose another folder or remove it"
        )
    if job.options.on_error == "raise" and manifest.samples < len(job.source.names):
        total = len(job.source.names)
        raise refuse_incomplete(rejected, total, manifest.samples, destination)
    ws.clear_finished(destination)
    job.resumed = list(range(len(manifest.shards)))
    return job.summary(destination, manifest, rejected)
