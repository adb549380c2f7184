"""Runs a command with the probe in its Python processes, looks at it from outside, and puts both together."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.workbench import probe
from penstock.workbench.machine import read_machine
from penstock.workbench.watch.monitor import PERIOD, Monitor
from penstock.workbench.watch.record import Watched, combine, read_records

_PATH = Path(probe.__file__).parent / "path"


def watch_command(command: Sequence[str]) -> Watched:
    """Runs it to its end. Ctrl-C reaches the command, as it would without us; then this goes on."""
    machine = read_machine(Path.cwd())
    with tempfile.TemporaryDirectory(prefix="penstock-doctor-") as folder, _leave_interrupts():
        before = _children_cpu()
        begin = time.monotonic()
        process = _start(command, folder)
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


def _start(command: Sequence[str], folder: str) -> subprocess.Popen[bytes]:
    paths = [str(_PATH), *filter(None, [os.environ.get("PYTHONPATH")])]
    changed = {"PENSTOCK_PROBE": folder, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        return subprocess.Popen(command, env={**os.environ, **changed})
    except OSError as error:
        raise FileNotFoundError(f"{command[0]}: {error.strerror}") from None


@contextmanager
def _leave_interrupts() -> Iterator[None]:
    """Ctrl-C goes to all processes of the terminal; the command decides what it means."""
    before = signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which it would inherit
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
