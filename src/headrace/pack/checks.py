"""Whole numbers among the options: Python's own, whosoever's they are, since NumPy's have no JSON."""

from __future__ import annotations

from operator import index
from typing import Any


def as_integer(value: Any) -> int | None:
    """Python's own integer of any other; None of what is none."""
    try:
        return index(value)
    except TypeError:
        return None


def read_whole(name: str, value: Any) -> int:
    """Python's own integer. TypeError if the option is no whole number."""
    whole = as_integer(value)
    if whole is None:
        raise TypeError(f"{name} is {value!r}; it must be a whole number")
    return whole


def keep_integers(options: Any, *names: str) -> None:
    """Makes these fields of a frozen dataclass, where they are not None, Python's own integers."""
    for name in names:
        value = getattr(options, name)
        if value is not None:
            object.__setattr__(options, name, read_whole(name, value))
