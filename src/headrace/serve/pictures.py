"""The images of a sample: where they lie, and the recipe of each of their views.

All images of a sample share their random numbers. Boxes are drawn from the size of each image, so that images of one
size get equal boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.kinds import Image
from headrace.read.columns import Columns
from headrace.read.field_columns import PictureColumns
from headrace.recipe.buckets import Buckets
from headrace.recipe.core_or_python import Pipeline
from headrace.recipe.core_recipe import Recipe
from headrace.recipe.randomness import Randomness
from headrace.render import Draws
from headrace.render.options import BYTES
from headrace.serve.derived_options import find_common_size

IMAGE, LABEL = "image", "label"
Drawn = Mapping[str, tuple[Draws, ...]]
"""The draws of each view, by the name of the image."""
DEFAULT = Image()


@dataclass(frozen=True, eq=False)
class Picture:
    """An image of the samples.

    Args:
        name: Its name among the fields.
        columns: Where it lies.
        recipes: What the core makes of it, for each view. Empty: it is passed on as it is encoded.
        kind: How its bytes are read.
    """

    name: str
    columns: PictureColumns
    recipes: tuple[Recipe, ...]
    kind: Image = DEFAULT

    def draw(self, randomness: Randomness, rows: NDArray[np.int64]) -> tuple[Draws, ...]:
        """Return the draws of each view of the images of some rows."""
        # A damaged image has no size. Any box will do, since the result is not used.
        heights, widths = (np.maximum(sides[rows], 1) for sides in self.sides)
        return tuple(
            recipe.draw(randomness.of_view(view), heights, widths)
            for view, recipe in enumerate(self.recipes)
        )

    @property
    def sides(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Heights and widths of all images."""
        return self.columns.height, self.columns.width

    def cover(self, buckets: Buckets, number: int) -> Picture:
        """Return the same with the recipes of a bucket."""
        size = buckets.sizes[number]
        recipes = tuple(recipe.cover(size, buckets.crop) for recipe in self.recipes)
        return replace(self, recipes=recipes)

    def leave_bytes(self) -> Picture:
        """Return the same without the core's conversion to floats."""
        recipes = tuple(replace(recipe, output=BYTES) for recipe in self.recipes)
        return replace(self, recipes=recipes)


def list_pictures(
    columns: Columns,
    fields: Sequence[str],
    pipelines: Sequence[Pipeline],
    subset: NDArray[np.int64] | None,
    *,
    any_size: bool,
) -> tuple[Picture, ...]:
    """Return the images among the fields of a batch, in their order.

    Args:
        columns: All samples.
        fields: What a batch consists of.
        pipelines: Where the steps of each view run.
        subset: Rows that are used; None for all.
        any_size: Whether results may differ in size.
    """
    found = find_pictures(columns, fields)
    return tuple(
        Picture(
            name,
            picture,
            _fit_recipes(pipelines, find_common_size(picture, subset), any_size),
            _find_kind(columns, name),
        )
        for name, picture in found.items()
    )


def find_pictures(columns: Columns, fields: Sequence[str]) -> dict[str, PictureColumns]:
    """Return the images among the fields of a batch, by their names."""
    found = {IMAGE: columns.picture, **columns.pictures}
    return {name: found[name] for name in fields if name in found}


def _fit_recipes(
    pipelines: Sequence[Pipeline], size: tuple[int, int] | None, any_size: bool
) -> tuple[Recipe, ...]:
    recipes = [pipeline.recipe for pipeline in pipelines]
    return tuple(recipe.fit(size, any_size=any_size) for recipe in recipes if recipe is not None)


def _find_kind(columns: Columns, name: str) -> Image:
    kind = columns.requested.kinds.get(name)
    return kind if isinstance(kind, Image) else DEFAULT
