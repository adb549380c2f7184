"""Samples of the main thread and their kinds."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.workbench.probe.classify_stack import BLOCKED, DECODE, IDLE, PYTHON, READ
from headrace.workbench.probe.watched_process import Process


def pause(process: Process, monkeypatch: pytest.MonkeyPatch, then: float | None = None) -> float:
    """Return the switch interval during a pause, in which the program may set it."""
    during: list[float] = []

    def wait(_: float) -> bool:
        during.append(sys.getswitchinterval())
        if then is not None:
            sys.setswitchinterval(then)
        return False

    monkeypatch.setattr(process._end, "wait", wait)
    process._pause()
    return during[0]


@pytest.fixture
def usual() -> Iterator[float]:
    interval = sys.getswitchinterval()
    yield interval
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("prompt", [True, False])
def test_a_late_sample_is_trusted_if_the_switch_interval_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: bool, usual: float
) -> None:
    process = Process(str(tmp_path))
    monkeypatch.setattr(process, "_read_state", lambda: "R")
    process._prompt = prompt
    process._count(DECODE, "train.py:load", late=False)
    process._count(DECODE, "train.py:load", late=True)
    assert process.kinds == ({DECODE: 2} if prompt else {DECODE: 1, PYTHON: 1})
    assert (pause(process, monkeypatch) < usual) == prompt
    assert sys.getswitchinterval() == usual


def test_a_late_sample_of_an_idle_thread_is_idle(tmp_path: Path) -> None:
    process = Process(str(tmp_path))
    process._count(IDLE, "queues.py:get", late=True)
    assert process.kinds == {IDLE: 1} and not process.places


@pytest.mark.parametrize(
    ("seen", "state", "late", "kind"),
    [
        (PYTHON, "S", False, BLOCKED),
        (PYTHON, "S", True, PYTHON),
        (PYTHON, "R", False, PYTHON),
        (PYTHON, "D", False, READ),
        (DECODE, "S", False, DECODE),
    ],
    ids=["sleeps", "waits for the GIL", "runs", "waits for a disk", "decodes in other threads"],
)
def test_python_that_sleeps_is_blocked_unless_it_waits_for_the_gil(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: str, state: str, late: bool, kind: str
) -> None:
    process = Process(str(tmp_path))
    process._prompt = True
    monkeypatch.setattr(process, "_read_state", lambda: state)
    process._count(seen, "train.py:load", late=late)
    assert process.kinds == {kind: 1} and process.places == {f"{kind} train.py:load": 1}


def test_a_main_thread_that_waits_for_a_lock_is_seen_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, gate = Process(str(tmp_path)), threading.Lock()
    count = process._count

    def count_once(kind: str, place: str, *, late: bool) -> None:
        count(kind, place, late=late)
        process._end.set()
        gate.release()

    monkeypatch.setattr(process, "_count", count_once)
    process.depth = 1
    gate.acquire()
    process.begin()
    gate.acquire()
    assert process._thread is not None
    process._thread.join()
    os.close(process._stat)
    assert process.kinds == {BLOCKED: 1}


def test_the_switch_interval_stays_if_the_program_has_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(str(tmp_path))
    ours = [threading.Thread(name=name) for name in ("headrace-probe", "headrace-read-0")]
    running = [threading.main_thread(), *ours]
    monkeypatch.setattr("threading.enumerate", lambda: running)
    assert process._is_alone()
    running.append(threading.Thread(name="mine"))
    assert not process._is_alone()


class Alone:
    """Tensors that tell whether the worker's main thread is alone, and the number of threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> Any:
        alone = Process(str(self.folder))._is_alone()
        return pytest.importorskip("torch").tensor([alone, threading.active_count()])


def test_threads_that_send_tensors_are_not_the_programs(tmp_path: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    loader = data.DataLoader(Alone(tmp_path), None, num_workers=1, prefetch_factor=1)
    *_, (alone, threads) = map(list, loader)
    assert threads == 3, "main, one that feeds the queue, one that shares memory"
    assert alone


def test_a_switch_interval_that_the_program_sets_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usual: float
) -> None:
    process = Process(str(tmp_path))
    process._prompt = True
    pause(process, monkeypatch, then=0.05)
    assert sys.getswitchinterval() == pytest.approx(0.05)
    process._prompt = True
    assert pause(process, monkeypatch) == pytest.approx(0.05), "it is left alone from then on"
    assert not process._prompt


def test_a_program_that_restores_our_switch_interval_gets_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usual: float
) -> None:
    process = Process(str(tmp_path))
    process._prompt = True
    read = pause(process, monkeypatch, then=0.05)
    assert read < usual
    pause(process, monkeypatch, then=read)
    assert sys.getswitchinterval() == usual
    assert pause(process, monkeypatch) == usual, "it is left alone from then on"


def test_a_forked_child_has_the_switch_interval_of_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usual: float
) -> None:
    process = Process(str(tmp_path))
    process._prompt = True
    monkeypatch.setattr(process, "begin", lambda: None)
    seen: list[float] = []

    def fork(_: float) -> bool:
        process.begin_forked()  # as in a child that begins within the pause
        seen.append(sys.getswitchinterval())
        return False

    monkeypatch.setattr(process._end, "wait", fork)
    process._pause()
    assert seen == [usual]
