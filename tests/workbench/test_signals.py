"""Signals for the program that the doctor watches."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.workbench.watch import signals
from headrace.workbench.watch.signals import pass_signals


class Program:
    """Notes the signals that it is sent."""

    def __init__(self) -> None:
        self.got: list[int] = []

    def send_signal(self, number: int) -> None:
        self.got.append(number)


@pytest.fixture
def terminal() -> Iterator[int]:
    """A terminal for the stdin of a child process."""
    here, there = pty.openpty()
    yield there
    os.close(here)
    os.close(there)


@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_a_signal_is_passed_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_is_foreground", lambda: False)
    number, program = signal.Signals[name], Program()
    before = signal.signal(number, signal.SIG_DFL)  # a background job ignores some
    try:
        with pass_signals() as relay:
            relay.program = program  # type: ignore[assignment]
            os.kill(os.getpid(), number)
            assert program.got == [number]
            assert relay.interrupted == (not name.startswith("SIGUSR"))
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_keyboard_signals_are_not_passed_on_in_the_foreground_of_a_terminal(terminal: int) -> None:
    script = (
        "import os, signal\n"
        "os.open(os.ttyname(0), os.O_RDWR)  # becomes the terminal of this session\n"
        "from headrace.workbench.watch.signals import pass_signals\n"
        "from workbench.test_signals import Program\n"
        "with pass_signals() as relay:\n"
        "    relay.program = Program()\n"
        "    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):\n"
        "        os.kill(os.getpid(), number)\n"
        "    print(relay.program.got == [signal.SIGTERM], relay.interrupted)\n"
    )
    path = os.pathsep.join(filter(None, sys.path))
    told = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        stdin=terminal,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert told.stdout == "True True\n", told.stderr


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pass_signals():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_before_the_program_starts_ends_the_doctor() -> None:
    with pytest.raises(SystemExit) as ended, pass_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM
