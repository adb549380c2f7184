"""Where a dataset may be written: not into the image folder that it is made from."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import PackError
from headrace.formats.detect import Layout


def check_outside(layout: Layout, destination: Path) -> None:
    """Raise PackError if `destination` is an image folder or lies below it, where it would become a class."""
    place = destination.resolve()
    if layout.name == "folder" and layout.path.resolve() in (place, *place.parents):
        raise PackError(
            f"{destination}: lies inside the image folder {layout.path}, where it would be taken for a class; "
            "choose a folder outside of it"
        )
