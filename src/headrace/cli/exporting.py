"""`headrace export`: back into the layouts of others."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.opening import Format, open_samples
from headrace.cli.terminal import AsJson, print_json
from headrace.pack.export import EXPORTS, export_samples

To = Enum("To", {name: name for name in EXPORTS}, type=str)  # type: ignore[misc]


def export(
    path: Annotated[Path, typer.Argument(help="Dataset, or any layout that can be packed.")],
    out: Annotated[Path, typer.Argument(help="New folder, or LMDB file, to write.")],
    to: Annotated[To, typer.Option(help="Layout to write.")],
    format: Annotated[
        Format | None, typer.Option(help="Layout of PATH. Detected automatically if omitted.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the samples in a layout that other systems read: encoded bytes unchanged, in order."""
    samples = open_samples(path, format.value if format else None)
    count = export_samples(samples, out, to=to.value, classes=samples.classes)
    if as_json:
        print_json({"path": str(out), "to": to.value, "samples": count})
    else:
        print(f"{out}: {count} samples as {to.value}")
