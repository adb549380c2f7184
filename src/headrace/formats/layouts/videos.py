"""Video files: class folders of them, a listing of paths and labels, or 20BN's CSV of `id;label`.

A listing may have the columns `start` and `end`, in seconds: its row is then that part of the file, and several rows
may cut the same file. 20BN's ids are the names of files without their suffix, beside the CSV or in a folder beside it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.errors import SourceError
from headrace.formats.check_class_folders import check_classes
from headrace.formats.class_folders import list_class_files
from headrace.formats.codecs.video_frames import Span
from headrace.formats.folder_contents import (
    VIDEO_SUFFIXES,
    FolderContents,
    holds_videos,
    is_image_name,
    is_video_name,
    list_folder,
    walk_files,
)
from headrace.formats.image_files import MISSING, stat_files
from headrace.formats.layouts.frames import (
    is_frame_listing,
    list_roots,
    number_labels,
    read_first_ids,
    read_ids,
)
from headrace.formats.layouts.listing import list_listings, names_files
from headrace.formats.listed_files import VIDEOS, check_some_exist, read_listed
from headrace.formats.video_files import VideoFiles
from headrace.formats.video_options import VideoOptions
from headrace.store.keys import is_below, printable, some_names

_ID_SUFFIXES = (".webm", ".mp4", *(s for s in VIDEO_SUFFIXES if s not in (".webm", ".mp4")))


def is_video_listing(path: Path, head: bytes = b"", root: Path | None = None) -> bool:
    """Return whether a file lists video files, of which one of the first exists below `root` or beside the listing."""
    if is_frame_listing(path):
        roots = list_roots(path) if root is None else [root]
        return any(_find_id(folder, name) for name in read_first_ids(path) for folder in roots)
    return path.suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson") and names_files(
        path, VIDEOS, root
    )


def find_videos(folder: FolderContents) -> Path | None:
    """Return the listing of videos in a folder, or the folder itself if there are videos and no images in it.

    Raises:
        SourceError: There are several listings, images as well, or folders that are not classes.
    """
    place = pick_video_listing(folder.path)
    if place != folder.path:
        return place
    if not _has_videos(folder):
        return None
    if _has_images(folder):
        raise SourceError(
            f"{folder.path}: both videos and images below it; say which to take with --format videos or "
            "--format folder"
        )
    check_classes(folder, holds_videos, "videos")
    return folder.path


def pick_video_listing(path: Path) -> Path:
    """Return the listing of videos in a folder, if there is one, otherwise the folder."""
    folder = list_folder(path)
    listings = [n for n in list_listings(folder) if is_video_listing(path / n)]
    return folder.only(listings, "listings of videos") if listings else path


def _has_videos(folder: FolderContents) -> bool:
    """Return whether the samples of a class folder would be videos: those in folders, otherwise those beside them."""
    beside = any(map(is_video_name, folder.files)) and not folder.has_images
    return folder.has_videos or beside


def _has_images(folder: FolderContents) -> bool:
    beside = any(map(is_image_name, folder.files)) and not folder.has_videos
    return folder.has_images or beside


def open_videos(
    path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    path_column: str | None = None,
    label_column: str | None = None,
    video: VideoOptions | None = None,
) -> VideoFiles:
    """Open the videos of a folder or a listing.

    Args:
        path: A folder, or a listing.
        root: The folder that the paths of a listing are relative to. Default: its own folder.
        path_column: The column of paths. Default: one of `PATH_COLUMNS`.
        label_column: The column of labels. Default: `label`, if there is one.
        video: How the frames are made.

    Raises:
        SourceError: The videos cannot be listed.
    """
    path, folder = Path(path), None if root is None else Path(root)
    if path.is_dir():
        source = _open_folder(path)
    elif path_column is None and is_frame_listing(path):
        source = _open_ids(path, folder)
    else:
        source = _open_listing(path, folder or path.parent, path_column, label_column)
    return replace(source, options=video or VideoOptions())


def _open_folder(root: Path) -> VideoFiles:
    what = f"video files ({', '.join(suffix[1:] for suffix in VIDEO_SUFFIXES)})"
    names, sizes, mtimes, labels, classes, ignored = list_class_files(root, is_video_name, what)
    return VideoFiles(root, names, sizes, mtimes, labels, classes, left_out=ignored)


def _open_listing(
    listing: Path, root: Path, path_column: str | None, label_column: str | None
) -> VideoFiles:
    names, labels, classes, columns = read_listed(listing, root, VIDEOS, path_column, label_column)
    sizes, mtimes = stat_files(root, names, is_video_name)
    check_some_exist(listing, root, names, bool((mtimes != MISSING).any()), VIDEOS)
    schema = columns.schema.remove_metadata()
    spans, rows = _read_spans(listing, columns), columns.to_pylist()
    return VideoFiles(root, names, sizes, mtimes, labels, classes, schema, rows, spans)


def _read_spans(listing: Path, columns: pa.Table) -> list[Span]:
    """Return the part of its file that each row is."""
    for name in {"start", "end"} & set(columns.column_names):
        kind = columns[name].type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise SourceError(f"{listing}: the column {name!r} is {kind}; it must be in seconds")
    none = [None] * columns.num_rows
    starts = columns["start"].to_pylist() if "start" in columns.column_names else none
    ends = columns["end"].to_pylist() if "end" in columns.column_names else none
    return [_check_span(listing, k, *pair) for k, pair in enumerate(zip(starts, ends, strict=True))]


def _check_span(listing: Path, row: int, start: Any, end: Any) -> Span:
    span = Span(0.0 if start is None else float(start), None if end is None else float(end))
    numbers = [n for n in span if n is not None]
    if not all(map(math.isfinite, numbers)) or numbers[0] < 0 or numbers != sorted(set(numbers)):
        raise SourceError(
            f"{listing}, row {row + 1}: from {start} to {end}: `start` must be at least 0 and less than `end`"
        )
    return span


def _open_ids(listing: Path, root: Path | None) -> VideoFiles:
    rows = read_ids(listing)
    folder = root or _find_root(listing, rows[0][0])
    names = [_find_id(folder, name) or name for name, _ in rows]
    missing = [name for name, (wanted, _) in zip(names, rows, strict=True) if name == wanted]
    missing = [name for name in missing if not is_video_name(name)]
    if missing:
        raise SourceError(
            f"{listing}: no video {some_names(missing)} ({', '.join(_ID_SUFFIXES[:2])}, ...) in {folder}"
        )
    sizes, mtimes = stat_files(folder, names, is_video_name)
    labels, classes = number_labels(listing, [label for _, label in rows])
    return VideoFiles(folder, names, sizes, mtimes, labels, classes)


def _find_root(listing: Path, name: str) -> Path:
    roots = [folder for folder in list_roots(listing) if _find_id(folder, name)]
    if len(roots) != 1:
        what = "no video" if not roots else "several folders have a video"
        raise SourceError(
            f"{listing}: {what} {printable(name)} beside it; say where the videos are, as in "
            "`headrace pack FOLDER OUT --listing LISTING`"
        )
    return roots[0]


def _find_id(folder: Path, name: str) -> str | None:
    """Return the name of the video file that an id stands for, if there is one."""
    if not is_below(name):
        return None
    names = [name] if is_video_name(name) else [name + suffix for suffix in _ID_SUFFIXES]
    return next((n for n in names if os.path.isfile(folder / n)), None)


def name_unlisted_videos(source: VideoFiles, folder: Path, taken: str) -> VideoFiles:
    """Return the source of the listing `taken`, with the other listings and videos of its folder in `ignored`."""
    listed = {os.path.relpath(source.root / file, folder) for file in source.files}
    names = (name for name, _ in walk_files(folder, strict=False) if is_video_name(name))
    others: Sequence[str] = [n for n in list_listings(list_folder(folder)) if n != taken]
    unlisted = sorted(name for name in names if name not in listed)
    return replace(source, left_out=[*(f"{n} (another listing)" for n in others), *unlisted])
