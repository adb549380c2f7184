"""Writes an index into a folder, which is as it was before if indexing fails."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import PackError
from headrace.store.durable import as_pack_error, named_if_full, sync_folder, write_synced
from headrace.store.index_schema import IndexBuilder, is_index
from headrace.store.manifest import MANIFEST, FileRecord, Manifest, write_manifest
from headrace.store.rejected import NAME as REJECTED
from headrace.store.rejected import Rejected, write_rejected
from headrace.store.write_shard import ShardResult, encode_shard
from headrace.work.file_lock import take_lock

_TEMPORARY = re.compile(r"\.headrace-[0-9a-f]{8}\.new")


@dataclass
class IndexWriter:
    """A folder for index and manifest, and what was written there so far."""

    folder: Path
    _written: list[tuple[Path, Path]] = field(default_factory=list)  # (temporary name, name)
    _outdated: list[Path] = field(default_factory=list)  # seek tables of an older index
    _files: list[Path] = field(default_factory=list)
    _folders: list[Path] = field(default_factory=list)

    def write(self, index: IndexBuilder, stem: str, data: FileRecord | None) -> ShardResult:
        """Write an index and its seek tables under temporary names, until `publish`.

        An older index and its seek tables may be replaced; any other file of their names is a PackError.
        """
        old = self.folder / f"{stem}.arrow"
        is_ours = is_index(old)
        self.make_folder(old.parent)
        encoded = encode_shard(index, stem, data)
        if is_ours and encoded.result.record.seek is None:
            self._outdated.append(old.with_suffix(".seek"))
        for name, content in encoded.files.items():
            path = self.folder / name
            if path.exists() and not is_ours:
                raise PackError(
                    f"{path}: exists and is not an index; move it away, or index with --out"
                )
            temporary = path.with_name(f".headrace-{secrets.token_hex(4)}.new")
            self._written.append((temporary, path))
            with named_if_full(path):
                write_synced(temporary, content)
        return encoded.result

    def publish(self, manifest: Manifest, rejected: Rejected) -> None:
        """Rename the indexes in place of older ones; with the manifest, written last, the dataset exists."""
        names = [path for _, path in self._written]
        manifest_path = self.folder / MANIFEST
        made = (manifest_path, *names, self.folder / REJECTED)  # the order in which they are undone
        self._files += [path for path in made if not path.exists()]
        for temporary, path in self._written:
            try:
                os.replace(temporary, path)
            except FileNotFoundError:  # another process took it for one that a killed process left
                raise PackError(f"{path}: another process has indexed this meanwhile") from None
        for folder in {path.parent for path in names}:
            for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):  # of killed processes
                (folder / name).unlink(missing_ok=True)
            sync_folder(folder)
        for path in self._outdated:
            path.unlink(missing_ok=True)
        write_rejected(self.folder, rejected)
        write_manifest(manifest, manifest_path)

    def make_folder(self, folder: Path) -> None:
        """Make a folder and its parents, unless they exist."""
        self._folders += [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)

    def open_folder(self) -> int:
        """Make the folder and return a descriptor of it."""
        self.make_folder(self.folder)
        return os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def undo(self) -> None:
        """Remove all files and folders that were made, except folders that others use."""
        for path in (*self._files, *(temporary for temporary, _ in self._written)):
            path.unlink(missing_ok=True)
        for folder in sorted(self._folders, reverse=True):
            with suppress(OSError):  # not empty, or gone already
                folder.rmdir()


@contextmanager
def open_index_writer(folder: Path) -> Iterator[IndexWriter]:
    """Open `folder`, made if it does not exist, for an index and a manifest; an error removes what was written.

    The folder itself is locked, so that no file of ours stays beside the user's data.

    Raises:
        PackError: It has a manifest, another process indexes into it, or the disk is full or fails.
    """
    with as_pack_error("indexing", "run the same command again"):
        _check_no_manifest(folder)
        writer = IndexWriter(folder)
        lock = take_lock(folder, writer.open_folder, folder, "indexing")
        try:
            _check_no_manifest(folder)  # of a process that has ended since
            yield writer
        except BaseException:
            writer.undo()
            raise
        finally:
            os.close(lock)


def _check_no_manifest(folder: Path) -> None:
    if (folder / MANIFEST).exists():
        raise PackError(f"{folder / MANIFEST}: exists already; remove it to index again")
