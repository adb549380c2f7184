"""Prints tables: the only place that does."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text


def open_console(*, stderr: bool = False) -> Console:
    """Return a console that is wide enough for every number; narrow terminals wrap its lines."""
    console = Console(stderr=stderr)
    console.width = max(console.width, 80 if console.is_terminal else 120)
    return console


def print_table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    *,
    console: Console | None = None,
    highlight: str | None = None,
) -> None:
    """Print rows of names and values.

    Args:
        rows: Cells, names first.
        header: Names of the columns. If given, all columns but the first hold numbers.
        console: Where to print. Default: stdout.
        highlight: Name of the row to print in bold.
    """
    table = Table(
        box=SIMPLE_HEAD if header else None,
        show_header=bool(header),
        pad_edge=False,
        padding=0 if header else (0, 1),
    )
    names = header or ("", "")
    table.add_column(names[0], no_wrap=True, style=None if header else "bold")
    for name in names[1:]:
        table.add_column(name, justify="right" if header else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row), style="bold" if row[0] == highlight else None)
    (console or open_console()).print(table)
