"""Brace patterns, as WebDataset's users write them: `train-{000000..000127}.tar`, `{train,val}.tar`."""

from __future__ import annotations

import re

from penstock.errors import SourceError

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MAX_NAMES = 1_000_000


def has_braces(text: str) -> bool:
    """Whether the text is a pattern."""
    return _BRACES.search(text) is not None


def expand_braces(text: str) -> list[str]:
    """All names that a pattern stands for, in its order; numbers keep their leading zeros."""
    match = _BRACES.search(text)
    if match is None:
        return [text]
    names = [
        text[: match.start()] + choice + rest
        for choice in _expand_choices(match[1])
        for rest in expand_braces(text[match.end() :])
    ]
    if len(names) > _MAX_NAMES:
        raise SourceError(f"{text}: stands for {len(names)} names")
    return names


def _expand_choices(inner: str) -> list[str]:
    numbers = _RANGE.fullmatch(inner)
    if numbers is None:
        return inner.split(",")
    first, last = int(numbers[1]), int(numbers[2])
    if not 0 <= last - first < _MAX_NAMES:
        raise SourceError(f"{{{inner}}}: not a range of numbers that goes up")
    return [f"{number:0{len(numbers[1])}d}" for number in range(first, last + 1)]
