"""Write docs/reference/api.md from the docstrings of the public modules.

python tests/api_page.py
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "api.md"
MODULES = [
    "headrace",
    "headrace.torch",
    "headrace.transforms",
    "headrace.kinds",
    "headrace.flow",
    "headrace.render",
    "headrace.testing",
]
COMPAT = [
    "headrace.compat.efficient_pytorch",
    "headrace.compat.gulpio",
    "headrace.compat.gulpio.dataset",
    "headrace.compat.gulpio.transforms",
    "headrace.compat.imagenet_seq",
    "headrace.compat.tensorpack",
    "headrace.compat.tensorpack.imgaug",
]
WITH_METHODS = ["headrace.Batch", "headrace.Dataset", "headrace.Flow", "headrace.Loader"]
HEAD = """\
# API

This page lists everything that is public. Every other module may change without notice. It is generated from
the docstrings by `python tests/api_page.py`, and a test compares it with the code; `help(headrace.Loader)` shows
the arguments.
"""


def import_public(name: str) -> ModuleType:
    return importlib.import_module(name)


def is_documented(value: object) -> bool:
    """Return whether a value can have a docstring: constants and type aliases cannot."""
    return inspect.isroutine(value) or (inspect.isclass(value) and hasattr(value, "__mro__"))


def first_sentence(value: object) -> str:
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s(?=[A-Z])", text)[0].rstrip(".:").replace("|", "\\|")


def write_rows(rows: list[tuple[str, object]]) -> str:
    lines = [
        f"| `{name}` | {first_sentence(value) if is_documented(value) else ''} |"
        for name, value in rows
    ]
    return "\n".join(["| name | |", "|---|---|", *lines]) + "\n"


def write_methods(name: str) -> str:
    module, _, kind = name.rpartition(".")
    cls = getattr(import_public(module), kind)
    methods = [(f"{kind}.{n}", v) for n, v in vars(cls).items() if is_method(n, v)]
    return f"\n## `{name}`\n\n{write_rows([(n, unwrap(v)) for n, v in methods])}"


def is_method(name: str, value: object) -> bool:
    routine = isinstance(value, (property, staticmethod)) or inspect.isfunction(value)
    return routine and not name.startswith("_")


def unwrap(value: object) -> object:
    value = value.fget if isinstance(value, property) else value
    return value.__func__ if isinstance(value, staticmethod) else value


def write_page() -> str:
    parts = [HEAD]
    for name in MODULES:
        module = import_public(name)
        rows = [(n, getattr(module, n)) for n in module.__all__]
        parts.append(f"\n## `{name}`\n\n{first_sentence(module)}.\n\n{write_rows(rows)}")
    parts += map(write_methods, WITH_METHODS)
    parts.append(
        "\n## `headrace.compat`\n\nThe names of other libraries: [drop-in.md](drop-in.md).\n"
    )
    for name in COMPAT:
        names = ", ".join(f"`{n}`" for n in import_public(name).__all__)
        parts.append(f"\n### `{name}`\n\n{names}\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(write_page())
