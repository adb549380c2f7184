"""The folder that an index is written to, which is as it was before if indexing fails."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import PackError
from headrace.pack.durable import named_if_full, sync_folder, write_synced
from headrace.pack.index import IndexBuilder, is_index
from headrace.pack.manifest import NAME as MANIFEST
from headrace.pack.manifest import FileRecord, Manifest, write_manifest
from headrace.pack.rejected import NAME as REJECTED
from headrace.pack.rejected import Rejected, write_rejected
from headrace.pack.shard import ShardResult, encode_shard

_TEMPORARY = re.compile(r"\.headrace-[0-9a-f]{8}\.new")


@dataclass
class Target:
    """A folder for index and manifest, and what was made there."""

    folder: Path
    _written: list[tuple[Path, Path]] = field(default_factory=list)  # (temporary name, name)
    _outdated: list[Path] = field(default_factory=list)  # seek tables of an older index
    _files: list[Path] = field(default_factory=list)
    _folders: list[Path] = field(default_factory=list)

    def write(self, index: IndexBuilder, stem: str, data: FileRecord | None) -> ShardResult:
        """Write an index and its seek tables, for `publish` to name.

        An index may be replaced, and so may its seek tables; another file that has one of their names may not.
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
        """Gives the indexes their names, in place of older ones; with the manifest the dataset exists."""
        names = [path for _, path in self._written]
        manifest_path = self.folder / MANIFEST
        made = (manifest_path, *names, self.folder / REJECTED)  # the order in which they are undone
        self._files += [path for path in made if not path.exists()]
        for temporary, path in self._written:
            try:
                os.replace(temporary, path)
            except FileNotFoundError:  # cleared as left by a killed run
                raise PackError(f"{path}: another process has indexed this meanwhile") from None
        for folder in {path.parent for path in names}:
            _clear_left(folder)
            sync_folder(folder)
        for path in self._outdated:
            path.unlink(missing_ok=True)
        write_rejected(self.folder, rejected)
        write_manifest(manifest, manifest_path)

    def make_folder(self, folder: Path) -> None:
        """Makes a folder, and those above it, unless they are there."""
        self._folders += [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)

    def undo(self) -> None:
        """Removes the files that were not there before and the folders that were made, unless others use them."""
        for path in (*self._files, *(temporary for temporary, _ in self._written)):
            path.unlink(missing_ok=True)
        for folder in sorted(self._folders, reverse=True):
            with suppress(OSError):  # not empty, or gone already
                folder.rmdir()


def _clear_left(folder: Path) -> None:
    """Removes the indexes without a name that killed runs left."""
    for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def open_target(folder: Path) -> Iterator[Target]:
    """The folder for index and manifest. Leaving it with an error removes what was written."""
    target = Target(folder)
    try:
        target.make_folder(folder)
        yield target
    except BaseException:
        target.undo()
        raise
