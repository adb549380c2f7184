"""Finds out which layout a path has, and opens it."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.errors import SourceError
from penstock.formats.folder import open_folder
from penstock.formats.listing import SUFFIXES as LISTING_SUFFIXES
from penstock.formats.listing import open_listing
from penstock.formats.source import Source


def open_source(
    path: str | os.PathLike[str], *, listing: str | os.PathLike[str] | None = None
) -> Source:
    """The source at `path`: an image folder, a listing of images, or a folder with one listing in it."""
    path = Path(path)
    if listing is not None:
        return open_listing(listing, root=path)
    if path.suffix in LISTING_SUFFIXES and path.is_file():
        return open_listing(path)
    if not path.exists():
        raise SourceError(f"{path}: no such file or directory")
    if not path.is_dir():
        raise SourceError(
            f"{path}: neither a folder nor a listing ({', '.join(sorted(LISTING_SUFFIXES))})"
        )
    return _open_directory(path)


def _open_directory(path: Path) -> Source:
    entries = [entry for entry in os.scandir(path) if not entry.name.startswith(".")]
    listings = [e.name for e in entries if e.is_file() and Path(e.name).suffix in LISTING_SUFFIXES]
    if any(entry.is_dir() for entry in entries) or not listings:
        return open_folder(path)
    if len(listings) > 1:
        raise SourceError(
            f"{path}: several listings ({', '.join(sorted(listings))}); say which one"
        )
    return open_listing(path / listings[0])
