"""Ctrl-C while the `headrace` command starts and while it ends: exit code 130, without a traceback.

Importing takes longer than many commands, and nothing is there to be cleaned up: the process leaves
at once. `headrace.cli.main` lets Ctrl-C raise KeyboardInterrupt while a command runs. Programs that
import Headrace as a library keep their own handling.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_SOON = 0.01  # seconds
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""


def _is_command() -> bool:
    """Return whether this process is the `headrace` command itself, not one of its worker processes."""
    given = sys.argv or [""]
    launched = sys.orig_argv[-len(given) :][0] if len(given) <= len(sys.orig_argv) else ""
    if given[0] == "-m":  # as long as Python looks for the module
        return launched == "headrace" or launched.endswith("mheadrace")
    return launched == given[0] and os.path.basename(launched) == "headrace"


_IS_COMMAND = _is_command()


def _leave(_signal: int, _frame: FrameType | None) -> None:
    os.write(2, b"headrace: interrupted\n")
    os._exit(INTERRUPTED)


def leave_on_interrupt() -> None:
    """Let Ctrl-C end the process at once, if it is the command and Ctrl-C is not ignored."""
    if _IS_COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        sys.unraisablehook = _interrupt_again
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt_again(ignored: sys.UnraisableHookArgs) -> None:
    """Raise the Ctrl-C again that came where Python ignores exceptions: in a finalizer, say.

    A timer does that, since here it would be ignored once more.
    """
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, _SOON)
    else:
        sys.__unraisablehook__(ignored)


leave_on_interrupt()
