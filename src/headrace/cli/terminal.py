"""Messages, JSON and sizes, as all commands print and read them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.image_header import describe_deep

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}

Workers = Annotated[int | None, typer.Option(help="Number of threads. Default: number of cores.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def say(message: str) -> None:
    """Print a line on stderr."""
    print(message, file=sys.stderr)


def warn_of_depth(kinds: Mapping[str, int]) -> None:
    """Print a note on images with 16 bits per channel, if there are any."""
    if sentence := describe_deep(kinds):
        say(f"note: {sentence}")


def print_json(content: Any) -> None:
    """Print one JSON document on stdout."""
    print(json.dumps(content, ensure_ascii=True))


def parse_size(text: str) -> int:
    """Return the number of bytes that `256MiB`, `1GB` or `4096` stands for."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?|)b?\s*", text.lower())
    if match is None:
        raise typer.BadParameter(f"not a size: {text!r}; write it as in 256MiB or 1GB")
    return int(float(match[1]) * _UNITS[match[2]])


def format_size(size: float) -> str:
    """Return a size such as `12.3 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size /= 1024
    else:
        unit = "TiB"
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
