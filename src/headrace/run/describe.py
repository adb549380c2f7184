"""What a flow says of itself: a row per stage with what it guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from headrace.run.stage import Length, Stage


@dataclass(frozen=True)
class Row:
    """One stage: how its output relates to its input, how long it is, where the work is done."""

    stage: str
    order: str
    items: str
    length: str
    runs_in: str
    resumes: str

    @classmethod
    def of(cls, stage: Stage, length: Length) -> Row:
        """What a stage of that length says."""
        resumes = "no" if stage.unrepeatable else "yes" if stage.seeks else "by replay"
        shown = format_length(length)
        return cls(stage.name, stage.order, stage.exactness, shown, stage.place, resumes)


@dataclass(frozen=True)
class Description:
    """All stages of a flow, inputs before what they feed. Prints as a table."""

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
    """An exact number, 'endless', or 'unknown'."""
    if length is None:
        return "unknown"
    return "endless" if length == math.inf else f"{int(length)}"
