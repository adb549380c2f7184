"""The files of the original systems, and what is expected of them, for tests that go file by file."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

FIXTURES = Path(__file__).resolve().parents[3] / "shared/fixtures"


def expected(name: str) -> Any:
    """The `expected.json` of a fixture."""
    return json.loads((FIXTURES / name / "expected.json").read_text())


def hostile(kind: str) -> list[Any]:
    """The hostile files of a kind, nothing where the fixtures are not there."""
    path = FIXTURES / "hostile/expected.json"
    return json.loads(path.read_text())[kind]["results"] if path.exists() else []


def good_samples(group: str) -> list[Any]:
    """The samples that stand around a hostile one in its file."""
    content = json.loads((FIXTURES / "hostile/expected.json").read_text())["lmdb"]["good_samples"]
    return next(samples for name, samples in content.items() if group in name)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def matches_array(data: bytes, wanted: dict[str, Any]) -> bool:
    """Whether a `.npy` holds the array that is described by shape, dtype and hash of its C order."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return (list(array.shape), array.dtype.str, sha256(array.tobytes())) == (
        wanted["shape"],
        wanted["dtype"],
        wanted["sha256"],
    )
