"""What a stack says that a thread is doing."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.workbench.probe.classify import DECODE, PYTHON, READ, classify


def classify_call(folder: Path, line: str, file: str, function: str) -> tuple[str, str]:
    """What is seen while a user's `line` calls `function` of a library."""
    library, own = folder / "site-packages" / file, folder / "train.py"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_text(f"def {function}(*_):\n    return see()\n")
    own.write_text(line)
    names: dict[str, Any] = {"see": lambda: classify(sys._getframe(1))}
    names = runpy.run_path(str(library), names)
    found: tuple[str, str] = runpy.run_path(str(own), {**names, "open": str})["found"]
    return found


@pytest.mark.parametrize("file", ["PIL/Image.py", "cv2/resizing.py"])
def test_a_line_that_also_opens_a_file_is_not_all_reading(tmp_path: Path, file: str) -> None:
    line = "found = resize(open('a.jpg'))"
    assert classify_call(tmp_path, line, file, "resize") == (PYTHON, "train.py:<module>")


def test_a_library_that_reads_for_a_line_that_reads_is_reading(tmp_path: Path) -> None:
    line = "found = read_file('a')"
    found = classify_call(tmp_path, line, "numpy/npyio.py", "read_file")
    assert found == (READ, "train.py:<module>")


@pytest.mark.parametrize(
    ("file", "kind"),
    [("PIL/ImageFile.py", DECODE), ("PIL/PngImagePlugin.py", DECODE), ("PIL/Image.py", PYTHON)],
)
def test_pillow_is_known_by_its_own_files(tmp_path: Path, file: str, kind: str) -> None:
    assert classify_call(tmp_path, "found = load('decoded')", file, "load")[0] == kind
