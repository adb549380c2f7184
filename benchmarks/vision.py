"""torchvision for the benchmarks and examples, also where its compiled operators are missing (no CPU build)."""

from __future__ import annotations

from types import ModuleType


def import_torchvision() -> ModuleType:
    """The module. Its operators, which nothing here calls, are declared if they do not load."""
    import torch

    try:
        import torchvision
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")
        import torchvision
    return torchvision
