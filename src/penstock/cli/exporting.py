"""`penstock export`: back into the layouts of others."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.opening import Format, open_samples
from penstock.cli.terminal import AsJson, print_json
from penstock.pack.export import EXPORTS, export_samples

To = Enum("To", {name: name for name in EXPORTS}, type=str)  # type: ignore[misc]


def export(
    path: Annotated[Path, typer.Argument(help="A data set, or any layout that can be packed.")],
    out: Annotated[Path, typer.Argument(help="The folder, or LMDB file, to make.")],
    to: Annotated[To, typer.Option(help="The layout to write.")],
    format: Annotated[
        Format | None, typer.Option(help="The layout of PATH, if it is not to be found out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the samples into a layout that other systems read: encoded bytes unchanged, in order."""
    samples = open_samples(path, format.value if format else None)
    count = export_samples(samples, out, to=to.value, classes=samples.classes)
    if as_json:
        print_json({"path": str(out), "to": to.value, "samples": count})
    else:
        print(f"{out}: {count} samples as {to.value}")
