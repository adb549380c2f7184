"""Worker processes that hang or are stopped: reported by name, at growing intervals, and waited for."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flow.functions import get_pid
from headrace import Flow
from headrace.work.stall_report import read_stall_seconds


class Listener(logging.Handler):
    """Keeps what is logged and lets a stopped process go on when it was reported twice."""

    def __init__(self, pid: int) -> None:
        super().__init__(logging.WARNING)
        self.pid = pid
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        if len(self.said) == 2:
            os.kill(self.pid, signal.SIGCONT)


@contextmanager
def stopped(pid: int) -> Iterator[list[str]]:
    """A process is stopped, and goes on after two reports, which are given."""
    listener, log = Listener(pid), logging.getLogger("headrace")
    log.addHandler(listener)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield listener.said
    finally:
        log.removeHandler(listener)


@pytest.fixture(autouse=True)
def short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STALL_SECONDS", "0.3")


@pytest.mark.parametrize("ordered", [True, False])
def test_a_stopped_worker_is_reported_and_waited_for(ordered: bool) -> None:
    count = 100
    passed = iter(Flow.of(range(count)).map(get_pid, 2, start="fork", ordered=ordered))
    pid = next(passed)
    with stopped(pid) as said:
        assert len(list(passed)) == count - 1
    assert len(said) >= 2
    for text in said[:2]:
        assert f"(pid {pid}) has returned no result for " in text and "worker " in text
        assert "of map(get_pid) in hand" in text and f"it is stopped (`kill -CONT {pid}`" in text


def test_reports_come_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STALL_SECONDS", "1")
    passed = iter(Flow.of(range(9)).map(get_pid, 1, start="fork", buffer=1))
    with stopped(next(passed)) as said:
        list(passed)
    assert "for 1 s" in said[0] and "for 2 s" in said[1]


def test_a_stopped_flow_process_is_reported_and_waited_for() -> None:
    passed = iter(Flow.of(range(50)).map(get_pid).in_process(start="fork", buffer=2))
    pid = next(passed)
    with stopped(pid) as said:
        assert list(passed) == [pid] * 49
    assert (
        f"flow process (pid {pid}) has returned no result for 0 s while the consumer waits"
        in said[0]
    )
    assert " for item " in said[0]


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_an_invalid_time_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("HEADRACE_STALL_SECONDS", text)
    with pytest.raises(ValueError, match=f"HEADRACE_STALL_SECONDS: '{text}'; set a number"):
        next(iter(Flow.of(range(9)).map(get_pid, 1, start="fork")))


def test_zero_seconds_means_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_STALL_SECONDS", "0")
    assert read_stall_seconds() == float("inf")
    monkeypatch.delenv("HEADRACE_STALL_SECONDS")
    assert read_stall_seconds() == 60
