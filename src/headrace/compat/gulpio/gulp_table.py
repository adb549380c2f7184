"""The frames of a gulp's chunk, from its `.gmeta`."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.compat.gulpio.frame_table import FrameTable
from headrace.errors import SourceError
from headrace.formats.layouts.gulp import Chunk, parse_frames, read_meta


def read_gulp_table(chunk: Chunk) -> FrameTable:
    """Return the videos of a chunk. A frame outside its file spoils its video, not the others."""
    content = read_meta(chunk)
    frames: list[list[int]] = []
    ends, metas, problems = [0], [], {}
    for row, entry in enumerate(content.values()):
        try:
            parse_frames(entry, chunk.size)
            frames += entry["frame_info"]
        except SourceError as error:
            problems[row] = f"{chunk.meta}: {error}"
        ends.append(len(frames))
        metas.append(_list_metas(entry))
    return FrameTable(
        rows=dict(zip(content, range(len(content)), strict=True)),
        files=[chunk.data],
        file=np.zeros(len(content), np.int64),
        starts=np.array(ends, np.int64),
        frames=np.array(frames, np.int64).reshape(-1, 3),
        metas=metas,
        state=(chunk.size, chunk.mtime),
        problems=problems,
    )


def _list_metas(entry: object) -> list[dict[str, Any]]:
    metas = entry.get("meta_data") if isinstance(entry, dict) else None
    return [meta for meta in metas if isinstance(meta, dict)] if isinstance(metas, list) else []
