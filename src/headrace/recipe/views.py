"""Several views of one sample, each with a transform and random draws of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.arguments import check_count

MOST_VIEWS = 128
"""As many views have random numbers of their own: see `Randomness`."""


class Views:
    """Give several results of one sample: the whole transform of a loader, for self-supervised training.

        crop = [RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()]
        Loader("shards/train", 256, shuffle=True, transform=Views(crop, count=2))              # SimCLR
        large = [RandomResizedCrop(224, scale=(0.4, 1.0)), RandomHorizontalFlip(), Normalize()]
        small = [RandomResizedCrop(96, scale=(0.05, 0.4)), RandomHorizontalFlip(), Normalize()]
        Loader("shards/train", 64, shuffle=True, transform=Views(large, large, *[small] * 8))  # DINO

    A batch has a tuple of views in the place of its images, and of each mask, map, points and boxes. View *v* of a
    sample is the same whichever other views there are. The bytes of a sample are read once, and decoded once where
    that is cheaper than decoding the part that each view needs.

    Args:
        transforms: a transform per view: a list of `headrace.transforms`, a torchvision `Compose`, or a function.
        count: how often all of them are repeated.
        stack: give one array [V, B, ...] instead of a tuple. All views need the same size and type.

    Raises:
        ValueError: there are no views, or more than 128.
    """

    def __init__(self, *transforms: Any, count: int = 1, stack: bool = False) -> None:
        check_count("count", count, 1)
        self.transforms = transforms * count
        self.stack = stack
        if not 1 <= len(self.transforms) <= MOST_VIEWS:
            raise ValueError(f"{len(self.transforms)} views; give 1 to {MOST_VIEWS} transforms")
        if any(isinstance(transform, Views) for transform in transforms):
            raise TypeError("a view of Views is itself Views; give all transforms to one Views")

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.transforms))
        return f"Views({shown}{', stack=True' * self.stack})"

    def __len__(self) -> int:
        return len(self.transforms)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.transforms)


def take_views(transform: Any) -> Views | None:
    """Return the `Views` that a transform is, alone or in a list; None if it is another transform.

    Raises:
        ValueError: There are other steps beside them.
    """
    if isinstance(transform, Views):
        return transform
    if not isinstance(transform, (list, tuple)) or not any(isinstance(s, Views) for s in transform):
        return None
    if len(transform) > 1:
        raise ValueError(
            "Views is the whole transform: put the other steps into the transform of each view"
        )
    views = transform[0]
    assert isinstance(views, Views)
    return views
