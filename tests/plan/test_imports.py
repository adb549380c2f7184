"""The plan stands alone: it imports NumPy, and of Headrace nothing but itself and the errors."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import headrace.plan


def imported_modules(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found


def test_the_plan_imports_no_other_part_and_nothing_but_numpy() -> None:
    for file in Path(headrace.plan.__file__).parent.glob("*.py"):
        for module in imported_modules(file):
            top = module.split(".")[0]
            own = module.startswith(("headrace.plan", "headrace.errors"))
            assert own or top == "numpy" or top in sys.stdlib_module_names, (file.name, module)


def test_public_names_are_sorted_few_and_there() -> None:
    names = headrace.plan.__all__
    assert names == sorted(names) and len(names) <= 25
    assert all(hasattr(headrace.plan, name) for name in names)
