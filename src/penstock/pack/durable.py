"""Files that exist whole or not at all: written under a temporary name, synced, renamed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def temporary_name(path: Path) -> Path:
    """Where the bytes of `path` lie until they are all there."""
    return path.with_name(f".{path.name}.tmp")


def write_durable(path: Path, data: bytes) -> None:
    """Replaces `path` by `data` at one stroke, whoever else may be writing it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
