"""Registers the commands; turns errors into one line on stderr and an exit code."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

import headrace
from headrace._startup_interrupts import INTERRUPTED, leave_on_interrupt, raise_on_interrupt
from headrace.cli import bench, doctor, export, index, info, pack, show, verify
from headrace.cli.terminal import say
from headrace.errors import HeadraceError

app = typer.Typer(
    name="headrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Pack a vision training set once, and read it at full speed.\n\n"
    "Exit codes: 0 success, 1 verification failed, 2 error, 130 interrupted.",
)
app.command("pack")(pack.pack)
app.command("index")(index.index)
app.command("export")(export.export)
app.command("verify")(verify.verify)
app.command("info")(info.info)
app.command("show")(show.show)
app.command("bench")(bench.bench)
app.command("doctor", cls=doctor.DoctorCommand)(doctor.doctor)


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
    """Run the command line and exit with its code."""
    try:
        raise_on_interrupt()
        try:
            code = _run()
        finally:
            with suppress(OSError):  # a closed pipe
                sys.stdout.flush()
            leave_on_interrupt()
    except KeyboardInterrupt:
        say("headrace: interrupted")
        code = INTERRUPTED
        # If Ctrl-C interrupted an exec of text, as dataclasses use it, Python would end by the signal
        # instead of our exit code, unless a later exec of text succeeds.
        exec("")  # noqa: S102
    sys.exit(code)


def _run() -> int:
    """Return the exit code. Raises KeyboardInterrupt, which Typer would turn into an exit."""
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
