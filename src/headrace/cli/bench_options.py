"""The options that `headrace bench` and `headrace doctor` share."""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

BatchSize = Annotated[int, typer.Option(min=1, help="Images per batch.")]
Size = Annotated[int, typer.Option(min=1, help="Side of the RandomResizedCrop, in pixels.")]
Transform = Annotated[
    str | None,
    typer.Option(
        help="Your own transforms, as package.module:name or file.py:name. Default: crop and flip."
    ),
]
ImageField = Annotated[
    str | None, typer.Option("--image", help="Field to decode, if samples have several images.")
]
Samples = Annotated[int, typer.Option(min=1, help="Approximate number of samples to measure.")]
Rounds = Annotated[int, typer.Option(min=1, help="Number of rounds in which stages take turns.")]
Seconds = Annotated[float, typer.Option(min=0.01, help="Seconds per stage and round.")]
Html = Annotated[Path | None, typer.Option(help="HTML file to write the report to.")]


def shown_command() -> str:
    """Return the command as it was typed, without the folder of the program."""
    return shlex.join(["headrace", *sys.argv[1:]])


def load_transform(spec: str | None) -> Any:
    """Return the object that `package.module:name` or `file.py:name` names; None for None."""
    if spec is None:
        return None
    source, colon, name = spec.rpartition(":")
    if not colon:
        raise typer.BadParameter(
            f"not a transform: {spec!r}; write package.module:name or file.py:name"
        )
    try:
        return getattr(_import_source(source), name)
    except (ImportError, AttributeError, OSError) as error:
        raise typer.BadParameter(f"{spec}: {error}") from None


def _import_source(source: str) -> Any:
    if not source.endswith(".py"):
        if "" not in sys.path:
            sys.path.insert(0, "")  # as with `python -m`: look in the current folder
        return importlib.import_module(source)
    spec = importlib.util.spec_from_file_location("headrace_user_transform", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # workers look functions up there
    spec.loader.exec_module(module)
    return module
