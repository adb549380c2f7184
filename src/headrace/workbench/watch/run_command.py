"""Runs a command with the probe in its Python processes, and monitors it from outside."""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from headrace.workbench import probe
from headrace.workbench.bench.machine import name_disk, read_machine
from headrace.workbench.watch.combine_records import combine, correct_ends, read_records
from headrace.workbench.watch.monitor import PERIOD, Monitor
from headrace.workbench.watch.signals import pass_signals
from headrace.workbench.watch.watched_program import Watched

_PATH = Path(probe.__file__).parent / "path"


def watch_command(command: Sequence[str], output: IO[str] | None = None) -> Watched:
    """Run a command to its end and return what was observed. Signals are passed on to it.

    Args:
        command: Program and arguments.
        output: Where its stdout goes. Default: our stdout.
    """
    machine = read_machine(Path.cwd())
    with (
        _open_folder() as folder,
        pass_signals() as relay,
    ):
        before = _children_cpu()
        begin = time.monotonic()
        process = _start(command, folder, output)
        relay.program = process
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
        watched = combine(
            correct_ends(read_records(Path(folder)), monitor.seen),
            command=shlex.join(command),
            exit_code=code,
            begin=begin,
            end=end,
            system=system,
            interrupted=relay.interrupted,
        )
        return replace(watched, disk=_find_disk(watched))


@contextmanager
def _open_folder() -> Iterator[str]:
    """Yield a new folder for the records, which disappears at the end.

    It is renamed before it is removed: a process that outlives the program finds no folder to write to, whatever
    the moment, and so cannot add a file while the others are removed.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-doctor-") as parent:
        folder = os.path.join(parent, "records")
        os.mkdir(folder)
        try:
            yield folder
        finally:
            os.rename(folder, os.path.join(parent, "ended"))


def _find_disk(watched: Watched) -> str:
    sources = [Path(loader.source) for loader in watched.loaders if loader.source]
    return next((name_disk(path) for path in sources if path.exists()), "")


def _start(command: Sequence[str], folder: str, output: IO[str] | None) -> subprocess.Popen[bytes]:
    paths = [str(_PATH), *filter(None, [os.environ.get("PYTHONPATH")])]
    changed = {"HEADRACE_PROBE": folder, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        return subprocess.Popen(command, env={**os.environ, **changed}, stdout=output)
    except OSError as error:
        raise FileNotFoundError(f"{command[0]}: {error.strerror}") from None


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
