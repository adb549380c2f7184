"""What the benchmarks claim: a line each in what a script prints, which run_all.py gathers into one table."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"^claim: (?P<what>.+): (?P<measured>[^,]+), bar (?P<bar>.+), (?P<held>held|missed)$"
)


@dataclass(frozen=True)
class Claim:
    what: str
    measured: str
    bar: str
    held: bool


def print_claim(
    what: str, measured: float, bar: float, unit: str = "x", *, at_most: bool = False
) -> None:
    """`unit` is `x` for a ratio, `%` for a share, else with a space in front, as in ` MB`."""
    held = measured <= bar if at_most else measured >= bar
    if unit == "%":
        measured, bar = 100 * measured, 100 * bar
    shown = float(f"{measured:.3g}")
    sense = "at most" if at_most else "at least"
    word = "held" if held else "missed"
    print(f"claim: {what}: {shown:g}{unit}, bar {sense} {bar:g}{unit}, {word}", flush=True)


def read_claims(output: str) -> list[Claim]:
    found = map(_LINE.match, output.splitlines())
    return [
        Claim(match["what"], match["measured"], match["bar"], match["held"] == "held")
        for match in found
        if match
    ]
