"""The folder that an index is written to, which is as it was before if indexing fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import PackError
from penstock.pack.index import IndexBuilder, is_index
from penstock.pack.manifest import FileRecord
from penstock.pack.shard import ShardResult, write_index


@dataclass
class Target:
    """A folder for index and manifest, and what was made there."""

    folder: Path
    files: list[Path] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def write(self, index: IndexBuilder, stem: str, data: FileRecord | None) -> ShardResult:
        """Writes an index. What lies there already is replaced only if it is an index of ours."""
        path = self.folder / f"{stem}.arrow"
        if path.exists() and not is_index(path):
            raise PackError(
                f"{path}: exists and is not an index; move it away, or index with --out"
            )
        self.make_folder(path.parent)
        self.files.append(path)
        return write_index(index, path, data, f"{stem}.arrow")

    def make_folder(self, folder: Path) -> None:
        """Makes a folder, and those above it, unless they are there."""
        self.folders += [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)

    def undo(self) -> None:
        """Removes the files that were written and the folders that were made, unless others use them."""
        for path in self.files:
            path.unlink(missing_ok=True)
        for folder in sorted(self.folders, reverse=True):
            with suppress(OSError):  # not empty, or gone already
                folder.rmdir()


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
