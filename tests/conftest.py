"""Fixtures that all tests share: data, and a torchvision that imports without its operators."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

import headrace
from stored import SHARED, UNPACKED
from trees import write_pictures

# A shell without job control starts background processes with Ctrl-C ignored: the tests need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A loaded machine is no reason to fail. `make check` takes the quick profile.
settings.register_profile("headrace", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("headrace")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder that holds `fixtures/`: the files of the original systems, from tests/data."""
    return UNPACKED


@pytest.fixture(scope="session")
def beside() -> Path:
    """Return the folder `../shared`, with photos and texts that this repository may not contain."""
    if not SHARED.is_dir():
        pytest.skip(f"needs photos and texts that lie in {SHARED.name}/ beside the repository")
    return SHARED


@pytest.fixture(scope="session")
def torchvision() -> ModuleType:
    """torchvision 0.28.0 without its compiled operators, which have no CPU build."""
    torch = pytest.importorskip("torch")
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")
    pytest.importorskip("torchvision.transforms.v2")
    return pytest.importorskip("torchvision")


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
