"""Signals for the program that the doctor watches: each arrives once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from headrace.workbench.watch import signals
from headrace.workbench.watch.signals import pass_signals


class Program:
    """Notes what it is sent."""

    def __init__(self) -> None:
        self.got: list[int] = []

    def send_signal(self, number: int) -> None:
        self.got.append(number)


@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_a_signal_to_the_doctor_alone_is_passed_on(name: str) -> None:
    number, program = signal.Signals[name], Program()
    before = signal.signal(number, signal.SIG_DFL)  # a job in the background ignores some
    try:
        with pass_signals() as running:
            running.append(program)  # type: ignore[arg-type]
            os.kill(os.getpid(), number)
            assert program.got == [number]
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_signals_arrive_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(_: object, number: int) -> bool:
        if number == signal.SIGUSR1:
            os.kill(os.getpid(), signal.SIGTERM)  # while it looks whether the first was for all
        return False

    monkeypatch.setattr(signals._Twin, "was_sent", look)
    program = Program()
    with pass_signals() as running:
        running.append(program)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGUSR1)
        assert program.got == [signal.SIGUSR1, signal.SIGTERM]


def test_a_signal_to_the_whole_group_is_not_passed_on_again() -> None:
    """Twice, since the first ends what tells the one from the other."""
    script = (
        "import os, signal\n"
        "from headrace.workbench.watch.signals import pass_signals\n"
        "from workbench.test_signals import Program\n"
        "with pass_signals() as running:\n"
        "    running.append(Program())\n"
        "    for number in (signal.SIGINT, signal.SIGTERM):\n"
        "        os.killpg(0, number)\n"
        "    print(running[0].got)\n"
    )
    path = os.pathsep.join(filter(None, sys.path))
    told = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert told.stdout == "[]\n", told.stderr


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pass_signals():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
