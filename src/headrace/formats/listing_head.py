"""The first rows of a CSV or JSON Lines file, by which a folder tells a listing of its images from other tables."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.formats.data_files import has_suffix
from headrace.formats.files import is_image_name
from headrace.formats.listing import PATH_COLUMNS
from headrace.formats.names import is_below
from headrace.formats.pread import open_regular

_ROWS = 8
_CHARACTERS = 1 << 20  # a line may be of any length


def has_columns(listing: Path, names: Sequence[str]) -> bool:
    """Whether the first row has all of these columns."""
    row = next(iter(_read_rows(listing)), None)
    return isinstance(row, dict) and all(name in row for name in names)


def names_images(listing: Path) -> bool:
    """Whether one of the first rows has the path of an image that is there."""
    return any(_is_image_below(listing.parent, row) for row in _read_rows(listing))


def _read_rows(listing: Path) -> list[Any]:
    """Return the first rows, as far as they can be read."""
    rows: list[Any] = []
    try:
        with open(
            open_regular(listing), encoding="utf-8-sig", errors="replace", newline=""
        ) as file:
            lines = file.read(_CHARACTERS).splitlines()
        rows.extend(islice(_parse_rows(listing.name, lines), _ROWS))
    except (OSError, ValueError, RecursionError, csv.Error):  # the last line may be cut
        pass
    return rows


def _parse_rows(name: str, lines: list[str]) -> Iterator[Any]:
    if has_suffix(name, (".csv", ".tsv")):
        return csv.DictReader(lines, delimiter="\t" if has_suffix(name, ".tsv") else ",")
    return (json.loads(line) for line in lines if line.strip())


def _is_image_below(root: Path, row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    path = next((row[name] for name in PATH_COLUMNS if name in row), None)
    if not isinstance(path, str) or not is_below(path) or not is_image_name(path):
        return False
    return os.path.isfile(root / path)  # not Path's: it may be too long for a path
