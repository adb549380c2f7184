"""How BatchData stacks the values of a component."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def stack_of(use_list: bool) -> Any:
    """Return how BatchData stacks: not at all, or with tensorpack's dtypes."""
    return False if use_list else stack_values


def stack_values(values: list[Any]) -> Any:
    """Stack with tensorpack's dtypes: int32 for int, float32 for float; bool stays bool.

    Text and bytes are NumPy's `U` and `S`, which cut NULs off the end of each: where one ends in NUL,
    all are kept as they are, in an object array.
    """
    stacked = _stack(values)
    if stacked.dtype.kind in "SU":
        exact = np.asarray(values, object)
        if any(map(_ends_in_nul, exact.flat)):
            return exact
    return stacked


def _ends_in_nul(value: Any) -> bool:
    return isinstance(value, (str, bytes)) and value[-1:] in ("\0", b"\0")


def _stack(values: list[Any]) -> npt.NDArray[Any]:
    first = values[0]
    if isinstance(first, (bool, np.generic, str, bytes)):
        return np.asarray(values)
    if isinstance(first, int):
        return np.asarray(values, "int32")
    if isinstance(first, float):
        return np.asarray(values, "float32")
    shapes = {np.shape(value) for value in values}
    if len(shapes) > 1:
        shown = ", ".join(map(str, sorted(shapes)[:4]))
        raise ValueError(f"cannot stack the shapes {shown}: resize first, or use_list=True")
    return np.stack(values)
