"""Where a dataset may be made: not in the image folder that it is made of."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.errors import PackError
from headrace.formats.detect import find_format


def check_outside(source: Path, destination: Path, format: str | None) -> None:
    """A destination below an image folder would be one of its classes the next time."""
    place = destination.resolve()
    if not os.path.isdir(source) or source.resolve() not in (place, *place.parents):
        return
    if (format or find_format(source)[0]) == "folder":
        raise PackError(
            f"{destination}: lies inside the image folder {source}, where it would be taken for a class; "
            "choose a folder outside of it"
        )
