"""Opens any path as a dataset; what has no index yet is indexed first (see `index_cache`)."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
from pathlib import Path
from typing import Literal

from headrace.errors import SourceError
from headrace.formats.detect import LAYOUTS, detect
from headrace.formats.file_patterns import is_pattern
from headrace.formats.folder_contents import is_image_name, walk_files
from headrace.formats.image_files import ImageFiles
from headrace.open.index_cache import Original, cache_folder, open_kept
from headrace.read.dataset import Dataset, open_indexed
from headrace.store.keys import printable
from headrace.store.manifest import MANIFEST, PACKING

_log = logging.getLogger("headrace")


def open_dataset(
    path: str | os.PathLike[str],
    cache: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """Open the samples at `path` by number.

        dataset = open_dataset("shards/train")
        len(dataset), dataset[0].key, dataset[0]["jpg"]

    Args:
        path: A packed or indexed dataset, of which only the manifest is read; image files in a folder or a
            listing, or a single LMDB, TFRecord or tar file, which are indexed first.
        cache: The folder that such an index is kept in. Default: the user's cache.
        on_error: Whether samples that cannot be indexed are an error ("raise") or left out ("skip").

    Returns:
        The samples, a sequence.

    Raises:
        SourceError: There is no such path, or its layout cannot be read by sample.
        CorruptError: The dataset is damaged, or packing was not finished.
        PackError: Samples cannot be indexed.
    """
    path = Path(path)
    try:
        is_packed = any((path / name).exists() for name in (MANIFEST, PACKING))
        is_there = path.exists() or is_pattern(path)
    except OSError as error:  # too long for the system, on a drive that fails
        raise SourceError(f"{path}: cannot be opened: {error.strerror}") from None
    if path.name == MANIFEST or is_packed or not is_there:
        return open_indexed(path)
    original = _find_original(path, on_error)
    return open_kept(original, cache_folder() if cache is None else Path(cache))


def _find_original(path: Path, on_error: Literal["raise", "skip"]) -> Original:
    # A link to a file keeps its own name and folder: its target may have no suffix, and lie elsewhere.
    path = path.resolve() if path.is_dir() else path.parent.resolve() / path.name
    try:
        layout = detect(path)
    except SourceError as error:
        raise SourceError(f"{error}{_other_way(path)}") from None
    name = layout.name
    if not path.exists():
        raise SourceError(
            f"{path}: {name} {_advise(name, path)}, and load the folder that has the index"
        )
    state = _describe_state(layout.place)
    if name in ("folder", "listing"):
        files = layout.open()
        assert isinstance(files, ImageFiles)
        _warn_of_stray_images(path, name, files)
        return Original(layout, files, f"{state} {_digest_files(files)}", on_error)
    if path.is_dir():
        raise SourceError(f"{path}: {name} {_advise(name, path)}{_other_way(path)}")
    return Original(layout, None, state, on_error)


def _warn_of_stray_images(path: Path, name: str, files: ImageFiles) -> None:
    """Warn of images that a folder's listing does not name, or that lie beside the folders of classes."""
    stray = [image for image in files.ignored if is_image_name(image)]
    where = "are not in the listing"
    if name == "folder":
        stray = [image for image in stray if "/" not in image]
        where = "lie beside the class folders"
    if stray:
        shown = printable(stray[0]) + (", ..." if len(stray) > 1 else "")
        _log.warning("%s: %d images %s and are left out: %s", path, len(stray), where, shown)


def _describe_state(place: Path) -> str:
    """Return the size and time of a file; empty for a folder."""
    info = place.stat()
    return "" if place.is_dir() else f"{info.st_size} {info.st_mtime_ns}"


def _digest_files(source: ImageFiles) -> str:
    """Return a digest that changes when a class or a file is added, removed, renamed or written to."""
    digest = hashlib.sha256(json.dumps(source.classes).encode())
    for name, size, mtime in zip(source.names, source.sizes, source.mtimes, strict=True):
        digest.update(f"{name}\0{size}\0{mtime}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _advise(name: str, folder: Path) -> str:
    if LAYOUTS[name].is_indexable:
        return f"without a manifest; run `headrace index {shlex.quote(str(folder))}` once"
    return "cannot be loaded as it is; `headrace pack` it"


def _other_way(path: Path) -> str:
    """Return what to do about a folder of images that was taken for something else."""
    names = (name for name, _ in walk_files(path, strict=False)) if path.is_dir() else ()
    if not any(map(is_image_name, names)):
        return ""
    return f". To say what it is: `headrace index {shlex.quote(str(path))} --format folder --out DIR`, and load DIR"
