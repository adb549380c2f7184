"""The public modules, and the cost of importing them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

import headrace
from api_page import COMPAT, MODULES, PAGE, import_public, is_documented, write_page

VERBS = {"Begin", "Build", "Check", "Collate", "Convert", "Copy", "Decode", "Describe", "Export"}
VERBS |= {"Index", "Iterate", "Load", "Make", "Move", "Open", "Pack", "Prefetch", "Read", "Render"}
VERBS |= {"Return", "Seed", "Send", "Stack", "Verify", "Write", "Yield"}


def find_public(modules: list[str]) -> list[str]:
    """Return the full names of everything that can have a docstring."""
    pytest.importorskip("torch")
    named = [(module, name) for module in modules for name in import_public(module).__all__]
    return [
        f"{module}.{name}"
        for module, name in named
        if is_documented(getattr(import_public(module), name))
    ]


def get_public(full_name: str) -> Any:
    module, _, name = full_name.rpartition(".")
    return getattr(import_public(module), name)


@pytest.mark.parametrize("name", MODULES + COMPAT)
def test_public_names_are_sorted_and_resolve(name: str) -> None:
    pytest.importorskip("torch")
    module = import_public(name)
    assert module.__all__ == sorted(module.__all__, key=lambda n: (not n.isupper(), n))
    assert all(hasattr(module, n) for n in module.__all__)
    assert inspect.getdoc(module)


def test_the_root_has_few_names() -> None:
    assert len(headrace.__all__) <= 25


def is_function(full_name: str) -> bool:
    return inspect.isroutine(get_public(full_name))


@pytest.mark.parametrize("name", find_public(MODULES + COMPAT))
def test_a_public_name_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(get_public(name))


@pytest.mark.parametrize("name", list(filter(is_function, find_public(MODULES))))
def test_a_public_function_says_what_it_does_takes_and_returns(name: str) -> None:
    function = get_public(name)
    text = inspect.getdoc(function) or ""
    assert text.split()[0].rstrip(",") in VERBS, "begin with a verb; if it is one, add it to VERBS"
    if inspect.signature(function).parameters:
        assert "Args:" in text
        assert "Returns:" in text or text.startswith("Return")


def test_the_api_page_lists_what_is_public() -> None:
    pytest.importorskip("torch")
    assert PAGE.read_text() == write_page(), "run python tests/api_page.py"


def test_importing_brings_no_torch_no_optional_package_and_starts_no_thread() -> None:
    code = (
        "import sys, threading, headrace\n"
        "heavy = {'torch', 'lmdb', 'zmq', 'msgpack', 'pytest', 'fsspec', 'av', 'ray'} & set(sys.modules)\n"
        "print(sorted(heavy), threading.active_count())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["[]", "1"]
