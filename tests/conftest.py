"""What all tests share: where the real data lies, and a torchvision that imports without its operators."""

from __future__ import annotations

import signal
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# A shell without job control lets what it starts in the background ignore Ctrl-C: not what we test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A loaded machine is no reason to fail.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the photos and the fixtures of the original systems."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the shared data and fixtures in {SHARED.name}/ beside the repository")
    return SHARED


@pytest.fixture(scope="session")
def torchvision() -> ModuleType:
    """torchvision 0.28.0 without its compiled operators, which have no CPU build."""
    torch = pytest.importorskip("torch")
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")
    pytest.importorskip("torchvision.transforms.v2")
    return pytest.importorskip("torchvision")
