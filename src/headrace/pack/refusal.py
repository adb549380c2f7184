"""The errors that name samples which cannot be packed or indexed, the first ten of them."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import PackError
from headrace.store.rejected import NAME as REJECTED
from headrace.store.rejected import Rejected, summarise_rejected


def refuse_pack(rejected: Rejected, total: int, on_error: str) -> PackError:
    """Return the error of a pack that stops because of bad files, or has nothing else to pack."""
    if on_error == "raise":
        advice = "Repair or remove them, or pack the rest with on_error='skip' (--on-error skip)."
    else:
        advice = "Repair or remove them; there is nothing else to pack."
    return _refuse(rejected, total, "files cannot be packed", on_error, advice)


def refuse_index(rejected: Rejected, total: int, on_error: str) -> PackError:
    """Return the error of indexing that stops because of bad samples, or has nothing else to index."""
    advice = "Repair or remove them."
    if on_error == "raise":
        advice = "Leave them out with on_error='skip' (--on-error skip)."
    return _refuse(rejected, total, "samples cannot be indexed", on_error, advice)


def _refuse(rejected: Rejected, total: int, what: str, on_error: str, advice: str) -> PackError:
    listed = f"on_error='skip' lists all of them in {REJECTED}"
    lines = _list(rejected, listed if on_error == "raise" else "there are no others")
    return PackError(f"{len(rejected)} of {total} {what}:\n{lines}Nothing was written. {advice}")


def refuse_incomplete(rejected: Rejected, total: int, samples: int, folder: Path) -> PackError:
    """Return the error of a pack that finds its dataset in `folder`, with fewer samples than it has."""
    listed = _list(rejected, f"{folder / REJECTED} lists all of them")
    return PackError(
        f"{folder}: already holds this dataset, but without {total - samples} of {total} files, which "
        f"cannot be packed:\n{listed}Repair or remove them and choose another folder, or accept it as it "
        "is with on_error='skip' (--on-error skip)."
    )


def _list(rejected: Rejected, rest: str) -> str:
    return "".join(f"  {line}\n" for line in summarise_rejected(rejected, rest))
