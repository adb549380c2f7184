"""How many steps are rendered at the same time: so many that no thread waits for a slow sample, in bounded memory."""

from __future__ import annotations

from headrace.read.columns import Columns
from headrace.recipe.clip import Shape
from headrace.recipe.core_recipe import Recipe

FEWEST = 2
"""So that no thread pauses at the end of a batch."""

# While one thread renders a picture that takes 50 times as long as others, each other thread renders 50 of these, or
# 34 if every hundredth is so slow. Batches come in order, so all of them belong to steps that are in flight.
_PICTURES = 48  # per thread

# Bounds the memory of large pictures, encoded and rendered.
_BYTES = 64 << 20  # per thread


def count_steps(
    threads: int, batch_size: int, recipe: Recipe, shape: Shape, columns: Columns
) -> int:
    """Return how many steps are rendered at the same time; more than two only within 64 MiB per thread."""
    wanted = -(-threads * _PICTURES // (batch_size * shape.pictures))
    if wanted <= FEWEST:
        return FEWEST
    allowed = threads * _BYTES // (batch_size * _measure_sample(recipe, shape, columns))
    return max(FEWEST, min(wanted, allowed))


def _measure_sample(recipe: Recipe, shape: Shape, columns: Columns) -> int:
    """Return about how many bytes a sample takes, encoded and rendered."""
    count = max(len(columns), 1)
    if recipe.size is None:
        pixels = int(columns.height @ columns.width) // count
    else:
        pixels = recipe.size[0] * recipe.size[1]
    rendered = shape.pictures * pixels * 3 * recipe.output.element.itemsize
    return rendered + int(columns.image.size.sum()) // count + 1
