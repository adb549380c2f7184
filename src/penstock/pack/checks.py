"""What the options of packing may be."""

from __future__ import annotations

from operator import index
from typing import Any


def keep_integers(options: Any, *names: str) -> None:
    """Makes these fields of a frozen dataclass Python's own integers, whosoever's they are: NumPy's have no JSON."""
    for name in names:
        value = getattr(options, name)
        try:
            object.__setattr__(options, name, None if value is None else index(value))
        except TypeError:
            raise TypeError(f"{name} is {value!r}; it must be a whole number") from None
