"""A small packed dataset of pictures of different sizes, shared by the loader's tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import headrace
from images import encode


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


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("loader") / "pictures")


@pytest.fixture(scope="session")
def packed(folder: Path) -> Path:
    headrace.pack_dataset(folder, folder.parent / "packed", shard_size=40_000)
    return folder.parent / "packed"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    for name in list(os.environ):
        if name in ("RANK", "WORLD_SIZE") or name.startswith(("SLURM_", "OMPI_")):
            monkeypatch.delenv(name)
