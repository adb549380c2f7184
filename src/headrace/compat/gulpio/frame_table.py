"""Where the frames of a chunk's videos lie.

Frames are an array, not lists of lists as in a `.gmeta`: 24 bytes each, which forked workers share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import HeadraceError, SourceError


@dataclass(frozen=True, eq=False)
class FrameTable:
    """The videos of one chunk. Row `i` has the frames `starts[i]` to `starts[i + 1]` - 1, in `files[file[i]]`.

    `frames` is int64[n, 3] as (offset, padding, length with padding). `state` is the (size, time) that the
    file must have, `checksums` the CRC-32C of each frame, if they are known. `problems` says what is wrong
    with rows that have no frames; `error` is raised for it, and for a file that is not as it should be.
    """

    rows: Mapping[str, int]
    files: Sequence[Path]
    file: NDArray[np.int64]
    starts: NDArray[np.int64]
    frames: NDArray[np.int64]
    metas: Sequence[list[dict[str, Any]]]
    state: tuple[int, int] | None = None
    checksums: NDArray[np.uint32] | None = None
    problems: Mapping[int, str] = field(default_factory=dict)
    error: type[HeadraceError] = SourceError


class MetaDict(Mapping[str, dict[str, Any]]):
    """The entries of a `.gmeta` by id, built when they are asked for: changing one changes nothing."""

    def __init__(self, table: FrameTable) -> None:
        self._table = table

    def __getitem__(self, id_: str) -> dict[str, Any]:
        row = self._table.rows[id_]
        info = self._table.frames[self._table.starts[row] : self._table.starts[row + 1]]
        return {"frame_info": info.tolist(), "meta_data": self._table.metas[row]}

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.rows)

    def __len__(self) -> int:
        return len(self._table.rows)
