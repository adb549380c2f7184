"""Read what is expected of the files of the original systems, for tests that go file by file."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import numpy as np

from stored import FIXTURES


def expected(name: str) -> Any:
    """Return the `expected.json` of a fixture."""
    return json.loads((FIXTURES / name / "expected.json").read_text())


def hostile(kind: str) -> list[Any]:
    """Return the hostile files of a kind."""
    results: list[Any] = expected("hostile")[kind]["results"]
    return results


def good_samples(group: str) -> list[Any]:
    """Return the samples that stand around a hostile one in its file."""
    content = expected("hostile")["lmdb"]["good_samples"]
    return next(samples for name, samples in content.items() if group in name)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def matches_array(data: bytes, wanted: dict[str, Any]) -> bool:
    """Return whether a `.npy` holds the array that is described by shape, dtype and hash of its C order."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return (list(array.shape), array.dtype.str, sha256(array.tobytes())) == (
        wanted["shape"],
        wanted["dtype"],
        wanted["sha256"],
    )
