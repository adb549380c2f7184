"""Checks of arguments that several stages take."""

from __future__ import annotations

from operator import index
from typing import Any


def as_integer(value: Any) -> int | None:
    """Return the Python integer equal to `value`, which may be NumPy's; None if it is not an integer."""
    try:
        return index(value)
    except TypeError:
        return None


def read_integer(name: str, value: Any) -> int:
    """Return the Python integer equal to an option. Raise TypeError if it is not an integer."""
    number = as_integer(value)
    if number is None:
        raise TypeError(f"{name}: {value!r} is not an integer")
    return number


def keep_integers(options: Any, *names: str) -> None:
    """Turn these fields of a frozen dataclass, where they are not None, into Python integers."""
    for name in names:
        value = getattr(options, name)
        if value is not None:
            object.__setattr__(options, name, read_integer(name, value))


def check_count(name: str, value: int, least: int) -> int:
    """Return `value` as a Python integer. Raise ValueError unless it is an integer of at least `least`."""
    count = None if isinstance(value, bool) else as_integer(value)
    if count is None or count < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    return count


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise ValueError unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}")
