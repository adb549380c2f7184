"""Opens whatever a path is as a dataset. The index of image files and databases is built once, kept in a cache, and
checked against them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from headrace.errors import CorruptError, SourceError
from headrace.formats.data_files import is_pattern
from headrace.formats.detect import find_format, open_source
from headrace.formats.files import ImageFiles, is_image_name
from headrace.formats.folder import walk_files
from headrace.formats.names import printable
from headrace.pack.inplace import index_dataset
from headrace.pack.locking import lock_exclusive, lock_shared
from headrace.pack.loose import index_files
from headrace.pack.manifest import NAME as MANIFEST
from headrace.pack.manifest import Manifest, read_manifest, record_file
from headrace.pack.progress import progress_bar
from headrace.pack.recognise import find_damaged
from headrace.pack.rejected import NAME as REJECTED
from headrace.pack.workshop import FOLDER as WORKSHOP
from headrace.read.dataset import Dataset, open_indexed

_log = logging.getLogger("headrace")
# Counts up when indexes hold something new, so that those that are kept are made again.
_CONTENT = 3
_held: dict[Path, int] = {}  # descriptors of manifests that this process has locked


def open_dataset(
    path: str | os.PathLike[str],
    cache: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Dataset:
    """The samples at `path` by number: a packed or indexed dataset; or image files in a folder or a listing, or a
    database (LMDB, TFRecord, a tar) that is one file.

        dataset = open_dataset("shards/train")
        len(dataset), dataset[0].key, dataset[0]["jpg"]

    A packed dataset, or an indexed one, costs the reading of its manifest. The index of the others is taken from
    `cache` (the user's unless given), or made and kept there.
    on_error: whether samples that cannot be indexed are an error, or left out of such an index.
    """
    path = Path(path)
    try:
        is_packed = any((path / name).exists() for name in (MANIFEST, WORKSHOP))
        is_there = path.exists() or is_pattern(path)
    except OSError as error:  # too long for the system, on a drive that fails
        raise SourceError(f"{path}: cannot be opened: {error.strerror}") from None
    if path.name == MANIFEST or is_packed or not is_there:
        return open_indexed(path)
    original = _look_at(path, on_error)
    return _open_kept(original, cache_folder() if cache is None else Path(cache))


def cache_folder() -> Path:
    """Where indexes are kept: HEADRACE_CACHE, or headrace in the user's cache folder."""
    if own := os.environ.get("HEADRACE_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


@dataclass(frozen=True)
class _Original:
    """What an index is kept of: a path, the image files that it stands for, and a text that changes with them.

    `on_error` says whether samples may be missing in the index.
    """

    path: Path
    files: ImageFiles | None
    state: str
    on_error: Literal["raise", "skip"]

    def can_read(self, names: list[str]) -> bool:
        """Whether one of these files can be read."""
        if self.files is None or not names:
            return False
        rows = {name: row for row, name in enumerate(self.files.names)}
        for name in names:
            try:
                self.files.read(rows[name])
            except SourceError:
                continue
            return True
        return False


def _look_at(path: Path, on_error: Literal["raise", "skip"]) -> _Original:
    # A link to a file keeps its own name and place: what it leads to may have no suffix, and lie elsewhere.
    path = path.resolve() if path.is_dir() else path.parent.resolve() / path.name
    try:
        name, place = find_format(path)
    except SourceError as error:
        raise SourceError(f"{error}{_other_way(path)}") from None
    if not path.exists():
        raise SourceError(
            f"{path}: {name} {_advise(name, path)}, and load the folder that has the index"
        )
    state = _describe_state(Path(place))
    if name in ("folder", "listing"):
        files = open_source(path)
        assert isinstance(files, ImageFiles)
        _warn_of_stray_images(path, name, files)
        return _Original(path, files, f"{state} {_digest_files(files)}", on_error)
    if path.is_dir():
        raise SourceError(f"{path}: {name} {_advise(name, path)}{_other_way(path)}")
    return _Original(path, None, state, on_error)


def _warn_of_stray_images(path: Path, name: str, files: ImageFiles) -> None:
    """Those that a folder's listing does not name, or that lie beside the folders of classes."""
    stray = [image for image in files.ignored if is_image_name(image)]
    where = "are not in the listing"
    if name == "folder":
        stray = [image for image in stray if "/" not in image]
        where = "lie beside the class folders"
    if stray:
        shown = printable(stray[0]) + (", ..." if len(stray) > 1 else "")
        _log.warning("%s: %d images %s and are left out: %s", path, len(stray), where, shown)


def _describe_state(place: Path) -> str:
    """Of a file: its size and time."""
    info = place.stat()
    return "" if place.is_dir() else f"{info.st_size} {info.st_mtime_ns}"


def _digest_files(source: ImageFiles) -> str:
    """Changes when a class or a file is added, removed, renamed or written to."""
    digest = hashlib.sha256(json.dumps(source.classes).encode())
    for name, size, mtime in zip(source.names, source.sizes, source.mtimes, strict=True):
        digest.update(f"{name}\0{size}\0{mtime}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _advise(name: str, folder: Path) -> str:
    if name in ("webdataset", "gulp", "tfrecord", "lmdb"):
        return f"without a manifest; run `headrace index {shlex.quote(str(folder))}` once"
    return "cannot be loaded as it is; `headrace pack` it"


def _other_way(path: Path) -> str:
    """What to do about a folder of images that was taken for something else."""
    names = (name for name, _ in walk_files(path, strict=False)) if path.is_dir() else ()
    if not any(map(is_image_name, names)):
        return ""
    return f". To say what it is: `headrace index {shlex.quote(str(path))} --format folder --out DIR`, and load DIR"


def _open_kept(original: _Original, cache: Path) -> Dataset:
    """An index is never changed, nor removed while a process works with it: what has changed gets a new one."""
    name, state = _digest(os.fspath(original.path)), _digest(f"{_CONTENT} {original.state}")
    kept = _find_kept(original, cache, f"{name}-{state}-")
    if kept is None:
        with _locked(cache / f"{name}.lock") as locked:
            kept = _find_kept(original, cache, f"{name}-{state}-")
            if kept is None:
                kept = _build(original, cache, f"{name}-{state}-")
                # Of what was there before, or damaged. Without locks, others may work with them.
                for old in cache.glob(f"{name}-*") if locked else ():
                    if old not in _held:
                        _remove(old)
    if (kept / REJECTED).exists():
        _log.warning("%s: some samples are left out; %s lists them", original.path, kept / REJECTED)
    return open_indexed(kept)


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:24]


def _find_kept(original: _Original, cache: Path, prefix: str) -> Path | None:
    """An index of this state that is whole, held from now on."""
    found = sorted(cache.glob(f"{prefix}*"))
    return next((path for path in found if _is_current(path, original) and _hold(path)), None)


def _is_current(target: Path, original: _Original) -> bool:
    """Whether an index is whole, lacks nothing that must be in it, and what could not be read still cannot be."""
    try:
        if original.on_error == "raise" and (target / REJECTED).exists():
            return False
        manifest = read_manifest(target)
        damage = find_damaged(target, manifest) or _find_changed(target, manifest)
        if damage is not None:
            _warn_of_damage(target, damage)
            return False
    except (CorruptError, OSError):  # OSError: of another user, or removed meanwhile
        return False
    return not original.can_read(manifest.recipe.get("unread", []))


@lru_cache(maxsize=64)  # it is looked at before and under the lock
def _warn_of_damage(target: Path, damage: str) -> None:
    _log.warning("%s: the kept index is damaged and is made again: %s", target, damage)


def _find_changed(target: Path, manifest: Manifest) -> str | None:
    """Return which index file does not have its SHA-256, if any. Seek tables have checksums of their own."""
    records = [shard.index for shard in manifest.shards]
    changed = (r for r in records if record_file(target / r.file, r.file) != r)
    return next((f"{record.file} has changed" for record in changed), None)


def _build(original: _Original, cache: Path, prefix: str) -> Path:
    fresh = cache / f"{prefix}{secrets.token_hex(4)}"
    fresh.mkdir()
    _log.info("indexing %s into %s", original.path, fresh)
    try:
        with progress_bar(f"indexing {original.path.name}") as watcher:
            if original.files is not None:
                index_files(original.files, fresh, on_error=original.on_error, watcher=watcher)
            else:
                index_dataset(original.path, out=fresh, on_error=original.on_error, watcher=watcher)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _hold(fresh)
    return fresh


def _remove(old: Path) -> None:
    """Unless a process works with it."""
    try:
        with open(old / MANIFEST, "r+") as file:  # NFS locks only what can be written
            if lock_exclusive(file.fileno(), blocking=False):
                shutil.rmtree(old, ignore_errors=True)
    except FileNotFoundError:  # it was never finished
        shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return


def _hold(target: Path) -> bool:
    """Keeps an index from being removed as long as this process lives; False if it is not there."""
    if target not in _held:
        try:
            file = os.open(target / MANIFEST, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        lock_shared(file)
        _held[target] = file
    return (target / MANIFEST).exists()


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Let one process at a time build: the ranks of one machine wait for the first of them.

    Yields whether the lock is held. Where the file system has no locks, several may build the same index,
    each under a name of its own.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "w")  # noqa: SIM115 - closed below
    except OSError as error:
        raise SourceError(
            f"{path.parent}: cannot keep the index there: {error.strerror}. Set HEADRACE_CACHE to a folder that can be "
            "written to"
        ) from error
    with file:
        yield lock_exclusive(file.fileno())
