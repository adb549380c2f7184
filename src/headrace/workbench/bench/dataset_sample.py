"""The samples of a dataset that a bench measures, on disk and in memory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError, SourceError
from headrace.open import open_dataset
from headrace.plan.runs import RUN_BYTES, Runs
from headrace.read.columns import NO_LABEL
from headrace.read.dataset import Dataset
from headrace.read.run_layout import Layout
from headrace.read.table import Table
from headrace.render import decode_jpeg
from headrace.sample import is_image_field, is_video_field
from headrace.serve.derived_options import choose_window
from headrace.workbench.bench.results import Data
from headrace.workbench.bench.shuffle_quality import measure_mixing


@dataclass(frozen=True, eq=False)
class Held:
    """Samples in memory: encoded bytes, seek tables, sizes in pixels."""

    rows: NDArray[np.int64]
    images: list[bytes]
    seeks: list[bytes]
    heights: NDArray[np.int64]
    widths: NDArray[np.int64]

    @property
    def mean_bytes(self) -> float:
        return float(np.mean([len(image) for image in self.images]))


class DatasetSample:
    """Evenly spread runs of a dataset with about `samples` samples."""

    def __init__(
        self, path: str | os.PathLike[str], samples: int, image: str | None = None
    ) -> None:
        dataset = open_dataset(path)
        if image is not None:
            dataset = dataset.choose_image(image)
        if not len(dataset):
            raise SourceError(f"{path}: has no samples to measure")
        if not any(map(is_image_field, dataset.fields)) and any(
            map(is_video_field, dataset.fields)
        ):
            raise SourceError(
                f"{path}: holds videos, and only images can be measured so far; `loader.stats()` has the frames per "
                "second of a Loader with a Clip"
            )
        self.path = Path(path)
        self.table = Table([dataset], (), image=True)
        self.layout = Layout(self.table.columns, self.table.parts)
        self.all_runs = self.layout.cut_runs(RUN_BYTES)
        self.runs = _choose_runs(self.all_runs, samples)
        self.rows = np.concatenate([self._list_rows(run) for run in self.runs.tolist()])
        self._check_pictures()
        self.dataset = Dataset(dataset.path, dataset.manifest, self.rows, dataset.image)
        self.loose = any(part.loose for part in self.table.parts)
        self.labelled = bool((self.table.columns.label[self.rows] != NO_LABEL).all())

    def _check_pictures(self) -> None:
        """Raise DecodeError if a sample has no image, before it would be called damaged."""
        for row in self.rows[self.table.columns.image.size[self.rows] == 0].tolist():
            absent = self.table.describe_absence(row)
            if absent is not None:
                place = f"{self.table.name_row(row)!r} in {self.layout.path_of(row)}"
                raise DecodeError(
                    f"{place} {absent}. Measure a field that every sample has (--image)."
                )

    @property
    def mean_bytes(self) -> float:
        return float(self.table.columns.span.size[self.rows].mean())

    def list_files(self) -> list[Path]:
        """Return the files that hold the samples."""
        _, places = np.unique(self.table.columns.file[self.rows], return_index=True)
        return sorted(self.layout.path_of(int(self.rows[place])) for place in places)

    def _list_rows(self, run: int) -> NDArray[np.int64]:
        start, stop = self.all_runs.list_bounds()[run : run + 2].tolist()
        return np.arange(start, stop)

    def read_run(self, run: int) -> int:
        """Read a run into fresh memory; return its number of samples."""
        return len(self.layout.read_rows(self._list_rows(run), _allocate).rows)

    def hold(self, count: int) -> Held:
        """Return about `count` samples in memory, evenly from all runs."""
        columns = self.table.columns
        each = -(-count // len(self.runs))
        images, seeks, rows = [], [], []
        for run in self.runs[:count].tolist():
            read = self.layout.read_rows(self._list_rows(run), _allocate)
            step = max(1, len(read.rows) // each)
            for number in range(0, len(read.rows), step)[:each]:
                row = int(read.rows[number])
                start = int(columns.image.offset[row] + read.shifts[number])
                images.append(read.data[start : start + int(columns.image.size[row])].tobytes())
                seeks.append(
                    bytes(read.seeks.table(columns.seek.offset[row], columns.seek.size[row]))
                )
                rows.append(row)
        chosen = np.array(rows, np.int64)
        return Held(chosen, images, seeks, columns.height[chosen], columns.width[chosen])

    def name_row(self, row: int) -> str:
        """Return the key of a row, its file and offset, for errors."""
        offset = int(self.table.columns.image.offset[row])
        return f"{self.table.name_row(row)!r} in {self.layout.path_of(row)} at byte {offset}"


def _allocate(size: int) -> NDArray[np.uint8]:
    return np.empty(max(size, 1), np.uint8)


def _choose_runs(runs: Runs, samples: int) -> NDArray[np.int64]:
    count = len(runs)
    per_run = runs.entries / count
    wanted = min(count, max(1, round(samples / per_run)))
    return np.unique(np.arange(wanted) * count // wanted)


def describe_data(subset: DatasetSample, decode_ms: list[float], batch_size: int) -> Data:
    """Return the dataset in numbers, without the costs of kinds."""
    window = choose_window("auto", subset.table, batch_size)
    columns, manifest = subset.table.columns, subset.dataset.manifest
    pixels = columns.height[subset.rows] * columns.width[subset.rows]
    short = np.minimum(columns.height[subset.rows], columns.width[subset.rows])
    return Data(
        path=str(subset.path),
        samples=manifest.samples,
        bytes=int(columns.span.size.sum()),
        kinds=dict(manifest.kinds),
        loose=subset.loose,
        mean_bytes=subset.mean_bytes,
        mean_short_side=float(short.mean()),
        megapixels=tuple(np.round(pixels / 1e6, 4).tolist()),
        kilobytes=tuple(np.round(columns.image.size[subset.rows] / 1e3, 1).tolist()),
        decode_ms=tuple(decode_ms),
        kind_ms={},
        recoded_ms=None,
        window=window,
        mixing=_mix(subset, window, batch_size),
        turned=int((columns.orientation > 1).sum()),
    )


def _mix(subset: DatasetSample, window: int | None, batch_size: int) -> float | None:
    labels = subset.table.columns.label
    if (labels == NO_LABEL).any():
        return None
    return measure_mixing(labels, subset.all_runs, window, batch_size)


def time_decodes(subset: DatasetSample, held: Held) -> list[float]:
    """Return the CPU milliseconds to decode each sample; DecodeError names a sample that fails."""
    times = []
    for row, image in zip(held.rows.tolist(), held.images, strict=True):
        before = time.thread_time()
        try:
            decode_jpeg(image)
        except DecodeError as error:
            raise DecodeError(f"{subset.name_row(row)}: {error}") from None
        times.append(round((time.thread_time() - before) * 1e3, 3))
    return times
