"""Masks beside their images: which can be loaded, and which are unlike their image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.read.columns import Columns, MaskColumns
from headrace.recipe.core_or_python import Pipeline


def check_masks(
    columns: Columns, pipeline: Pipeline, fields: Sequence[str], *, orient: bool, collates: bool
) -> None:
    """Raise ValueError if masks are wanted that cannot follow their images.

    Args:
        columns: All samples.
        pipeline: Where the steps of the transform run.
        fields: What a batch consists of.
        orient: Whether images are turned upright.
        collates: Whether a function of the user's own makes the batches.
    """
    if not columns.masks:
        return
    name = next(iter(columns.masks))
    if "image" not in fields:
        raise ValueError(f"{name!r} follows the geometry of its image: add 'image' to fields")
    if pipeline.clip is not None:
        raise ValueError(f"{name!r}: masks of clips are not loaded; leave it out of fields")
    if orient:
        raise ValueError(f"{name!r} is not turned with its image: leave orient=True out")
    if pipeline.recipe is None or pipeline.steps or collates:
        places = "; ".join(f"{line.step}: {line.why}" for line in pipeline.lines if line.why)
        raise ValueError(
            f"{name!r} is decoded where the core runs all steps of the transform, without a collate_fn"
            + (f", but not here ({places})" if places else "")
            + "; else ask for its bytes by the name of its field, with the suffix"
        )


def find_unlike(columns: Columns, mask: MaskColumns, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows have no mask of the size of their image. Of images that are damaged, that is the fault."""
    unlike: NDArray[np.bool_] = np.logical_or(
        mask.height[rows] != columns.height[rows], mask.width[rows] != columns.width[rows]
    )
    return unlike & (columns.height[rows] > 0)


def describe_unlike(columns: Columns, mask: MaskColumns, row: int, name: str) -> str:
    """Say why the mask of a row cannot follow its image."""
    if mask.ranges.size[row] == 0:
        return f"it has no {name}"
    if mask.height[row] == 0:
        return f"{name}: it did not decode when it was indexed"
    sizes = [f"{part.width[row]} x {part.height[row]}" for part in (mask, columns)]
    return f"{name}: it has {sizes[0]} pixels, and its image {sizes[1]}"
