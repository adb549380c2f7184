"""The verdict on a watched program for a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.workbench.table import show_finding
from headrace.workbench.watch.record import Watched
from headrace.workbench.watch.verdict import Judgement


def tabulate_judgement(watched: Watched, judgement: Judgement) -> RenderableType:
    """Headline, where the wall time went, and the findings with advice."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("the loop was")
    for name in ("seconds", "of wall time"):
        table.add_column(name, justify="right")
    for kind, seconds in watched.spans.items():
        table.add_row(kind, f"{seconds:,.2f}", f"{seconds / max(watched.wall, 1e-9):.1%}")
    headline = Text(judgement.headline, style="bold")
    return Group(headline, table, *map(show_finding, judgement.findings))
