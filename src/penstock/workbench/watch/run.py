"""Runs a command with the probe in its Python processes, looks at it from outside, and puts both together."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from penstock.workbench import probe
from penstock.workbench.machine import read_machine
from penstock.workbench.watch.monitor import PERIOD, Monitor
from penstock.workbench.watch.record import Watched, combine, read_records

_PATH = Path(probe.__file__).parent / "path"


def watch_command(command: Sequence[str], output: IO[str] | None = None) -> Watched:
    """Runs it to its end. What would end us ends the command, as it would without us; then this goes on.

    What the command prints to stdout goes to `output` if that is given.
    """
    machine = read_machine(Path.cwd())
    with (
        tempfile.TemporaryDirectory(prefix="penstock-doctor-") as folder,
        _pass_signals() as running,
    ):
        before = _children_cpu()
        begin = time.monotonic()
        process = _start(command, folder, output)
        running.append(process)
        monitor = Monitor(process.pid)
        while True:
            monitor.look()
            try:
                code = process.wait(PERIOD)
                break
            except subprocess.TimeoutExpired:
                continue
        end = time.monotonic()
        system = monitor.sum_up(
            machine.capacity_cores,
            min(machine.memory, machine.memory_limit or machine.memory),
            _children_cpu() - before,
        )
        return combine(
            read_records(Path(folder)),
            command=shlex.join(command),
            exit_code=code,
            begin=begin,
            end=end,
            system=system,
        )


def _start(command: Sequence[str], folder: str, output: IO[str] | None) -> subprocess.Popen[bytes]:
    paths = [str(_PATH), *filter(None, [os.environ.get("PYTHONPATH")])]
    changed = {"PENSTOCK_PROBE": folder, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        return subprocess.Popen(command, env={**os.environ, **changed}, stdout=output)
    except OSError as error:
        raise FileNotFoundError(f"{command[0]}: {error.strerror}") from None


@contextmanager
def _pass_signals() -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes in the list get the signals that would end us, and decide what they mean.

    Ctrl-C goes to all processes of the terminal as it is. What is ignored, as nohup does, stays so.
    """
    running: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: object) -> None:
        if not running:
            sys.exit(128 + number)
        for process in running:
            process.send_signal(number)

    # Not SIG_IGN, which the command would inherit.
    before = {signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, pass_on)
    try:
        yield running
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
