"""Where the tests find their data: `tests/data` of this repository, and `../shared` where it lies beside it."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests/data"
SHARED = ROOT.parent / "shared"


def unpack_fixtures() -> Path:
    """Return a folder that holds `fixtures/`, unpacked once for each version of the archive."""
    archive = DATA / "fixtures.tar.xz"
    target = ROOT / "build/test-data" / hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            with tarfile.open(archive) as tar:
                tar.extractall(Path(folder) / "whole/fixtures", filter="data")
            try:
                os.rename(folder + "/whole", target)
            except OSError:
                assert target.is_dir()  # another process was first
    return target


UNPACKED = unpack_fixtures()
FIXTURES = UNPACKED / "fixtures"


def list_hostile_folders() -> list[Path]:
    """Return all folders of hostile files: ours, and the larger collection in `../shared`."""
    folders = [FIXTURES / "hostile", SHARED / "fixtures/hostile"]
    return [folder for folder in folders if folder.is_dir()]


def read_photos() -> list[bytes]:
    """Return the real photos of `tests/data`."""
    return [path.read_bytes() for path in sorted((DATA / "photos").glob("*.jpg"))]
