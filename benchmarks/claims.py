"""Claims of the benchmarks: scripts print a line per claim, and run_all.py collects them in one table."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"^claim: (?P<what>.+): (?P<measured>[^,]+), bar (?P<bar>.+), (?P<word>held|missed|told)$"
)


@dataclass(frozen=True)
class Claim:
    what: str
    measured: str
    bar: str
    word: str


def print_claim(
    what: str, measured: float, bar: float | None, unit: str = "x", *, at_most: bool = False
) -> None:
    """Print a claim. `unit`: `x` for a ratio, `%` for a share, else with a leading space. Without a bar it is not judged."""
    word = "told"
    if bar is not None:
        word = "held" if (measured <= bar if at_most else measured >= bar) else "missed"
    scale = 100 if unit == "%" else 1
    shown = float(f"{scale * measured:.3g}")
    sense = "at most" if at_most else "at least"
    goal = "none" if bar is None else f"{sense} {scale * bar:g}{unit}"
    print(f"claim: {what}: {shown:g}{unit}, bar {goal}, {word}", flush=True)


def read_claims(output: str) -> list[Claim]:
    found = map(_LINE.match, output.splitlines())
    return [
        Claim(match["what"], match["measured"], match["bar"], match["word"])
        for match in found
        if match
    ]
