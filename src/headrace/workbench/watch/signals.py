"""Signals that would end the doctor, for the program that it watches."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_PASSED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_ARRIVES = 0.5
"""Seconds in which a signal for all of a group has surely reached each."""


class Running(list[subprocess.Popen[bytes]]):
    """Processes that run. `interrupted`: they were sent a signal that is meant to end them."""

    interrupted = False


@contextmanager
def pass_signals() -> Iterator[Running]:
    """The processes in the list get the signals that would end us, and decide what they mean.

    Once: Ctrl-C, and whatever else is sent to the group of processes that we are in, reaches them as it is.
    What is ignored, as nohup does, stays so.
    """
    running = Running()
    arrived: deque[int] = deque()
    twin = _Twin()

    def pass_on(number: int, _: object) -> None:
        if not running:
            sys.exit(128 + number)
        running.interrupted |= number not in (signal.SIGUSR1, signal.SIGUSR2)
        arrived.append(number)
        if len(arrived) > 1:
            return  # the call that is at work takes it in its turn
        while arrived:
            if not twin.was_sent(arrived[0]):
                for process in running:
                    process.send_signal(arrived[0])
            arrived.popleft()

    before = {}
    try:
        for number in _PASSED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, pass_on)
        yield running
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        twin.end()


class _Twin:
    """A process of our group that does nothing: what ends it was sent to the group, and not to us alone."""

    def __init__(self) -> None:
        self._process = self._start()
        self._ended_by: list[int] = []  # signals that came while it was asked for others

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,  # ends with us, however we end
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def was_sent(self, number: int) -> bool:
        """Whether this signal, which we have just got, ended it; then another takes its place."""
        if number in self._ended_by:
            self._ended_by.remove(number)
            return True
        try:
            code = self._process.wait(_ARRIVES)
        except subprocess.TimeoutExpired:
            return False
        self.end()
        self._process = self._start()
        if code == -number:
            return True
        self._ended_by.append(-code)
        return False

    def end(self) -> None:
        with self._process:  # closes its stdin and waits
            self._process.kill()
