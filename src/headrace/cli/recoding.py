"""How many images of a dataset recoding would make faster, and how much, for `headrace info`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.image_header import RECODABLE
from headrace.read.dataset import Dataset
from headrace.sample import is_image_field
from headrace.store.index_schema import field_names
from headrace.workbench.bench.kind_costs import measure_recoding

_MEASURED = 8


def find_recoding(dataset: Dataset) -> dict[str, Any] | None:
    """Return how many images of a dataset can be recoded, and how many times as fast a few of them become."""
    images = []
    for name in filter(is_image_field, field_names(dataset.index.schema)):
        kinds = dataset.index[f"{name}.kind"].to_pylist()
        rows = np.flatnonzero([kind in RECODABLE for kind in kinds])
        step = max(1, len(rows) // _MEASURED)
        images += [dataset[int(row)][name] for row in rows[::step][:_MEASURED]]
    return measure_recodable(dataset.manifest.kinds, images)


def measure_recodable(kinds: Mapping[str, int], images: Sequence[bytes]) -> dict[str, Any] | None:
    """Return the same by the kinds of all images, and some of those that can be recoded."""
    count = sum(number for kind, number in kinds.items() if kind in RECODABLE)
    times = measure_recoding(images[:_MEASURED]) if count else None
    return None if times is None else {"images": count, "times_as_fast": round(times, 1)}


def describe_recoding(found: Mapping[str, Any] | None) -> str | None:
    """Say it in a sentence for users; None if there is nothing to recode."""
    if found is None:
        return None
    images = "1 JPEG" if found["images"] == 1 else f"{found['images']:,} JPEGs"
    return (
        f"{images} would render about {found['times_as_fast']:.1f} times as fast, with the same pixels, after "
        "`headrace pack --recode`"
    )
