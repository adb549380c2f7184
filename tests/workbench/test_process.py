"""Looks at the main thread: what they count as."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.workbench.probe.classify import DECODE, PYTHON
from penstock.workbench.probe.process import Process


@pytest.mark.parametrize("worker", [True, False])
def test_a_look_that_had_to_wait_is_believed_where_the_gil_is_let_go_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: bool
) -> None:
    process, usual = Process(str(tmp_path)), sys.getswitchinterval()
    monkeypatch.setattr("threading.active_count", lambda: 3)
    monkeypatch.setattr(process, "_read_state", lambda: "R")
    process.worker = worker
    process._count(DECODE, "train.py:load", late=False)
    process._count(DECODE, "train.py:load", late=True)
    assert process.kinds == ({DECODE: 2} if worker else {DECODE: 1, PYTHON: 1})
    during: list[float] = []
    monkeypatch.setattr(process._end, "wait", lambda _: during.append(sys.getswitchinterval()))
    process._pause()
    assert (during[0] < usual) == worker and sys.getswitchinterval() == usual
