"""The errors that name samples which cannot be packed or indexed, the first ten of them."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import PackError
from headrace.pack.rejected import NAME as REJECTED
from headrace.pack.rejected import Rejected, summarise_rejected

_LISTED = f"on_error='skip' lists all of them in {REJECTED}"


def refuse_pack(rejected: Rejected, total: int, on_error: str) -> PackError:
    """Return the error of a pack that ends because of bad files, or has nothing else to pack."""
    advice, rest = "; there is nothing else to pack", "none can be packed"
    if on_error == "raise":
        advice, rest = ", or pack the rest with on_error='skip' (--on-error skip)", _LISTED
    return PackError(
        f"{len(rejected)} of {total} files cannot be packed:\n{_list(rejected, rest)}"
        f"Nothing was written. Repair or remove them{advice}."
    )


def refuse_incomplete(rejected: Rejected, total: int, samples: int, folder: Path) -> PackError:
    """Return the error of a pack that finds its dataset in `folder`, with fewer samples than it has."""
    listed = _list(rejected, f"{folder / REJECTED} lists all of them")
    return PackError(
        f"{folder}: already holds this dataset, but without {total - samples} of {total} files, which "
        f"cannot be packed:\n{listed}Repair or remove them and choose another folder, or accept it as it "
        "is with on_error='skip' (--on-error skip)."
    )


def refuse_index(rejected: Rejected, total: int, on_error: str) -> PackError:
    """Return the error of indexing that ends because of bad samples."""
    advice, rest = "", "none can be indexed"
    if on_error == "raise":
        advice, rest = " Leave them out with on_error='skip' (--on-error skip).", _LISTED
    return PackError(
        f"{len(rejected)} of {total} samples cannot be indexed:\n{_list(rejected, rest)}"
        f"Nothing was written.{advice}"
    )


def _list(rejected: Rejected, rest: str) -> str:
    return "".join(f"  {line}\n" for line in summarise_rejected(rejected, rest))
