"""Packs a source into a dataset on disk: parallel over shards, resumable, all or nothing.

Guaranteed: the bytes depend only on the source and the options, not on the number of workers nor on
how often the packer was killed. Until the manifest is written, nothing is visible but the hidden
staging folder, and no failure leaves a dataset that looks finished.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.arguments import check_count, read_integer
from headrace.errors import PackError, SourceChangedError, SourceError
from headrace.files.limits import DEFAULT_MAX_FILE_SIZE, blame_file
from headrace.formats.detect import detect
from headrace.formats.source import EncodingSource, Source, state_kinds
from headrace.kinds import Kind
from headrace.pack import staging
from headrace.pack.check_destination import check_outside
from headrace.pack.check_sizes import check_sizes, check_unshrunk
from headrace.pack.class_map import number_classes, renumber_sample
from headrace.pack.describe_images import check_pixels, describe_sample
from headrace.pack.encode_arrays import Encode, encode_sample
from headrace.pack.encode_frames import encode_frames
from headrace.pack.pack_options import PackOptions, describe_pack, digest_shard
from headrace.pack.packed_source import open_packed
from headrace.pack.recode_images import recode_sample
from headrace.pack.refusal import refuse_pack
from headrace.pack.shard_plan import DEFAULT_SHARD_SIZE, cut_shards, order_rows
from headrace.pack.shrink_images import Shrink, shrink_sample
from headrace.pack.up_to_date import check_up_to_date
from headrace.pack.video_arguments import check_video_options, choose_video_options
from headrace.store.durable import as_pack_error
from headrace.store.index_schema import Described, check_column_names
from headrace.store.keys import printable
from headrace.store.manifest import MANIFEST, Manifest
from headrace.store.safe_paths import check_names
from headrace.store.write_shard import ShardResult, assemble_manifest, shard_name, write_shard
from headrace.work.cancellable import map_ahead, run_cancellable, until_cancelled
from headrace.work.cores import count_cores
from headrace.work.progress import ProgressCallback, ProgressCounter

_RESUME = "run the same command again to resume"


@dataclass(frozen=True)
class PackSummary:
    """The result of a pack. `resumed` counts the shards that a stopped pack had finished."""

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
    fields: Mapping[str, str] | None = None,
    annotations: str | os.PathLike[str] | None = None,
    max_file_size: int = DEFAULT_MAX_FILE_SIZE,
    shard_size: int = DEFAULT_SHARD_SIZE,
    order: Literal["shuffled", "source"] = "shuffled",
    seed: int = 0,
    shrink: Shrink | None = None,
    encode: Encode | None = None,
    recode: bool = False,
    fps: float | None = None,
    quality: int | None = None,
    classes: Sequence[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    workers: int | None = None,
    progress: ProgressCallback | None = None,
) -> PackSummary:
    """Pack a source of any layout into shards. Resumes a pack that was stopped, to the same bytes.

        pack_dataset("imagenet/train", "shards/train")

    Args:
        source: A path, an open source, or a dataset that is packed already.
        destination: The folder of the new dataset.
        listing: A CSV or JSON Lines file that names the images.
        format: Layout of the source (see docs/reference/layouts.md). Detected automatically if omitted.
        path_column: The column of a listing that has the paths.
        label_column: The column of a listing that has the labels.
        fields: The folder of each field below the source, or a pattern of its files, for images and masks of equal
            stems in several folders: `{"image": "images/", "mask": "masks/*_mask.png"}`.
        annotations: COCO's JSON of annotations of the images below the source.
        max_file_size: Reject files, records and videos that have more bytes.
        shard_size: Largest size of a shard in bytes, for video files in bytes of their frames, about.
        order: Pack samples in a shuffled order, or in the order of the source.
        seed: Seed of the shuffled order.
        shrink: Resize images, and the frames of video files. Default: keep their size; images keep their bytes.
        encode: Encode raw pixel arrays as images. Default: store them as `.npy`. Frames that are PNG or WebP files need
            `Encode("jpg")`.
        recode: Rewrite progressive, arithmetic and non-interleaved JPEGs as baseline JPEGs, without loss: the same
            pixels and markers in other bytes, which are rendered several times as fast.
        fps: Frames per second that video files are resampled to. Default: keep every frame.
        quality: JPEG quality of the frames of video files. Default: 90, or the quality of `shrink`.
        classes: Class names that define the labels, e.g. those of the training set for a validation set.
        on_error: Whether bad files are an error, or are skipped and listed in `rejected.jsonl`.
        workers: Number of threads. Default: one per core.
        progress: Called as work gets done, from worker threads, one at a time.

    Returns:
        What was packed, rejected and resumed.

    Raises:
        PackError: The dataset cannot be packed, or the destination holds something else.
        SourceError: The source cannot be opened.
        MissingExtraError: The source has video files, and PyAV is not installed.
    """
    names = None if classes is None else tuple(classes)
    size = read_integer("max_file_size", max_file_size)
    limit = None if size == DEFAULT_MAX_FILE_SIZE else size
    options = PackOptions(
        shard_size, order, seed, shrink, on_error, encode, names, limit, recode or None
    )
    if workers is not None:
        check_count("workers", workers, 1)
    if isinstance(source, (str, os.PathLike)):
        source = open_to_pack(
            source,
            destination,
            video=choose_video_options(fps, shrink, quality),
            listing=listing,
            format=format,
            path_column=path_column,
            label_column=label_column,
            fields=fields,
            annotations=annotations,
            max_file_size=max_file_size,
        )
    check_video_options(source, fps, quality)
    check_column_names(source.columns.names)
    with as_pack_error("packing", _RESUME):
        return _pack(_Job(source, options, workers or count_cores(), progress), Path(destination))


_SAY_WHAT = ("listing", "path_column", "label_column", "fields", "annotations")
"""Options with which a path is not a packed dataset."""


def open_to_pack(
    path: str | os.PathLike[str], destination: str | os.PathLike[str], **options: Any
) -> Source:
    """Return the source at `path`, a packed dataset too. PackError if `destination` lies inside of it.

    Args: as of `detect`.
    """
    listed = any(options.get(name) is not None for name in _SAY_WHAT)
    with blame_file(path):
        if (
            not listed
            and options["format"] is None
            and (packed := open_packed(Path(path))) is not None
        ):
            return packed
        layout = detect(path, **options)
        with as_pack_error("packing", _RESUME):
            check_outside(layout, Path(destination))
        return layout.open()


def _pack(job: _Job, destination: Path) -> PackSummary:
    if not (destination / MANIFEST).exists():
        with staging.open_staging(destination) as staged:
            if staged is not None:
                return _fill(job, staged)
    manifest, rejected = check_up_to_date(job.source, job.options, job.read, destination)
    staging.clear_finished(destination)
    job.resumed = list(range(len(manifest.shards)))
    return job.summary(destination, manifest, rejected)


def _fill(job: _Job, staged: Path) -> PackSummary:
    """Make all shards in the staging folder, then the dataset beside it."""
    staging.clear_stale(staged, len(job.shards))
    finished = job.run(staged)
    results = [shard.result for shard in finished if shard.result is not None]
    rejected = sorted(entry for shard in finished for entry in shard.rejected)
    if job.refused or not results:
        staging.abandon_staging(staged)
        bad = [(job.source.names[row], why) for row, why in sorted(job.refused) or rejected]
        raise refuse_pack(bad, len(job.source.names), job.options.on_error)
    recipe = describe_pack(job.source, job.options)
    manifest = assemble_manifest(
        results,
        classes=job.classes,
        recipe=recipe,
        field_kinds=_keep_stated(job.source, results),
    )
    staging.publish(staged, manifest, [(job.source.names[row], why) for row, why in rejected])
    shown = [(job.name(row), why) for row, why in rejected]
    return job.summary(staged.parent, manifest, shown)


def _keep_stated(source: Source, results: Sequence[ShardResult]) -> dict[str, Kind]:
    """Return the kinds that a source states of fields and columns which were packed."""
    packed = {name for result in results for name in result.fields} | set(source.columns.names)
    return {name: kind for name, kind in state_kinds(source).items() if name in packed}


@dataclass
class _Job:
    source: Source
    options: PackOptions
    workers: int
    callback: InitVar[ProgressCallback | None]
    shards: list[np.ndarray] = field(init=False)
    sizes: np.ndarray = field(init=False)
    """About how many bytes each sample has when it is packed."""
    numbers: list[int] | None = field(init=False, default=None)
    """The new label of each class of the source, if `classes` is given."""
    refused: list[tuple[int, str]] = field(default_factory=list)
    """Bad samples under on_error="raise": after the first one, samples are checked but not written."""
    resumed: list[int] = field(default_factory=list)
    """Shards that a stopped pack had finished: a list, to which several threads may append."""
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self, callback: ProgressCallback | None) -> None:
        options = self.options
        self.sizes = sizes = (
            self.source.estimate_sizes()
            if isinstance(self.source, EncodingSource)
            else self.source.sizes
        )
        rows = order_rows(len(sizes), order=options.order, seed=options.seed)
        self.shards = cut_shards(sizes, rows, options.shard_size)
        self.progress = ProgressCounter(len(sizes), int(sizes.sum()), callback)
        if options.classes is not None:
            self.numbers = number_classes(self.source.classes, options.classes)

    @property
    def classes(self) -> Sequence[str] | None:
        return self.source.classes if self.options.classes is None else self.options.classes

    def run(self, staged: Path) -> list[staging.Finished]:
        """Make all shards, or reuse the shards of a pack that was stopped."""
        numbers = range(len(self.shards))
        helpers = self.workers if isinstance(self.source, EncodingSource) else 0
        return run_cancellable(partial(self._make_shard, staged), numbers, self.workers, helpers)

    @property
    def ahead(self) -> int:
        """How many samples of a shard may be encoded ahead, so that all workers have work if shards are few."""
        return max(2, 2 * self.workers // min(self.workers, len(self.shards)))

    def _make_shard(self, staged: Path, number: int) -> staging.Finished:
        rows = self.shards[number]
        plan = digest_shard(self.source, self.options, rows)
        finished = staging.load_finished(staged, number, plan)
        if finished is not None and not (finished.rejected and self.options.on_error == "raise"):
            self.resumed.append(number)
            self.progress.add(len(rows), int(self.sizes[rows].sum()))
            return finished
        staging.forget_shard(staged, number)
        rejected: list[tuple[int, str]] = []
        samples = self._read_rows(rows, rejected)
        result = write_shard(samples, staged / shard_name(number), self.source.columns)
        finished = staging.Finished(plan, result, rejected)
        if not self.refused:
            staging.save_finished(staged, number, finished)
        return finished

    def _read_rows(self, rows: np.ndarray, rejected: list[tuple[int, str]]) -> Iterator[Described]:
        """Yield the samples that can be packed; add the others to `rejected` or `refused`."""
        wanted = until_cancelled(map(int, rows))
        for row, outcome in map_ahead(self._attempt, wanted, self.ahead):
            if isinstance(outcome, SourceError):
                bad = self.refused if self.options.on_error == "raise" else rejected
                bad.append((row, str(outcome)))
            elif not self.refused:
                yield outcome
            self.progress.add(1, int(self.sizes[row]))

    def _attempt(self, row: int) -> tuple[int, Described | SourceError]:
        """Return a sample, or why it cannot be packed. PackError if that is not the fault of the sample."""
        try:
            return row, self.read(row)
        except SourceChangedError as error:
            raise PackError(f"{self.name(row)}: {error}; pack again") from None
        except OSError as error:
            raise PackError(f"{self.name(row)}: cannot be read: {error}; {_RESUME}") from error
        except SourceError as error:
            return row, error

    def read(self, row: int) -> Described:
        """Return a sample as it is packed."""
        sample = self.source.read(row)
        if self.numbers is not None:
            sample = renumber_sample(sample, self.numbers)
        if self.options.encode is not None:
            sample = encode_sample(sample, self.options.encode)
        sample = encode_frames(sample, self.options.encode)
        before = sample
        if self.options.shrink is not None:
            sample = shrink_sample(sample, self.options.shrink)
        is_shrunk = sample is not before
        if self.options.recode:
            sample = recode_sample(sample)
        described = describe_sample(check_names(sample))
        if is_shrunk:
            check_unshrunk(described)
        return check_pixels(check_sizes(described))

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
