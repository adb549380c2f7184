"""How BatchData stacks the values of a component."""

from __future__ import annotations

from typing import Any

import numpy as np


def stack_of(use_list: bool) -> Any:
    """How BatchData stacks: not at all, or by tensorpack's dtypes."""
    return False if use_list else stack_values


def stack_values(values: list[Any]) -> Any:
    """tensorpack's dtypes: int32 for int, float32 for float; bool stays bool."""
    first = values[0]
    if isinstance(first, (bool, np.generic)):
        return np.asarray(values)
    if isinstance(first, int):
        return np.asarray(values, "int32")
    if isinstance(first, float):
        return np.asarray(values, "float32")
    if isinstance(first, (str, bytes)):
        return np.asarray(values)
    shapes = {np.shape(value) for value in values}
    if len(shapes) > 1:
        shown = ", ".join(map(str, sorted(shapes)[:4]))
        raise ValueError(f"cannot stack the shapes {shown}: resize first, or use_list=True")
    return np.stack(values)
