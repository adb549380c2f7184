"""Folders that a packer was killed in: some of their shards look like a small WebDataset."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from headrace.errors import SourceError
from headrace.formats.data_files import is_pattern, match_files
from headrace.formats.folder import MANIFEST

PACKING = ".packing"
"""The folder where a packer keeps its shards until all of them are done."""


def describe_unfinished(folder: Path) -> str | None:
    """Say that `folder` was not packed to its end, and how to resume; None if that is not so."""
    if not os.path.isdir(folder / PACKING) or os.path.exists(folder / MANIFEST):
        return None
    place = shlex.quote(str(folder))
    return (
        f"{folder}: no manifest, since packing was not finished or is still running; run "
        f"`headrace pack SRC {place}` again to resume it"
    )


def check_finished(path: str | os.PathLike[str]) -> None:
    """Raise SourceError if `path`, a folder, a file or a pattern, is part of an unfinished dataset."""
    paths = match_files(path) if is_pattern(path) else [Path(path)]
    for folder in {path if os.path.isdir(path) else path.parent for path in paths}:
        if said := describe_unfinished(folder):
            raise SourceError(said)
