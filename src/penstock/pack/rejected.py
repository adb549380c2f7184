"""The list of samples that were left out, beside the data set: a JSON object a line, with name and reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from penstock.pack.durable import write_durable

NAME = "rejected.jsonl"
Rejected = Sequence[tuple[str, str]]


def write_rejected(folder: Path, rejected: Rejected) -> None:
    """Writes it, or removes one from before if nothing was left out."""
    if not rejected:
        (folder / NAME).unlink(missing_ok=True)
        return
    entries = ({"name": name, "reason": reason} for name, reason in rejected)
    text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    # A lone surrogate of an undecodable file name becomes \udcXX, which is how JSON writes it.
    write_durable(folder / NAME, text.encode("utf-8", "backslashreplace"))


def read_rejected(folder: Path) -> list[tuple[str, str]]:
    """What was left out, if anything."""
    path = folder / NAME
    if not path.exists():
        return []
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [(entry["name"], entry["reason"]) for entry in entries]
