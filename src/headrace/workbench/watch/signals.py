"""Passes signals on to the program that the doctor watches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_USER = (signal.SIGUSR1, signal.SIGUSR2)
_PASSED = (*_KEYBOARD, *_USER, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Relay:
    """Passes signals to `program` once there is one. `interrupted`: one of them was meant to end it."""

    program: subprocess.Popen[bytes] | None = None
    interrupted: bool = False

    def pass_on(self, number: int, _: object) -> None:
        if self.program is None:
            sys.exit(128 + number)
        self.interrupted |= number not in _USER
        if not (number in _KEYBOARD and _is_foreground()):
            self.program.send_signal(number)


def _is_foreground() -> bool:
    """Return whether we are in the foreground of a terminal: its Ctrl-C reaches the program directly."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


@contextmanager
def pass_signals() -> Iterator[Relay]:
    """Pass signals that would end us to the program, which decides what they mean.

    Signals that are ignored, as with nohup, stay ignored.
    """
    relay = Relay()
    before = {}
    try:
        for number in _PASSED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, relay.pass_on)
        yield relay
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
