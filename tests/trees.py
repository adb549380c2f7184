"""Small image folders, digests of what was made from them, and file systems that fail."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from images import encode


def make_folder(root: Path, classes: int = 3, per_class: int = 5, size: int = 24) -> Path:
    """An image folder of small JPEGs and one PNG per class."""
    for label in range(classes):
        for number in range(per_class):
            kind = "PNG" if number == per_class - 1 else "JPEG"
            suffix = "png" if kind == "PNG" else "jpg"
            data = encode(size, size + number, seed=label * 1000 + number, format=kind)
            path = root / f"class{label}" / f"{number:03d}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return root


def write_images(root: Path, *names: str) -> Path:
    """One image under each of these names."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(encode(8, 8))
    return root


def file_bytes(root: Path) -> dict[str, bytes]:
    """All files below a folder by their relative names."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def digests(root: Path) -> dict[str, str]:
    """SHA-256 of all files below a folder by their relative names."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in file_bytes(root).items()}


def untar(shards: Path, target: Path) -> Path:
    """What `tar xf` makes of all shards."""
    target.mkdir()
    for shard in sorted(shards.glob("*.tar")):
        subprocess.run(["tar", "xf", shard, "-C", target], check=True)
    return target


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """Files cannot be written beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def without_locks(fd: int, operation: int) -> None:
    """What `fcntl.flock` does on a mount that has no locks."""
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def write_pictures(root: Path, count: int = 61, classes: int = 4) -> Path:
    """JPEGs of many sizes, every seventh progressive, every ninth a PNG."""
    for number in range(count):
        height, width = 40 + number * 7 % 50, 36 + number * 11 % 60
        options: dict[str, object] = {"seed": number}
        if number % 7 == 3:
            options["progressive"] = True
        suffix = "jpg"
        if number % 9 == 4:
            options, suffix = {"seed": number, "format": "PNG"}, "png"
        path = root / f"class{number % classes}" / f"{number:03d}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(height, width, **options))  # type: ignore[arg-type]
    return root
