"""Image files by names without a suffix, such as the ids in Kaggle's listings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import SourceError
from headrace.formats.files import is_image_name
from headrace.formats.names import printable


def find_images(listing: Path, root: Path, names: Sequence[str]) -> list[str]:
    """Return the file below `root` that each name stands for.

    A name with the suffix of an image stays as it is, and so does one that no file has: it is missing when
    it is read. Raises SourceError for a name that several files have.
    """
    folders: dict[str, dict[str, list[str]]] = {}
    found = []
    for row, name in enumerate(names):
        if is_image_name(name):
            found.append(name)
            continue
        folder, slash, stem = name.rpartition("/")
        if folder not in folders:
            folders[folder] = _list_stems(root / folder)
        files = folders[folder].get(stem, [])
        if len(files) > 1:
            shown = " and ".join(map(printable, sorted(files)[:2]))
            raise SourceError(
                f"{listing}, row {row + 1}: {name!r:.80} may be {shown}; list the files with their suffixes"
            )
        found.append(f"{folder}{slash}{files[0]}" if files else name)
    return found


def _list_stems(folder: Path) -> dict[str, list[str]]:
    """Return the images of a folder by their names without the suffix."""
    stems: dict[str, list[str]] = {}
    try:
        entries = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    for entry in entries:
        if is_image_name(entry):
            stems.setdefault(entry.rpartition(".")[0], []).append(entry)
    return stems
