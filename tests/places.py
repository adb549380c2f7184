"""Where the steps of a loader's transform run, read from what `print(loader)` shows."""

from __future__ import annotations

import re

PLACES = {
    r"core, \d+ threads": "core",
    r"Python, ": "Python",
    r"core, in Python's place": "core, worker",
    r"core, on what Python returns": "core, last",
}


def list_places(loader: object) -> list[str]:
    """Return a place for each step of the transform: core; Python; core, worker; core, last."""
    lines = str(loader).splitlines()[2:]  # after the title and the decoding
    steps = (line for line in lines if re.match(r"  \S.*?\S?  +(core|Python), ", line))
    return [find_place(line) for line in steps]


def find_place(line: str) -> str:
    return next(name for text, name in PLACES.items() if re.search(f"  {text}", line))
