"""What the arguments of a flow may be."""

from __future__ import annotations


def check_count(name: str, value: int, least: int) -> int:
    """The value, if it is a whole number and large enough."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    return value


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuses any other value."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
