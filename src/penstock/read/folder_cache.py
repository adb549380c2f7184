"""Image folders and databases as data sets: their index is built once, kept in a cache, and checked against them."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import CorruptError, SourceError
from penstock.formats.detect import find_format
from penstock.formats.files import ImageFiles
from penstock.formats.folder import open_folder
from penstock.pack.inplace import index_dataset
from penstock.pack.loose import digest_files, index_files
from penstock.pack.manifest import NAME as MANIFEST
from penstock.pack.manifest import Manifest, read_manifest
from penstock.pack.progress import progress_bar
from penstock.pack.workshop import FOLDER as WORKSHOP
from penstock.read.dataset import Dataset, open_indexed

_log = logging.getLogger("penstock")
_held: dict[Path, int] = {}  # descriptors of manifests that this process has locked


def open_dataset(
    path: str | os.PathLike[str], cache: str | os.PathLike[str] | None = None
) -> Dataset:
    """The samples at `path` by number: a packed or indexed data set; or an image folder, or a database (LMDB,
    TFRecord) that is one file.

        dataset = open_dataset("shards/train")
        len(dataset), dataset[0].key, dataset[0]["jpg"]

    A packed data set, or an indexed one, costs the reading of its manifest. The index of the others is taken from
    `cache` (the user's unless given), or made and kept there.
    """
    path = Path(path)
    if path.is_file() and path.name != MANIFEST:
        return _open_file(path.resolve(), Path(cache) if cache is not None else cache_folder())
    is_packed = any((path / name).exists() for name in (MANIFEST, WORKSHOP))
    if path.name == MANIFEST or is_packed or not path.is_dir():
        return open_indexed(path)
    return _open_folder(path.resolve(), Path(cache) if cache is not None else cache_folder())


def _open_images(folder: Path) -> ImageFiles:
    """The images in a folder without a manifest; where there are none, the error says what to do with it."""
    try:
        return open_folder(folder)
    except SourceError:
        _check_layout(folder)
        raise


def _check_layout(folder: Path) -> None:
    """CorruptError if it has a layout that we know."""
    try:
        name, _ = find_format(folder)
    except SourceError:
        return
    if name in ("webdataset", "gulp", "tfrecord", "lmdb"):
        raise CorruptError(
            f"{folder}: {name} without a manifest; run `penstock index {folder}` once"
        )
    if name in ("parquet", "arrow", "unified-doc"):
        raise CorruptError(f"{folder}: {name} cannot be loaded as it is; `penstock pack` it")


def cache_folder() -> Path:
    """Where indexes of image folders are kept: PENSTOCK_CACHE, or penstock in the user's cache folder."""
    if own := os.environ.get("PENSTOCK_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def _open_folder(folder: Path, cache: Path) -> Dataset:
    """An index is never changed: a folder that changed gets a new one, and loaders that run keep theirs."""
    source = _open_images(folder)
    digest = digest_files(source)
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:24]
    target = cache / f"{name}-{digest[:24]}"
    if not (_hold(target) and _is_current(target, digest)):
        with _locked(cache / f"{name}.lock"):
            if not (_hold(target) and _is_current(target, digest)):
                _let_go(target)
                _build(source, target, cache, name)
                _hold(target)
    return open_indexed(target)


def _build(source: ImageFiles, target: Path, cache: Path, name: str) -> None:
    _log.info("indexing %s into %s", source.root, target)
    for old in cache.glob(f"{name}-*"):  # of the folder as it was, or of a process that was killed
        if old == target or not _is_held(old):
            shutil.rmtree(old, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(dir=cache, prefix=f"{name}-"))
    try:
        with progress_bar(f"indexing {source.root.name}", "files") as watcher:
            index_files(source, fresh, watcher=watcher)
        fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _hold(target: Path) -> bool:
    """Keeps an index from being removed as long as this process lives; False if it is not there."""
    if target not in _held:
        try:
            file = os.open(target / MANIFEST, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        fcntl.flock(file, fcntl.LOCK_SH)
        _held[target] = file
    return (target / MANIFEST).exists()


def _let_go(target: Path) -> None:
    if target in _held:
        os.close(_held.pop(target))


def _is_held(target: Path) -> bool:
    """Whether a process works with this index."""
    try:
        with open(target / MANIFEST) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it was never finished
        return False
    return False


def _open_file(file: Path, cache: Path) -> Dataset:
    """The index of a file that has changed is another: its name has size and time in it."""
    state = file.stat()
    name = f"{os.fsdecode(file)}\0{state.st_size}\0{state.st_mtime_ns}"
    target = cache / hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    if _read_kept(target) is None:
        with _locked(target.with_suffix(".lock")):
            if _read_kept(target) is None:
                _log.info("indexing %s into %s", file, target)
                shutil.rmtree(target, ignore_errors=True)
                with progress_bar(f"indexing {file.name}", "samples") as watcher:
                    index_dataset(file, out=target, watcher=watcher)
    return open_indexed(target)


def _read_kept(target: Path) -> Manifest | None:
    """The manifest of an index in the cache, if it is there and whole."""
    try:
        return read_manifest(target)
    except CorruptError:
        return None


def _is_current(target: Path, digest: str) -> bool:
    kept = _read_kept(target)
    return kept is not None and kept.recipe.get("files") == digest


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lets one process at a time build; the ranks of one machine wait for the first of them."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "w")  # noqa: SIM115 - closed below
    except OSError as error:
        raise SourceError(
            f"{path.parent}: cannot keep the index there: {error.strerror}. Set PENSTOCK_CACHE to a folder that can be "
            "written to"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
