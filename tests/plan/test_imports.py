"""The plan stands alone: it imports NumPy, and of Penstock nothing but itself and the errors."""

from __future__ import annotations

import subprocess
import sys

import penstock.plan

SCRIPT = """
import sys, numpy
before = set(sys.modules)
import penstock.plan
print(*sorted(set(sys.modules) - before))
"""


def test_importing_the_plan_imports_no_other_part_and_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    )
    modules = done.stdout.split()
    allowed = ("penstock.plan", "penstock.errors")
    assert all(m == "penstock" or m.startswith(allowed) for m in modules if "penstock" in m)
    assert not {"torch", "pyarrow", "PIL"} & set(modules)


def test_public_names_are_sorted_few_and_there() -> None:
    names = penstock.plan.__all__
    assert names == sorted(names) and len(names) <= 25
    assert all(hasattr(penstock.plan, name) for name in names)
