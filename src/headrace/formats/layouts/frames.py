"""20BN's way of keeping videos: a CSV of `id;label` lines, and a folder of frames per id.

A video is one sample with the field `mjpg`, its frames in the order of their file names, in which `2.jpg`
comes before `10.jpg`. Frames are JPEGs; in a folder without them PNGs or WebPs, which are packed only if they are encoded. Labels are integers as they are, or names numbered in sorted order (`007` is
a name); an id with an empty label or none is unlabelled.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.errors import SourceChangedError, SourceError
from headrace.files.limits import check_size, current_limit, read_file
from headrace.files.pread import open_regular
from headrace.formats.codecs.image_signature import sniff_image
from headrace.formats.folder_contents import FolderContents, has_suffix, is_image_name
from headrace.formats.labels import number_names
from headrace.formats.layouts.listing import list_listings
from headrace.formats.listed_files import PATH_COLUMNS
from headrace.sample import Sample, field_name
from headrace.store.keys import is_below, make_keys, printable

_JPEGS = (".jpg", ".jpeg")
_SUFFIXES = (*_JPEGS, ".png", ".webp")
_KINDS = {"jpg": "JPEG", "png": "PNG", "webp": "WebP"}


def find_frame_listing(folder: FolderContents) -> Path | None:
    """Return the listing in a folder, if one of them is a listing of videos. Raise SourceError if there are several."""
    listings = list_listings(folder)
    if any(is_frame_listing(folder.path / n) and _has_frames(folder.path / n) for n in listings):
        return folder.only(listings, "listings")
    return None


def is_frame_listing(path: Path, head: bytes = b"") -> bool:
    """Return whether a file is a CSV of `id;label`: one semicolon in its first line, and no comma before it.

    A list of images that is separated by semicolons does not count.
    """
    if not has_suffix(path.name, ".csv"):
        return False
    try:
        with open(open_regular(path), "rb") as file:
            line, second = file.readline(4096), file.readline(4096)
    except OSError:
        return False
    cells = [text.partition(b";")[0].decode("utf-8-sig", "replace") for text in (line, second)]
    lists_images = cells[0] in PATH_COLUMNS or any(is_image_name(c.strip(' "')) for c in cells)
    return line.count(b";") == 1 and "," not in cells[0] and not lists_images


def _has_frames(listing: Path) -> bool:
    """Return whether one of the first ids has a folder of frames where `open_frames` looks for it."""
    ids, roots = read_first_ids(listing), list_roots(listing)
    return any(_is_video(root / name) for name in filter(is_below, ids) for root in roots)


def read_first_ids(listing: Path) -> list[str]:
    """Return the first ids of a listing of videos, unchecked."""
    with open(open_regular(listing), encoding="utf-8-sig", errors="replace") as file:
        return [line.partition(";")[0].strip() for line in islice(file, 8)]


def _is_video(folder: Path) -> bool:
    # Not Path's: a line of some other file may be too long for a name.
    return os.path.isdir(folder) and any(map(_is_frame_name, os.listdir(folder)))


@dataclass(frozen=True)
class FramesSource:
    """A `Source`: sample `i` is the folder `names[i]` of frames below `root`."""

    root: Path
    names: Sequence[str]
    sizes: np.ndarray
    mtimes: np.ndarray
    labels: Sequence[int | None]
    classes: Sequence[str] | None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    ignored: Sequence[str] = ()
    max_file_size: int = field(default_factory=current_limit)
    keys: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", make_keys(self.names))

    def read(self, i: int) -> Sample:
        """Return the frames of a video, one after the other."""
        folder = self.root / self.names[i]
        check_size(int(self.sizes[i]), self.max_file_size)
        frames = []
        try:
            names, size, mtime = _list_frames(folder)
            if (size, mtime) != (self.sizes[i], self.mtimes[i]):
                raise SourceChangedError("its frames changed after the source was listed")
            for name in names:
                frames.append(read_file(folder / name, self.max_file_size))
                kind = field_name(name.rpartition(".")[2])
                if sniff_image(frames[-1]) != kind:
                    raise SourceError(f"{printable(name)} is not a {_KINDS[kind]}")
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror}") from None
        sizes = {"mjpg": [len(frame) for frame in frames]}
        return Sample(self.keys[i], {"mjpg": b"".join(frames)}, self.labels[i], frames=sizes)


def open_frames(
    listing: str | os.PathLike[str], root: str | os.PathLike[str] | None = None
) -> FramesSource:
    """Open the videos that `listing` names, in its order. Their folders are below `root`; by default, beside
    the listing, or in a folder beside it."""
    listing = Path(listing)
    rows = read_ids(listing)
    folder = Path(root) if root is not None else _find_root(listing, rows[0][0])
    names = [name for name, _ in rows]
    sizes, mtimes = np.empty(len(names), np.int64), np.empty(len(names), np.int64)
    for i, name in enumerate(names):
        try:
            found, sizes[i], mtimes[i] = _list_frames(folder / name)
        except OSError as error:
            raise SourceError(f"{folder / name}: {error.strerror}") from None
        if not found:
            raise SourceError(f"{folder / name}: no frames ({', '.join(_SUFFIXES)}) in it")
    labels, classes = number_labels(listing, [label for _, label in rows])
    return FramesSource(folder, names, sizes, mtimes, labels, classes)


def read_ids(listing: Path) -> list[tuple[str, str | None]]:
    """Return the ids and labels of a listing of videos. SourceError if a line is not `id;label`."""
    rows: list[tuple[str, str | None]] = []
    seen: set[str] = set()
    try:
        data = io.BytesIO(read_file(listing))
        with io.TextIOWrapper(data, encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.reader(file, delimiter=";", strict=True), 1):
                if not row:
                    continue
                name = _check_id(listing, number, row[0].strip())
                if len(row) > 2 or name in seen:
                    what = "listed twice" if name in seen else f"has {len(row)} entries"
                    raise SourceError(f"{listing}, line {number}: {printable(name)} {what}")
                seen.add(name)
                rows.append((name, (row[1].strip() or None) if len(row) == 2 else None))
    except csv.Error as error:
        raise SourceError(
            f"{listing}, after {len(rows)} ids: {error}; are its quotes closed?"
        ) from None
    except UnicodeDecodeError:
        raise SourceError(f"{listing}: not all UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise SourceError(f"{listing}: {error.strerror}") from None
    if not rows:
        raise SourceError(f"{listing}: lists no videos")
    return rows


def _check_id(listing: Path, number: int, name: str) -> str:
    if not is_below(name):
        raise SourceError(f"{listing}, line {number}: {name!r:.80} is not the name of a folder")
    return name


def list_roots(listing: Path) -> list[Path]:
    """Return where videos may be: beside their listing, or in a folder beside it."""
    entries = [e for e in os.scandir(listing.parent) if not e.name.startswith(".")]
    return [listing.parent, *sorted(Path(e.path) for e in entries if e.is_dir())]


def _find_root(listing: Path, name: str) -> Path:
    found = [folder for folder in list_roots(listing) if os.path.isdir(folder / name)]
    roots = [folder for folder in found if _is_video(folder / name)] or found
    if not roots:
        raise SourceError(
            f"{listing}: no folder {printable(name)} beside it; say where the frames are"
        )
    if len(roots) > 1:
        shown = ", ".join(printable(str(root)) for root in roots)
        raise SourceError(
            f"{listing}: several folders have frames of {printable(name)}: {shown}; say which one, "
            f"as in `headrace pack {shlex.quote(str(roots[-1]))} OUT --listing {shlex.quote(str(listing))}`"
        )
    return roots[0]


def _list_frames(folder: Path) -> tuple[list[str], int, int]:
    """Return (names in order, bytes in all, newest mtime) of the frames in a folder: its JPEGs, if there are any."""
    found = [e for e in os.scandir(folder) if _is_frame_name(e.name)]
    found = [e for e in found if e.name.lower().endswith(_JPEGS)] or found
    infos = [entry.stat() for entry in found]
    for entry, info in zip(found, infos, strict=True):
        if not stat.S_ISREG(info.st_mode):
            raise SourceError(f"{entry.path}: not a regular file")
    size, newest = sum(i.st_size for i in infos), max((i.st_mtime_ns for i in infos), default=0)
    return sorted((entry.name for entry in found), key=_split_numbers), size, newest


def _is_frame_name(name: str) -> bool:
    return name.lower().endswith(_SUFFIXES) and not name.startswith(".")  # macOS: ._00001.jpg


def _split_numbers(name: str) -> tuple[list[str | int], str]:
    """Return what frames are sorted by, since ffmpeg's `%d.jpg` writes no zeros before numbers."""
    parts = re.split("([0-9]+)", name)
    return [int(part) if k % 2 else part for k, part in enumerate(parts)], name


def number_labels(
    listing: Path, labels: Sequence[str | None]
) -> tuple[list[int | None], list[str] | None]:
    """Return the number of each label, and class names, or None if the labels are integers."""
    names = {label for label in labels if label is not None}
    if all(name.isdecimal() and len(name) < 18 and str(int(name)) == name for name in names):
        return [None if label is None else int(label) for label in labels], None
    return number_names(listing, labels)
