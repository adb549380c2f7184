"""The arguments and options that say what to read, and how."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.open_path import Format
from headrace.files.limits import DEFAULT_MAX_FILE_SIZE

MAX_FILE_SIZE = f"{DEFAULT_MAX_FILE_SIZE >> 30}GiB"

AnyPath = Annotated[Path, typer.Argument(help="Dataset, or any layout that can be packed.")]
LayoutOption = Annotated[
    Format | None,
    typer.Option("--format", help="Layout of the data. Detected automatically if omitted."),
]
PathColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of a listing with paths, or file names without suffix. Default: path."
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option(help="Column of a listing with labels. Default: label.")
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        help="Folder, or pattern of files, of a field below SRC, such as mask=masks/ or mask=gt/*_mask.png. Repeatable.",
    ),
]
Annotations = Annotated[
    Path | None, typer.Option(help="COCO's JSON of annotations; its images are below SRC.")
]
MaxFileSize = Annotated[
    str, typer.Option(help="Largest file, record or video to read; larger ones are rejected.")
]


def parse_fields(given: list[str] | None) -> dict[str, str] | None:
    """Return the places of fields by their names, from `name=place`."""
    fields: dict[str, str] = {}
    for text in given or ():
        name, equals, place = text.partition("=")
        if not equals or name in fields:
            raise typer.BadParameter(f"--field {text}: give each field once, as in mask=masks/")
        fields[name] = place
    return fields or None


class OnError(str, Enum):
    stop = "raise"
    skip = "skip"
