"""Monitoring a program from outside."""

from __future__ import annotations

import os
import time

import pytest

from headrace.workbench.watch.monitor import Monitor, read_schedule


def test_the_schedule_tells_how_long_threads_ran() -> None:
    before, start = read_schedule(os.getpid())[0], time.process_time()
    while time.process_time() - start < 0.05:
        pass
    assert read_schedule(os.getpid())[0] - before == pytest.approx(0.05, abs=0.02)


def test_waiting_for_a_core_is_reported_in_seconds_and_as_a_share() -> None:
    monitor = Monitor(os.getpid(), ran={1: 2.0, 2: 1.0}, delay={1: 0.5, 2: 0.5})
    system = monitor.sum_up(cores=2, memory_bytes=1 << 30, children_cpu=0.0)
    assert (system.cpu_seconds, system.delay_seconds) == (3.0, 1.0)
    assert system.run_delay == pytest.approx(0.25)
