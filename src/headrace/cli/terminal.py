"""What the verbs share to talk to people and machines."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.formats.header import describe_deep

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}

Workers = Annotated[int | None, typer.Option(help="Number of threads. Default: number of cores.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def say(message: str) -> None:
    """A line for people, on stderr, as it is."""
    print(message, file=sys.stderr)


def warn_of_depth(kinds: Mapping[str, int]) -> None:
    """Print what becomes of images with 16 bits per pixel, if there are any."""
    if sentence := describe_deep(kinds):
        say(f"note: {sentence}")


def print_json(content: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(content, ensure_ascii=True))


def print_wide(content: RenderableType) -> None:
    """On stdout, with no figure cut off: in a narrow terminal, long lines go on below."""
    console = Console()
    console.width = max(console.width, 80 if console.is_terminal else 120)
    console.print(content)


def print_table(title: str, rows: list[tuple[str, str]]) -> None:
    """A table of names and values on stdout."""
    print(title)  # as it is, for it may be a path to copy
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    Console().print(table)


def parse_size(text: str) -> int:
    """Bytes from `256MiB`, `1GB`, `4096`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?|)b?\s*", text.lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size such as 256MiB or 1GB")
    return int(float(match[1]) * _UNITS[match[2]])


def format_size(size: float) -> str:
    """`12.3 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size /= 1024
    else:
        unit = "TiB"
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
