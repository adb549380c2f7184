"""The indexes of image files and databases: built once, kept in the user's cache, checked against their source."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from headrace.errors import CorruptError, SourceError
from headrace.formats.detect import Layout
from headrace.formats.image_files import ImageFiles, place_images
from headrace.pack.index_in_place import index_source
from headrace.read.dataset import Dataset, open_indexed
from headrace.store.manifest import MANIFEST, Manifest, read_manifest, record_file
from headrace.store.rejected import NAME as REJECTED
from headrace.store.verify import Problem, find_damaged
from headrace.work.file_lock import lock_exclusive, lock_shared
from headrace.work.progress import show_on_terminal

_log = logging.getLogger("headrace")
_CONTENT = 4  # increase it with every new index column, so that kept indexes are made again
_held: dict[Path, int] = {}  # descriptors of manifests that this process has locked


def cache_folder() -> Path:
    """Return the folder of kept indexes: HEADRACE_CACHE, or headrace in the user's cache folder."""
    if own := os.environ.get("HEADRACE_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


@dataclass(frozen=True)
class Original:
    """The source of a kept index: its layout, its image files, and a fingerprint of their state.

    `on_error` says whether samples may be missing in the index.
    """

    layout: Layout
    files: ImageFiles | None
    state: str
    on_error: Literal["raise", "skip"]

    @property
    def path(self) -> Path:
        return self.layout.path

    def can_read(self, names: list[str]) -> bool:
        """Return whether one of these files can be read."""
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


def open_kept(original: Original, cache: Path) -> Dataset:
    """Open the kept index of this state, or make one. An index is never changed, nor removed while in use."""
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


def _find_kept(original: Original, cache: Path, prefix: str) -> Path | None:
    """Return a complete index of this state, held from now on."""
    found = sorted(cache.glob(f"{prefix}*"))
    return next((path for path in found if _is_current(path, original) and _hold(path)), None)


def _is_current(target: Path, original: Original) -> bool:
    """Return whether an index is complete, and the files that it marks as unreadable still are."""
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


@lru_cache(maxsize=64)  # it is checked before and under the lock
def _warn_of_damage(target: Path, damage: Problem | str) -> None:
    _log.warning("%s: the kept index is damaged and is made again: %s", target, damage)


def _find_changed(target: Path, manifest: Manifest) -> str | None:
    """Return which index file does not have its SHA-256, if any. Seek tables have checksums of their own."""
    records = [shard.index for shard in manifest.shards]
    changed = (r for r in records if record_file(target / r.file, r.file) != r)
    return next((f"{record.file} has changed" for record in changed), None)


def _build(original: Original, cache: Path, prefix: str) -> Path:
    fresh = cache / f"{prefix}{secrets.token_hex(4)}"
    fresh.mkdir()
    _log.info("indexing %s into %s", original.path, fresh)
    try:
        with show_on_terminal(f"indexing {original.path.name}") as progress:
            files = original.files
            source = original.layout.open_in_place() if files is None else place_images(files)
            index_source(source, out=fresh, on_error=original.on_error, progress=progress)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _hold(fresh)
    return fresh


def _remove(old: Path) -> None:
    """Remove an index, unless a process works with it."""
    try:
        with open(old / MANIFEST, "r+") as file:  # NFS locks only what can be written
            if lock_exclusive(file.fileno(), blocking=False):
                shutil.rmtree(old, ignore_errors=True)
    except FileNotFoundError:  # it was never finished
        shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return


def _hold(target: Path) -> bool:
    """Keep an index from being removed while this process lives. Return False if it does not exist."""
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
