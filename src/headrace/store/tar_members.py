"""The members of a sample in a shard: one per field, and what WebDataset has beside them.

`cls` is the label, `json` has the columns, and `<field>.frames.json` the frame sizes of a video, with its
rate and times if they are known. So the index can be rebuilt from the shard.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from headrace.sample import Sample

FRAMES = ".frames.json"
"""The end of the name of the member that has the frame sizes: see docs/reference/layouts.md."""


def _make_plain(value: Any) -> Any:
    """Return Python's numbers for NumPy's, and None for infinities and NaN: JSON has none, the index keeps them."""
    if isinstance(value, (np.number, np.bool_)):
        value = value.item()
    if isinstance(value, dict):
        return {name: _make_plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_make_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shard_fields(sample: Sample) -> dict[str, bytes]:
    """Return the fields of a sample, with those that hold its label, columns and frame sizes."""
    fields = dict(sample.fields)
    if sample.label is not None:
        fields.setdefault("cls", b"%d" % sample.label)
    if sample.columns:
        columns = _make_plain(dict(sample.columns))
        text = json.dumps(columns, ensure_ascii=False, default=str, allow_nan=False)
        fields.setdefault("json", text.encode())
    for name in sample.frames:
        fields.setdefault(name + FRAMES, json.dumps(_describe_frames(sample, name)).encode())
    return fields


def _describe_frames(sample: Sample, name: str) -> Any:
    """Return the frame sizes of a video; with its rate and times, if they are known."""
    sizes = list(sample.frames[name])
    if name not in sample.fps and name not in sample.times:
        return sizes
    frames: dict[str, Any] = {"sizes": sizes}
    if name in sample.fps:
        frames["fps"] = sample.fps[name]
    if name in sample.times:
        frames["times"] = list(sample.times[name])
    return frames
