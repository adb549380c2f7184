"""Puts the verbs together; turns errors into one line on stderr and an exit code.

Exit codes: 0 done, 1 the data are not in order, 2 it could not be done, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import penstock
from penstock.cli import contact, doctoring, exporting, inspecting, measuring, packing
from penstock.cli.terminal import say
from penstock.errors import PenstockError

app = typer.Typer(
    name="penstock",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Keeps the accelerator fed: pack a vision training set once, read it back at full speed.",
)
app.command("pack")(packing.pack)
app.command("index")(packing.index)
app.command("export")(exporting.export)
app.command("verify")(inspecting.verify)
app.command("info")(inspecting.info)
app.command("show")(contact.show)
app.command("bench")(measuring.bench)
app.command("doctor", cls=doctoring.DoctorCommand)(doctoring.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """The console script."""
    try:
        app()
    except (PenstockError, OSError, ValueError) as error:
        say(f"penstock: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        say("penstock: interrupted")
        sys.exit(130)
