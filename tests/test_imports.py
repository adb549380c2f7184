"""The rooms of the house: who may import whom is one table in CONTRIBUTING.md, and the code keeps to it."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import headrace

PACKAGE = Path(headrace.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
LEAVES = {"_core", "arguments", "errors", "image_header", "kinds", "sample"}
ALL = "everything"


def read_matrix() -> dict[str, set[str]]:
    """The rooms that each room may import, as the table in CONTRIBUTING.md says."""
    rows = re.findall(r"^\| `([a-z.]+)/?` \|.*\|([^|]*)\|$", CONTRIBUTING.read_text(), re.MULTILINE)
    return {room.removesuffix(".py"): set(re.findall(r"[a-z]+", allowed)) for room, allowed in rows}


MATRIX = read_matrix()


def find_room(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_modules(file: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, also under TYPE_CHECKING and in functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == "headrace":
                found |= {f"headrace.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def imported_rooms(file: Path) -> set[str]:
    modules = (module.split(".") for module in imported_modules(file))
    return {parts[1] for parts in modules if parts[0] == "headrace" and len(parts) > 1}


@pytest.mark.parametrize("room", sorted(MATRIX))
def test_a_room_imports_only_what_the_matrix_allows(room: str) -> None:
    files = [*(PACKAGE / room).rglob("*.py"), *PACKAGE.glob(f"{room}.py")]
    assert files
    for file in files:
        if MATRIX[room] != {ALL}:
            wrong = imported_rooms(file) - MATRIX[room] - LEAVES - {room}
            assert not wrong, f"{file.relative_to(PACKAGE)} imports {sorted(wrong)}"


def test_the_matrix_names_every_room_and_no_other() -> None:
    rooms = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
    assert {room for room in MATRIX if (PACKAGE / room).is_dir()} == rooms
    modules = {file.stem for file in PACKAGE.glob("*.py") if not file.stem.startswith("_")}
    assert {room for room in MATRIX if room not in rooms} | LEAVES - {"_core"} == modules


def test_only_compat_cli_and_workbench_import_the_flow() -> None:
    allowed = {"flow", "compat", "cli", "workbench", "__init__"}
    users = {find_room(file) for file in PACKAGE.rglob("*.py") if "flow" in imported_rooms(file)}
    assert users <= allowed


def test_nothing_imports_the_command_or_the_workbench() -> None:
    for file in PACKAGE.rglob("*.py"):
        if find_room(file) not in ("cli", "workbench", "__main__"):
            assert not imported_rooms(file) & {"cli", "workbench"}, file


@pytest.mark.parametrize("leaf", sorted(LEAVES - {"_core"}))
def test_a_leaf_imports_no_room(leaf: str) -> None:
    assert imported_rooms(PACKAGE / f"{leaf}.py") <= LEAVES


def test_the_plan_imports_nothing_but_numpy() -> None:
    for file in (PACKAGE / "plan").glob("*.py"):
        for module in imported_modules(file):
            top = module.split(".")[0]
            own = module.startswith(("headrace.plan", "headrace.errors"))
            assert own or top == "numpy" or top in sys.stdlib_module_names, (file.name, module)
