"""What a training needs: images per second."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """A rate in images per second, and how the user stated it."""

    rate: float
    words: str


def read_need(target: float | None, step_ms: float | None, batch_size: int) -> Need | None:
    """Return the need that --target or --step-ms states; None without either."""
    if target is not None and step_ms is not None:
        raise ValueError("--target and --step-ms say the same thing: give one of them")
    for name, value in (("--target", target), ("--step-ms", step_ms)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} is {value:g}; it must be above 0 and finite")
    if target is not None:
        return Need(target, f"{target:,.0f} images/s")
    if step_ms is not None:
        rate = batch_size * 1e3 / step_ms
        return Need(rate, f"{rate:,.0f} images/s ({batch_size} in {step_ms:g} ms)")
    return None
