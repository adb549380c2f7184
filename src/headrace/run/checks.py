"""What the arguments of a flow may be."""

from __future__ import annotations

from headrace.pack.checks import as_integer


def check_count(name: str, value: int, least: int) -> int:
    """The value, if it is a whole number and large enough."""
    count = None if isinstance(value, bool) else as_integer(value)
    if count is None or count < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    return count


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuses any other value."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
