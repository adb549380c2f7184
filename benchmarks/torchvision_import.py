"""Imports torchvision, also where it is installed without its compiled operators."""

from __future__ import annotations

from typing import Any


def import_torchvision() -> Any:
    """Return torchvision; declare the operators that its import looks for if they were not compiled.

    These operators work on boxes. Loading images needs none of them.
    """
    import torch

    try:
        import torchvision
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")
        import torchvision
    return torchvision
