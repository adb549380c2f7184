"""Finds out which layout a path has, by what is in it, and opens it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from headrace.errors import SourceError
from headrace.formats.arrow_files import DATASET_DICT, open_arrow
from headrace.formats.class_tars import check_no_classes
from headrace.formats.classes import check_classes, has_classes
from headrace.formats.data_files import has_suffix, is_pattern, match_files
from headrace.formats.files import ImageFiles, is_file, is_folder, is_hidden, is_image_name
from headrace.formats.folder import MANIFEST, open_folder, walk_files
from headrace.formats.frames import has_frames, is_frame_listing, open_frames
from headrace.formats.gulp import open_gulp
from headrace.formats.limits import DEFAULT_MAX_FILE_SIZE, blame_file, limit_file_size
from headrace.formats.listing import SUFFIXES as LISTING_SUFFIXES
from headrace.formats.listing import open_listing
from headrace.formats.listing_head import has_columns, names_images
from headrace.formats.lmdb import DATA_FILE, open_lmdb
from headrace.formats.lmdb_pages import MAGIC, scan_lmdb
from headrace.formats.names import printable, some_names
from headrace.formats.parquet import open_parquet
from headrace.formats.pread import open_regular
from headrace.formats.source import Source
from headrace.formats.tfrecord import is_tfrecord, open_tfrecord
from headrace.formats.unfinished import check_finished
from headrace.formats.unified_doc import is_unified_doc, open_unified_doc
from headrace.formats.webdataset import WebDatasetSource, is_tar_name, open_webdataset

OPENERS: dict[str, Callable[[str | os.PathLike[str]], Source]] = {
    "arrow": open_arrow,
    "folder": open_folder,
    "frames": open_frames,
    "gulp": open_gulp,
    "listing": open_listing,
    "lmdb": open_lmdb,
    "parquet": open_parquet,
    "tfrecord": open_tfrecord,
    "unified-doc": open_unified_doc,
    "webdataset": open_webdataset,
}
"""How each layout is opened, by the name that `--format` takes."""

_log = logging.getLogger("headrace")
_LOOKED_AT = 8
_WALKED = 100_000  # files, in well under a second
_WALKED_ON = 10_000  # when there are images: a table lies among few files, if at all


def open_source(
    path: str | os.PathLike[str],
    *,
    listing: str | os.PathLike[str] | None = None,
    format: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    max_file_size: int = DEFAULT_MAX_FILE_SIZE,
) -> Source:
    """Open the source at `path`, in any layout that we know.

    Args:
        path: A file, a folder, or a pattern of files.
        listing: A CSV or JSON Lines file that says which images, or folders of frames, below `path`
            belong to the dataset.
        format: The layout. Default: found by what is in the files.
        path_column: The column of a listing that has the paths, or file names without their suffix.
        label_column: The column of a listing that has the labels.
        max_file_size: The largest file, record or video that is read, in bytes.

    Raises:
        SourceError: There is no such source, or it cannot be read.

        open_source("ILSVRC-train.lmdb").read(0)
    """
    if format is not None and format not in OPENERS:
        raise ValueError(f"format is {format!r}; it must be one of {', '.join(OPENERS)}")
    path = Path(path).absolute()  # not abspath, which takes `link/..` wrongly
    listing = None if listing is None else Path(listing).absolute()
    given = {"path_column": path_column, "label_column": label_column}
    columns = {name: column for name, column in given.items() if column is not None}
    if columns and format not in (None, "listing"):
        raise ValueError(
            f"{' and '.join(columns)} cannot be combined with format={format!r}: only a listing has named "
            "columns; use format='listing' or omit it"
        )
    with limit_file_size(max_file_size), blame_file(path):
        check_finished(path)
        if columns:
            return _open_columns(path, listing, columns)
        if listing is not None:
            frames = format == "frames" or (format is None and is_frame_listing(listing))
            return (open_frames if frames else open_listing)(listing, root=path)
        return _open_found(path, format)


def _open_columns(path: Path, listing: Path | None, columns: Mapping[str, str]) -> Source:
    """Open a listing whose columns are given: at `path`, in it, or beside it."""
    if listing is not None or not path.is_dir():
        return open_listing(listing or path, path if listing else None, **columns)
    place = _find_listing(path, list(columns.values()))
    return _name_unlisted(open_listing(place, **columns), path, place.name)


def _open_found(path: Path, format: str | None) -> Source:
    name, place = (format, path) if format is not None else find_format(path)
    if format in ("frames", "listing") and path.is_dir():
        place = _find_listing(path)
    try:
        source = OPENERS[name](place)
        if format is None and isinstance(source, WebDatasetSource):
            check_no_classes(path, source.tar_names)
        if name == "listing" and path.is_dir():
            return _name_unlisted(source, path, Path(place).name)
        return source
    except SourceError as error:
        if format is not None or place == path:
            raise
        raise SourceError(
            f"{error} ({path} was taken for a {name} layout because of {place}; --format says otherwise)"
        ) from None


def find_format(path: str | os.PathLike[str]) -> tuple[str, str | os.PathLike[str]]:
    """Return the format and the path to open of what lies at `path`: a listing may be in a folder."""
    with blame_file(path):
        check_finished(path)
        return _find_format(path)


def _find_format(path: str | os.PathLike[str]) -> tuple[str, str | os.PathLike[str]]:
    if is_pattern(path):
        return _look_at_matches(path), path
    path = Path(path)
    if not path.exists():
        raise SourceError(f"{path}: no such file or directory")
    if path.is_dir():
        return _look_at_folder(path)
    if not path.is_file():
        raise SourceError(f"{path}: neither a file nor a folder")
    name = _look_at_file(path)
    if name is None:
        raise SourceError(
            f"{path}: no layout that is known; say which one with --format ({', '.join(OPENERS)})"
        )
    return name, path


def _look_at_matches(pattern: str | os.PathLike[str]) -> str:
    """The layout of the first file; the opener finds out whether the others have it too."""
    name = _look_at_file(match_files(pattern)[0])
    if name not in ("arrow", "parquet", "tfrecord", "webdataset"):
        raise SourceError(
            f"{pattern}: patterns are for tars, Parquet, Arrow and TFRecord files, and the first is none; "
            "say which one with --format"
        )
    return name


def _look_at_file(path: Path) -> str | None:
    with open(open_regular(path), "rb") as file:
        head = file.read(512)
    if head[16:20] == MAGIC.to_bytes(4, "little"):
        return _which_lmdb(path)
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:6] == b"ARROW1" or (head[:4] == b"\xff" * 4 and has_suffix(path.name, ".arrow")):
        return "arrow"
    if is_tar_name(path.name) or head[257:262] == b"ustar":
        return "webdataset"
    if has_suffix(path.name, LISTING_SUFFIXES):
        return "frames" if is_frame_listing(path) else "listing"
    if is_tfrecord(path):
        return "tfrecord"
    return "lmdb" if has_suffix(path.name, (".lmdb", ".mdb")) else None


def _which_lmdb(path: Path) -> str:
    """Databases differ by their keys; one that cannot be read is left to its opener to refuse."""
    try:
        fd = open_regular(path / DATA_FILE if path.is_dir() else path)
    except OSError:
        return "lmdb"
    try:
        keys = [entry.key for entry, _ in zip(scan_lmdb(fd), range(64), strict=False)]
    except (OSError, SourceError):
        return "lmdb"
    finally:
        os.close(fd)
    keys = [key for key in keys if not key.startswith(b"__")]
    return "unified-doc" if keys and is_unified_doc(keys) else "lmdb"


def _look_at_folder(path: Path) -> tuple[str, Path]:
    entries = sorted(
        (entry for entry in os.scandir(path) if not is_hidden(entry.name)), key=lambda e: e.name
    )
    names = [entry.name for entry in entries if is_file(entry)]
    if DATA_FILE in names:
        return _which_lmdb(path), path
    if any(name.endswith((".gulp", ".gmeta")) for name in names):
        return "gulp", path
    folders = [entry.name for entry in entries if is_folder(entry)]
    has_images, tables = _look_below(path) if folders else (False, [])
    if has_images:
        _check_no_data(path, [*names, *tables], folders)
        return _look_at_listings(path, names, folders) or _take_folders(path, folders)
    if any(map(is_tar_name, names)):
        return "webdataset", path
    databases = [entry.name for entry in entries if has_suffix(entry.name, ".lmdb")]
    if databases:
        inner = path / _only(path, databases, "databases")
        return _which_lmdb(inner), inner
    if any(has_suffix(name, ".parquet") for name in names):
        return "parquet", path
    if any(has_suffix(n, ".arrow") for n in names) and MANIFEST not in names:  # not of an index
        return "arrow", path
    if DATASET_DICT in names:
        return "arrow", path
    found = _look_at_listings(path, names, folders)
    if found is not None:
        return found
    if tables:
        return "parquet", path
    return ("tfrecord", path) if _has_tfrecords(path, names) else _take_folders(path, folders)


def _look_below(path: Path) -> tuple[bool, list[str]]:
    """Whether there are images in the folders below, and which Parquet files, among the first of both kinds."""
    has_images, tables, walked = False, [], 0
    for name, _ in islice(walk_files(path, strict=False), _WALKED):
        if "/" in name:
            walked += 1
            has_images |= is_image_name(name)
            if has_suffix(name, ".parquet"):
                tables.append(name)
        if has_images and (tables or walked > _WALKED_ON):
            break
    return has_images, tables


def _check_no_data(path: Path, names: list[str], folders: list[str]) -> None:
    """SourceError if there is data beside the images, but for tars that classes came in, as ImageNet's do."""
    stems = {name: Path(name).stem for name in names if is_tar_name(name)}
    data = [n for n, stem in stems.items() if not {stem, Path(stem).stem} & set(folders)]
    data += [name for name in (*names, *folders) if has_suffix(name, (".lmdb", ".parquet"))]
    if data:
        ways = [
            *_list_ways(path, data),
            *(["--format folder"] if has_classes(path, folders) else []),
        ]
        raise SourceError(
            f"{path}: both {some_names(data)} and folders of images ({some_names(folders)}); say which to take "
            f"with {' or '.join(ways)}"
        )


def _list_ways(path: Path, data: Sequence[str]) -> list[str]:
    """Return how to ask for each kind of data: a database is found by its own path alone."""
    kinds = {"webdataset": is_tar_name, "parquet": lambda name: has_suffix(name, ".parquet")}
    ways = [f"--format {kind}" for kind, is_kind in kinds.items() if any(map(is_kind, data))]
    return ways + [f"the path {path / name}" for name in data if has_suffix(name, ".lmdb")]


def _look_at_listings(path: Path, names: list[str], folders: list[str]) -> tuple[str, Path] | None:
    listings = [name for name in names if has_suffix(name, LISTING_SUFFIXES)]
    if any(is_frame_listing(path / name) and has_frames(path / name) for name in listings):
        return "frames", path / _only(path, listings, "listings")
    naming = [name for name in listings if names_images(path / name)]
    listings = naming if folders or naming else listings
    if not listings:
        return None
    only = _only(path, listings, "listings")
    if has_classes(path, folders):
        raise SourceError(
            f"{path}: both {printable(only)}, which names images, and folders of images ({some_names(folders)}); "
            "say which to take with --format listing or --format folder"
        )
    return "listing", path / only


def _take_folders(path: Path, folders: list[str]) -> tuple[str, Path]:
    check_classes(path, folders)
    return "folder", path


def _has_tfrecords(path: Path, names: list[str]) -> bool:
    """Among the first files that are no images: they have no suffix that one could go by."""
    others = [name for name in names if not is_image_name(name)]
    return any(is_tfrecord(path / name) for name in others[:_LOOKED_AT])


def _name_unlisted(source: Source, path: Path, taken: str) -> Source:
    """Return the source of a folder's listing, with what it leaves out in `ignored`: images and other listings."""
    assert isinstance(source, ImageFiles)
    listed = set(source.names)
    names = (name for name, _ in walk_files(path, strict=False) if is_image_name(name))
    unlisted = sorted(name for name in names if name not in listed)
    others = [name for name in _list_listings(path) if name != taken]
    if others:
        _log.warning("%s: %s is taken as the listing, and not %s", path, taken, some_names(others))
    return replace(source, ignored=[*(f"{n} (another listing)" for n in others), *unlisted])


def _list_listings(path: Path) -> list[str]:
    shown = [p.name for p in path.iterdir() if not is_hidden(p.name)]
    return sorted(name for name in shown if has_suffix(name, LISTING_SUFFIXES))


def _find_listing(path: Path, columns: Sequence[str] = ()) -> Path:
    """Return the only listing in a folder; of several, the one that has the columns."""
    names = _list_listings(path)
    if not names:
        raise SourceError(f"{path}: no listing ({', '.join(LISTING_SUFFIXES)}) in it")
    if columns and len(names) > 1:
        listings, names = names, [n for n in names if has_columns(path / n, columns)]
        if not names:
            raise SourceError(
                f"{path}: none of its listings ({some_names(listings)}) has the columns {columns!s:.200}"
            )
    return path / _only(path, names, "listings")


def _only(path: Path, names: list[str], what: str) -> str:
    if len(names) > 1:
        raise SourceError(f"{path}: several {what} ({', '.join(sorted(names))}); say which one")
    return names[0]
