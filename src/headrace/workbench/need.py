"""What a training needs: images per second."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """`rate` images per second, and in the user's own words where that comes from."""

    rate: float
    words: str


def read_need(target: float | None, step_ms: float | None, batch_size: int) -> Need | None:
    """The need from the options of the command; None if neither was given."""
    if target is not None and step_ms is not None:
        raise ValueError("--target and --step-ms say the same thing: give one")
    if target is not None:
        _check(target, "--target")
        return Need(target, f"{target:,.0f} images/s")
    if step_ms is not None:
        _check(step_ms, "--step-ms")
        rate = batch_size * 1e3 / step_ms
        return Need(rate, f"{rate:,.0f} images/s ({batch_size} in {step_ms:g} ms)")
    return None


def _check(value: float, name: str) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} is {value:g}; it must be above 0 and finite")
