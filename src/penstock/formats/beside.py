"""Images that a table has only the path of: files in the folder of the table or below it, never elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import SourceError
from penstock.formats.files import is_image_name
from penstock.formats.limits import blame_file, read_file
from penstock.formats.names import is_below


def read_beside(folder: Path, name: str, limit: int) -> bytes:
    """Return the bytes of the image `name` below `folder`.

    Raises:
        SourceError: There is no such file, it is too large, or the path leads out of the folder.
    """
    problem = _find_problem(folder, name)
    if problem is not None:
        raise SourceError(f"only the path {name!r:.80} of an image, which {problem}")
    with blame_file(folder / name):
        return read_file(folder / name, limit)


def check_beside(path: object, places: Sequence[tuple[Path, str]]) -> None:
    """Raise SourceError if a table has nothing but paths, and none of the first is an image beside it."""
    problems = [_find_problem(folder, name) for folder, name in places]
    if places and None not in problems:
        name = places[0][1]
        raise SourceError(
            f"{path}: its images are only paths, such as {name!r:.80}, which {problems[0]}; "
            "put the files there, or save the table again with the bytes of its images"
        )


def _find_problem(folder: Path, name: str) -> str | None:
    """Return why a path is not read; None if it is an image below the folder, links followed."""
    if os.path.isabs(name):
        return f"is an absolute path: paths are relative to the folder of the table, {folder}"
    if not is_below(name):
        return f"does not lie below {folder}"
    if not is_image_name(name):
        return "does not have the suffix of an image"
    place = os.path.realpath(folder / name)
    if not os.path.isfile(place):
        return f"is not a file below {folder}"
    if Path(os.path.realpath(folder)) not in Path(place).parents:
        return f"leads out of {folder}"
    return None
