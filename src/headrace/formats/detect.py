"""Detects which layout a path has, by what is in it.

A layout is one file in `layouts/` and one line in `LAYOUTS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from headrace.errors import SourceError
from headrace.files.limits import DEFAULT_MAX_FILE_SIZE, blame_file, limit_file_size
from headrace.files.pread import open_regular
from headrace.formats.field_files import read_field_options
from headrace.formats.file_patterns import is_pattern, match_files
from headrace.formats.folder_contents import FolderContents, list_folder
from headrace.formats.image_files import ImageFiles, place_images
from headrace.formats.layouts import (
    arrow,
    coco,
    folder,
    frames,
    gulp,
    listing,
    lmdb,
    pairs,
    parquet,
    tfrecord,
    unified_doc,
    videos,
    webdataset,
)
from headrace.formats.layouts.listing import name_unlisted, pick_listing
from headrace.formats.layouts.videos import is_video_listing, name_unlisted_videos
from headrace.formats.source import PlacedSource, Source, place_rows
from headrace.formats.video_files import VideoFiles
from headrace.formats.video_options import VideoOptions
from headrace.store.manifest import describe_unfinished

_Opened = TypeVar("_Opened")


class LayoutKind(NamedTuple):
    """How a layout is recognised and opened."""

    open: Callable[..., Source]
    """Opens a path that is known to have the layout."""
    in_file: Callable[[Path, bytes], bool] = lambda path, head: False
    """Returns whether a file has the layout, by its name and first 512 bytes."""
    in_folder: Callable[[FolderContents], Path | None] = lambda folder: None
    """Returns what to open in a folder, None if it does not have the layout. Raises SourceError if that is doubtful."""
    place: Callable[[Any], PlacedSource] | None = None
    """Prepares an open source to be indexed in place."""
    stream: Callable[..., PlacedSource] | None = None
    """Opens a path to be indexed in place, where that takes less than `open`."""
    has_patterns: bool = False
    """Whether `open` takes a pattern of files."""
    when_detected: Mapping[str, Any] = {}
    """Options for `open` and `stream` if nobody has named the layout."""

    @property
    def is_indexable(self) -> bool:
        """Whether the layout can be indexed in place."""
        return self.place is not None or self.stream is not None


def _is_frames(path: Path, head: bytes) -> bool:
    return frames.is_frame_listing(path) and not is_video_listing(path)


# The first line that recognises a path decides.
LAYOUTS: dict[str, LayoutKind] = {
    "gulp": LayoutKind(gulp.open_gulp, in_folder=gulp.find_gulp, place=place_rows),
    "webdataset": LayoutKind(
        webdataset.open_webdataset,
        webdataset.is_tar,
        webdataset.find_tar_folder,
        stream=webdataset.place_tars,
        has_patterns=True,
        when_detected={"refuse_classes": True},
    ),
    "unified-doc": LayoutKind(
        unified_doc.open_unified_doc,
        unified_doc.is_unified_doc,
        unified_doc.find_unified_doc,
        has_patterns=True,
    ),
    "lmdb": LayoutKind(lmdb.open_lmdb, lmdb.is_lmdb, lmdb.find_lmdb, place_rows),
    "parquet": LayoutKind(
        parquet.open_parquet, parquet.is_parquet, parquet.find_parquet, has_patterns=True
    ),
    "arrow": LayoutKind(arrow.open_arrow, arrow.is_arrow, arrow.find_arrow, has_patterns=True),
    "frames": LayoutKind(frames.open_frames, _is_frames, frames.find_frame_listing),
    "videos": LayoutKind(videos.open_videos, videos.is_video_listing, videos.find_videos),
    "listing": LayoutKind(
        listing.open_listing, listing.is_listing, listing.find_listing, place_images
    ),
    "coco": LayoutKind(coco.open_coco, place=coco.place_coco),
    "pairs": LayoutKind(pairs.open_pairs, in_folder=pairs.find_pairs),
    "tfrecord": LayoutKind(
        tfrecord.open_tfrecord,
        tfrecord.is_tfrecord,
        tfrecord.find_tfrecords,
        place_rows,
        has_patterns=True,
    ),
    "folder": LayoutKind(
        folder.open_folder, in_folder=folder.find_class_folders, place=place_images
    ),
}
"""All layouts, by the names that `--format` takes."""


@dataclass(frozen=True)
class Layout:
    """What `detect` found at `path`: the layout's name, and the file or folder to open."""

    name: str
    path: Path
    place: Path
    is_detected: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    max_file_size: int = DEFAULT_MAX_FILE_SIZE

    def open(self) -> Source:
        """Open the source. Raise SourceError if it cannot be read."""
        source = self._open_with(LAYOUTS[self.name].open)
        if self.name == "listing" and "root" not in self.options and self.path.is_dir():
            assert isinstance(source, ImageFiles)
            return name_unlisted(source, self.path, self.place.name)
        if self.name == "videos" and "root" not in self.options and self.place != self.path:
            assert isinstance(source, VideoFiles)
            return name_unlisted_videos(source, self.path, self.place.name)
        return source

    def open_in_place(self) -> PlacedSource:
        """Open the source to be indexed where it lies. Raise SourceError if it cannot be."""
        kind = LAYOUTS[self.name]
        if kind.stream is not None:
            return self._open_with(kind.stream)
        if kind.place is None:
            raise SourceError(
                f"{self.path}: {self.name} samples do not lie contiguous in files and cannot be indexed in place; "
                "pack it instead"
            )
        return kind.place(self.open())

    def _open_with(self, opener: Callable[..., _Opened]) -> _Opened:
        try:
            with limit_file_size(self.max_file_size), blame_file(self.path):
                return opener(self.place, **self.options)
        except SourceError as error:
            if not self.is_detected or self.place == self.path:
                raise
            raise SourceError(
                f"{error} ({self.path} was taken for a {self.name} layout because of {self.place}; "
                "use --format if it is another)"
            ) from None


def open_source(
    path: str | os.PathLike[str],
    *,
    listing: str | os.PathLike[str] | None = None,
    format: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    fields: Mapping[str, str] | None = None,
    annotations: str | os.PathLike[str] | None = None,
    max_file_size: int = DEFAULT_MAX_FILE_SIZE,
) -> Source:
    """Open the source at `path`, in any layout that we know.

    Args:
        path: A file, a folder, or a pattern of files.
        listing: A CSV or JSON Lines file that says which images, or folders of frames, below `path`
            belong to the dataset.
        format: The layout. Default: detected.
        path_column: The column of a listing that has the paths, or file names without their suffix.
        label_column: The column of a listing that has the labels.
        fields: The folder of each field below `path`, or a pattern of its files: see docs/reference/layouts.md#pairs.
        annotations: COCO's JSON of annotations of the images below `path`.
        max_file_size: The largest file, record or video that is read, in bytes.

    Returns:
        The samples by number, and what is known before they are read.

    Raises:
        SourceError: There is no such source, or it cannot be read.

        open_source("ILSVRC-train.lmdb").read(0)
    """
    return detect(
        path,
        listing=listing,
        format=format,
        path_column=path_column,
        label_column=label_column,
        fields=fields,
        annotations=annotations,
        max_file_size=max_file_size,
    ).open()


def detect(
    path: str | os.PathLike[str],
    *,
    listing: str | os.PathLike[str] | None = None,
    format: str | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    fields: Mapping[str, str] | None = None,
    annotations: str | os.PathLike[str] | None = None,
    max_file_size: int = DEFAULT_MAX_FILE_SIZE,
    video: VideoOptions | None = None,
) -> Layout:
    """Return the layout of what lies at `path`, which remembers how to open it.

    Args: as of `open_source`, and `video`: how the frames of video files are made.

    Raises:
        SourceError: There is nothing at `path`, it has no known layout, or it may have several.
    """
    if format is not None and format not in LAYOUTS:
        raise ValueError(f"format is {format!r}; it must be one of {', '.join(sorted(LAYOUTS))}")
    given = {"path_column": path_column, "label_column": label_column}
    columns = {name: column for name, column in given.items() if column is not None}
    if columns and format not in (None, "listing", "videos"):
        raise ValueError(
            f"{' and '.join(columns)} cannot be combined with format={format!r}: only a listing has named "
            "columns; use format='listing' or 'videos', or omit it"
        )
    if annotations is not None or format == "coco":
        _check_alone("annotations", annotations, "coco", format, fields, listing, columns)
    if fields:
        _check_alone("fields", fields, "pairs", format, annotations, listing, columns)
        read_field_options(fields)
    path = Path(path).absolute()  # not abspath, which takes `link/..` wrongly
    with limit_file_size(max_file_size), blame_file(path):
        _check_finished(path)
        if fields:
            return Layout("pairs", path, path, False, {"fields": dict(fields)}, max_file_size)
        if annotations is not None:
            given_file = {"annotations": Path(annotations).absolute()}
            return Layout("coco", path, path, False, given_file, max_file_size)
        if listing is not None:
            place = Path(listing).absolute()
            name = format if format in ("frames", "videos") else None
            name = name or (_detect_listing(place, path, columns) if format is None else "listing")
            return _make_layout(
                name, path, place, False, {"root": path, **columns}, max_file_size, video
            )
        if format is None and not columns:
            name, place = _detect(path)
            options = LAYOUTS[name].when_detected
            return _make_layout(name, path, place, True, options, max_file_size, video)
        name, place = format or "listing", path
        if path.is_dir() and (name in ("frames", "listing") or (name == "videos" and columns)):
            place = pick_listing(path, list(columns.values()))
        elif path.is_dir() and name == "videos":
            place = videos.pick_video_listing(path)
        return _make_layout(name, path, place, False, columns, max_file_size, video)


def _check_alone(
    name: str, value: object, layout: str, format: str | None, *others: object
) -> None:
    """Raise ValueError unless an option of one layout is given, and nothing that is for others."""
    if value is None:
        raise ValueError(f"format {layout!r} needs {name} (--{name})")
    if format not in (None, layout) or any(others):
        raise ValueError(
            f"{name} cannot be combined with another format than {layout!r}, nor with fields, annotations, a listing or "
            "its columns; omit them"
        )


def _make_layout(
    name: str,
    path: Path,
    place: Path,
    is_detected: bool,
    options: Mapping[str, Any],
    max_file_size: int,
    video: VideoOptions | None,
) -> Layout:
    if name == "videos" and video is not None:
        options = {**options, "video": video}
    return Layout(name, path, place, is_detected, options, max_file_size)


def _detect_listing(listing: Path, root: Path, columns: Mapping[str, str]) -> str:
    """Return the layout of files below `root` that a listing names."""
    if columns:
        return "listing"
    if is_video_listing(listing, root=root):
        return "videos"
    return "frames" if frames.is_frame_listing(listing) else "listing"


def _check_finished(path: Path) -> None:
    """Raise SourceError if a folder, a file or a pattern is part of a dataset whose packing was not finished.

    Some of its shards would pass for a small WebDataset.
    """
    paths = match_files(path, os.path.exists) if is_pattern(path) else [path]
    for parent in {path if os.path.isdir(path) else path.parent for path in paths}:
        if reason := describe_unfinished(parent):
            raise SourceError(reason)


def _detect(path: Path) -> tuple[str, Path]:
    if is_pattern(path):
        return _detect_pattern(path), path
    if not path.exists():
        raise SourceError(f"{path}: no such file or directory")
    if path.is_dir():
        return _detect_folder(list_folder(path))
    if not path.is_file():
        raise SourceError(f"{path}: neither a file nor a folder")
    name = _detect_file(path)
    if name is None:
        raise SourceError(
            f"{path}: not in a known layout; name its layout with --format ({', '.join(sorted(LAYOUTS))})"
        )
    return name, path


def _detect_pattern(pattern: Path) -> str:
    """Return the layout of the first file; the opener checks that the others have it too."""
    first = match_files(pattern, os.path.exists)[0]
    name = _detect_folder(list_folder(first))[0] if first.is_dir() else _detect_file(first)
    if name is None or not LAYOUTS[name].has_patterns:
        raise SourceError(
            f"{pattern}: patterns are for tars, Parquet, Arrow, TFRecord and unified-doc files, and the first file is "
            f"{'not one of them' if name is None else name}; name its layout with --format"
        )
    return name


def _detect_file(path: Path) -> str | None:
    with open(open_regular(path), "rb") as file:
        head = file.read(512)
    return next((name for name, kind in LAYOUTS.items() if kind.in_file(path, head)), None)


def _detect_folder(folder: FolderContents) -> tuple[str, Path]:
    for name, kind in LAYOUTS.items():
        if (place := kind.in_folder(folder)) is not None:
            return name, place
    raise AssertionError("the last layout takes any folder")
