"""The house itself: what is public, what imports what, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import headrace

ROOT = Path(headrace.__file__).parent
FOLDERS = ["formats", "pack", "plan", "read", "render", "run", "serve"]


def test_public_names_are_sorted_and_few() -> None:
    assert headrace.__all__ == sorted(headrace.__all__)
    assert len(headrace.__all__) <= 25
    assert all(hasattr(headrace, name) for name in headrace.__all__)


def imported_folders(file: Path) -> set[str]:
    """The folders of the package that a file imports from."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
    parts = [module.split(".") for module in modules if module.startswith("headrace.")]
    return {part[1] for part in parts}


def test_a_folder_imports_only_from_folders_to_its_left() -> None:
    for place, folder in enumerate(FOLDERS):
        allowed = {*FOLDERS[: place + 1], "errors", "sample", "_core"}
        for file in (ROOT / folder).rglob("*.py"):
            wrong = imported_folders(file) - allowed
            assert not wrong, f"{file.relative_to(ROOT)} imports {wrong}"


def test_nothing_imports_the_cli_or_the_workbench() -> None:
    for file in ROOT.rglob("*.py"):
        if file.relative_to(ROOT).parts[0] not in ("cli", "workbench", "__main__.py"):
            assert not imported_folders(file) & {"cli", "workbench"}, file


def test_importing_brings_no_torch_no_optional_package_and_starts_no_thread() -> None:
    code = (
        "import sys, threading, headrace\n"
        "heavy = {'torch', 'lmdb', 'zmq', 'msgpack', 'fsspec', 'av', 'ray'} & set(sys.modules)\n"
        "print(sorted(heavy), threading.active_count())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["[]", "1"]
