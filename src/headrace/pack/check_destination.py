"""Where a dataset may be written: not into the folder of images or videos that it is made from."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import PackError
from headrace.formats.detect import Layout

_NAMES = {"folder": "image folder", "videos": "folder of videos"}


def check_outside(layout: Layout, destination: Path) -> None:
    """Raise PackError if `destination` is a class folder or lies below it, where it would become a class."""
    place = destination.resolve()
    if (
        layout.name in ("folder", "videos")
        and layout.path.is_dir()
        and layout.path.resolve() in (place, *place.parents)
    ):
        raise PackError(
            f"{destination}: lies inside the {_NAMES[layout.name]} {layout.path}, where it would be taken for a class; "
            "choose a folder outside of it"
        )
