"""The list of rejected samples: in a file beside the dataset, and the first of them in messages.

The file `rejected.jsonl` has a JSON object per line, with `name` and `reason`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from headrace.files.limits import blame_file, read_file
from headrace.store.durable import write_durable
from headrace.store.keys import printable

NAME = "rejected.jsonl"
Rejected = Sequence[tuple[str, str]]
_SHOWN = 10


def summarise_rejected(rejected: Rejected, rest: str) -> list[str]:
    """Return a line for each of the first ten, and one for the others, which ends with `rest`."""
    lines = [f"{printable(name)}: {reason}" for name, reason in rejected[:_SHOWN]]
    more = len(rejected) - _SHOWN
    return [*lines, f"... and {more} more; {rest}"] if more > 0 else lines


def write_rejected(folder: Path, rejected: Rejected) -> None:
    """Write the file, or remove an older one if nothing was rejected."""
    if not rejected:
        (folder / NAME).unlink(missing_ok=True)
        return
    entries = ({"name": name, "reason": reason} for name, reason in rejected)
    text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    # A lone surrogate of an undecodable file name becomes \udcXX, which is how JSON writes it.
    write_durable(folder / NAME, text.encode("utf-8", "backslashreplace"))


def read_rejected(folder: Path) -> list[tuple[str, str]]:
    """Return the rejected samples, if any."""
    path = folder / NAME
    if not path.exists():
        return []
    with blame_file(path):
        lines = read_file(path).decode("utf-8").split("\n")
    entries = [json.loads(line) for line in lines if line]
    return [(entry["name"], entry["reason"]) for entry in entries]
