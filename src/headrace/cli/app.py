"""Puts the commands together; turns errors into one line on stderr and an exit code.

Exit codes: 0 success, 1 verification failed, 2 error, 130 interrupted.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

import headrace
from headrace._interrupts import INTERRUPTED, leave_on_interrupt, raise_on_interrupt
from headrace.cli import contact, doctoring, exporting, inspecting, measuring, packing
from headrace.cli.terminal import say
from headrace.errors import HeadraceError

app = typer.Typer(
    name="headrace",
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
        print(f"headrace {headrace.__version__}")
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
    """Run the command of this process, and exit with its code."""
    try:
        raise_on_interrupt()
        try:
            code = _run()
        finally:
            with suppress(OSError):  # a pipe that nobody reads
                sys.stdout.flush()
            leave_on_interrupt()
    except KeyboardInterrupt:
        say("headrace: interrupted")
        code = INTERRUPTED
        # Where Ctrl-C came inside an exec of text (dataclasses are made by that), Python would end by the
        # signal in place of our exit code, unless an exec of text ends well after it.
        exec("")  # noqa: S102
    sys.exit(code)


def _run() -> int:
    """Return the exit code. KeyboardInterrupt is raised, whatever Typer makes of it."""
    try:
        app()
    except (HeadraceError, OSError, ValueError) as error:
        say(f"headrace: {error}")
        return 2
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            raise KeyboardInterrupt from None
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
