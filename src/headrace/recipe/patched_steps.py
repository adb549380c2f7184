"""Detect hooks and patched methods: does a step of torchvision still do what its class says?

In: a step whose class is known. Out: how it was changed, or an empty string. Not detected: replaced functions of
torchvision itself, and changes after the loader was made.
"""

from __future__ import annotations

import sys
from typing import Any

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_TABLES = ("_compiled_call_impl", "_AUGMENTATION_SPACE", "_transformed_types")
"""What belongs to a class and decides what its steps do, without being a function."""
_CALLS = ("__call__", "_wrapped_call_impl", "_call_impl")
"""The methods that a call of a torch module goes through; its other methods do not matter."""


def find_change(step: object) -> str:
    """Return how this step differs from others of its class, or its class from torchvision's own."""
    hooks = [name for name in _HOOKS if getattr(step, name, None)]
    if hooks:
        return "it has hooks"
    if any(map(_is_torch_module, type(step).__mro__)) and _has_global_hooks():
        return "torch has hooks for all modules"
    for name in getattr(step, "__dict__", {}):
        if callable(getattr(type(step), name, None)) or name in _TABLES:
            return f"its {name} was replaced"
    for kind in type(step).__mro__[:-1]:
        names = _CALLS if _is_torch_module(kind) else vars(kind)
        for name in names:
            if _is_foreign(vars(kind).get(name), kind):
                return f"{kind.__name__}.{name} was replaced"
    return ""


def _is_torch_module(kind: type) -> bool:
    return kind.__module__ == "torch.nn.modules.module"


def _has_global_hooks() -> bool:
    module = sys.modules["torch.nn.modules.module"]
    return any(getattr(module, f"_global{name}", None) for name in _HOOKS)


def _is_foreign(value: Any, kind: type) -> bool:
    """Return whether a member of a class is a function of another package than the class.

    Wrappers copy names from what they wrap, but they keep their own globals.
    """
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, type) or not callable(value) or kind.__module__ == "builtins":
        return False
    module: str = getattr(value, "__globals__", {}).get("__name__", "")
    return module.partition(".")[0] != kind.__module__.partition(".")[0]
