"""The frames of videos as the index has them: how many, how fast, and where each lies in its video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_NO_TABLES = np.zeros(0, np.int32)


class PictureRanges(NamedTuple):
    """For some pictures of each row, [B, J]: their bytes, the checksum of these, and the bytes of their seek tables.

    Offsets are from the beginning of a file; those that `VideoFrames.locate` returns, from the first frame.
    """

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    checksum: NDArray[np.uint32]
    seek_offset: NDArray[np.int64]
    seek_size: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class VideoFrames:
    """The frames of all rows, one row after the other; about 8 bytes each, and 4 more if there are seek tables.

    Args:
        bounds: int64[rows + 1]: the frames of row i are numbers bounds[i] to bounds[i + 1] - 1 of `sizes`.
        sizes: Bytes of each frame.
        checksums: CRC-32C of each frame.
        seeks: Bytes of the seek table of each frame; empty if no frame has one.
        rates: Frames per second of each row, NaN if unknown.
        time_bounds: As `bounds`, of `times`; rows with a constant rate have none.
        times: Seconds from the first frame of a video to each of its frames.
    """

    bounds: NDArray[np.int64]
    sizes: NDArray[np.int32]
    checksums: NDArray[np.uint32]
    seeks: NDArray[np.int32]
    rates: NDArray[np.float64]
    time_bounds: NDArray[np.int64]
    times: NDArray[np.float64]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of frames of each row; 0 if its video is damaged."""
        return np.diff(self.bounds)

    def take_times(self, rows: NDArray[np.int64]) -> dict[int, NDArray[np.float64]]:
        """Return the times of those videos among `rows` whose rate varies, by their place in `rows`."""
        starts, stops = self.time_bounds[rows], self.time_bounds[rows + 1]
        return {int(i): self.times[starts[i] : stops[i]] for i in np.flatnonzero(stops > starts)}

    def locate(self, rows: NDArray[np.int64], frames: NDArray[np.int64]) -> PictureRanges:
        """Return where frames lie: `frames` int64[B, J], the numbers of J frames of each row.

        The frames of a damaged video are empty.
        """
        present = np.broadcast_to((self.counts[rows] > 0)[:, None], frames.shape)
        numbers = np.where(present, self.bounds[rows][:, None] + frames, -1)[present]
        none = np.zeros(frames.shape, np.int64)

        def read(values: NDArray[Any]) -> NDArray[Any]:
            found = none.astype(values.dtype)
            found[present] = values[numbers]
            return found

        sizes, tables = read(self.sizes).astype(np.int64), (none, none)
        if len(self.seeks):
            tables = self._sum_before(self.seeks, rows, frames), read(self.seeks).astype(np.int64)
        offsets = self._sum_before(self.sizes, rows, frames)
        return PictureRanges(offsets, sizes, read(self.checksums), *tables)

    def _sum_before(
        self, values: NDArray[np.int32], rows: NDArray[np.int64], frames: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the sum of the values of all frames of a row before each of `frames`.

        intentional: sums over these rows only. Sums over all videos would take 8 bytes for every frame.
        """
        lengths = np.where(self.counts[rows] > 0, frames.max(axis=1) + 1, 0)
        firsts = np.cumsum(lengths) - lengths
        numbers = np.repeat(self.bounds[rows] - firsts, lengths) + np.arange(lengths.sum())
        before = np.append(0, np.cumsum(values[numbers], dtype=np.int64))
        places = np.where(lengths[:, None] > 0, firsts[:, None] + frames, 0)
        sums: NDArray[np.int64] = before[places] - before[np.where(lengths > 0, firsts, 0)][:, None]
        return sums

    @classmethod
    def join(cls, parts: Sequence[VideoFrames]) -> VideoFrames:
        """Return the frames of all parts, one after the other."""
        if any(len(part.seeks) for part in parts):
            seeks = [part.seeks if len(part.seeks) else np.zeros_like(part.sizes) for part in parts]
        else:
            seeks = [_NO_TABLES]
        return cls(
            _join_bounds([part.bounds for part in parts]),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.checksums for part in parts]),
            np.concatenate(seeks),
            np.concatenate([part.rates for part in parts]),
            _join_bounds([part.time_bounds for part in parts]),
            np.concatenate([part.times for part in parts]),
        )


def read_frames(index: pa.Table, field: str) -> VideoFrames:
    """Return the frames of the videos in a field of an index."""
    bounds, sizes = _flatten(index[f"{field}.frames"])
    _, checksums = _flatten(index[f"{field}.frame_crc32c"])
    time_bounds, times = _flatten(index[f"{field}.times"])
    rates: NDArray[np.float64] = pc.fill_null(index[f"{field}.fps"], np.nan).to_numpy()
    seeks = _spread_seeks(index[f"{field}.frame_seek"], bounds)
    return VideoFrames(bounds, sizes, checksums, seeks, rates, time_bounds, times)


def _flatten(lists: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the bounds of each row's list, and the values of all lists one after the other."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return np.append(0, np.cumsum(lengths, dtype=np.int64)), pc.list_flatten(lists).to_numpy()


def _spread_seeks(lists: pa.ChunkedArray, bounds: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the size of each frame's seek table, 0 for the frames of rows without tables."""
    if lists.null_count == len(lists):
        return _NO_TABLES
    _, values = _flatten(lists)
    seeks = np.zeros(int(bounds[-1]), np.int32)
    seeks[np.repeat(lists.is_valid().to_numpy(), np.diff(bounds))] = values
    return seeks


def _join_bounds(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    lengths = [np.diff(part) for part in parts]
    return np.append(0, np.cumsum(np.concatenate(lengths)))
