"""The guarantees of a flow, a row per stage, printed by `Flow.describe`."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from headrace.flow.stage import Length, Stage


@dataclass(frozen=True)
class Row:
    """One stage: how its output relates to its input, its length, and where it runs."""

    stage: str
    order: str
    items: str
    length: str
    runs_in: str
    resumes: str

    @classmethod
    def of(cls, stage: Stage, length: Length) -> Row:
        """Return the row of a stage with this length."""
        resumes = "no" if stage.unrepeatable else "yes" if stage.seeks else "by replay"
        shown = format_length(length)
        return cls(stage.name, stage.order, stage.exactness, shown, stage.place, resumes)


@dataclass(frozen=True)
class Description:
    """All stages of a flow, each after its inputs. Prints as a table."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        names = [field.name for field in fields(Row)]
        table = [[name.replace("_", " ") for name in names]]
        table += [[str(getattr(row, name)) for name in names] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*table)]
        lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in table)
        return "\n".join(lines)

    __repr__ = __str__


def format_length(length: Length) -> str:
    """Return the number, 'endless' or 'unknown'."""
    if length is None:
        return "unknown"
    return "endless" if length == math.inf else f"{int(length)}"
