"""Batches of one size each, for images of different aspect ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headrace.arguments import as_integer, check_choice, check_count

Size = tuple[int, int]


@dataclass(frozen=True)
class Buckets:
    """Sizes of batches, of which each image goes into the one with the nearest aspect ratio.

        Loader("shards/train", 32, shuffle=True, buckets=Buckets([(512, 512), (384, 672), (672, 384)]))

    Each image is resized so that it covers the size of its batch, and cropped to it. Batches are formed among the
    images of `block` consecutive global batches; the images that are left over there go to the nearest bucket. So an
    epoch has the same length and the same samples as without buckets, and all ranks render the same size at a step.

    Args:
        sizes: (height, width) of each bucket.
        crop: which part of the image is shown: `center` or `random`.
        block: global batches that images are exchanged within. Default: about 8,192 images, but 32 to 128 batches.
    """

    sizes: tuple[Size, ...]
    crop: Literal["center", "random"] = "center"
    block: int | None = None

    def __init__(
        self,
        sizes: Sequence[Sequence[int]],
        crop: Literal["center", "random"] = "center",
        block: int | None = None,
    ) -> None:
        check_choice("crop", crop, ("center", "random"))
        if block is not None:
            check_count("block", block, 1)
        pairs = tuple(map(_read_size, sizes))
        if not pairs:
            raise ValueError("buckets: there are no sizes; give a list of (height, width)")
        ratios = {height / width for height, width in pairs}
        if len(ratios) < len(pairs):
            raise ValueError(f"buckets: {pairs}: give each aspect ratio once")
        for name, value in (("sizes", pairs), ("crop", crop), ("block", block)):
            object.__setattr__(self, name, value)

    @property
    def ratios(self) -> tuple[float, ...]:
        """height / width of each bucket."""
        return tuple(height / width for height, width in self.sizes)


def _read_size(size: Any) -> Size:
    sides = [as_integer(side) for side in size] if isinstance(size, Sequence) else []
    if len(sides) != 2 or any(side is None or side < 1 for side in sides):
        raise ValueError(f"buckets: {size!r} is not a size; give (height, width) in pixels")
    height, width = sides
    assert height is not None and width is not None
    return height, width
