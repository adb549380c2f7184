"""`headrace export`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.dataset_summary import count_recoded, describe_recoded
from headrace.cli.open_path import SourceView, open_samples
from headrace.cli.source_options import AnyPath, LayoutOption
from headrace.cli.terminal import AsJson, print_json, say
from headrace.pack.export import EXPORTS, export_samples

To = Enum("To", {name: name for name in EXPORTS}, type=str)  # type: ignore[misc]


def export(
    path: AnyPath,
    out: Annotated[Path, typer.Argument(help="New folder, or LMDB file, to write.")],
    to: Annotated[To, typer.Option(help="Layout to write.")],
    layout: LayoutOption = None,
    as_json: AsJson = False,
) -> None:
    """Write the samples in a layout that other systems read, in order and with unchanged bytes. Recoded images stay recoded."""
    samples = open_samples(path, layout.value if layout else None)
    count = export_samples(samples, out, to=to.value, classes=samples.classes)
    recoded = {} if isinstance(samples, SourceView) else count_recoded(samples.index)
    if sentence := describe_recoded(recoded):
        say(f"{sentence}; so are they exported")
    if as_json:
        print_json({"path": str(out), "to": to.value, "samples": count, "recoded": recoded})
    else:
        print(f"{out}: {count} samples as {to.value}")
