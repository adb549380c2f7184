"""A Python worker of a Loader that is stopped, and a Loader whose process is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import own_transforms as functions
from flow.test_runners import wait_for_end
from headrace import Loader
from work.test_stall_report import stopped

SCRIPT = """
import multiprocessing, sys
from headrace import Loader
import own_transforms as functions
if __name__ == "__main__":
    loader = Loader(sys.argv[1], 4, transform=functions.draw_pixels, num_workers=2, start_method=sys.argv[2])
    batches = iter(loader)
    next(batches)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    sys.stdin.read()
"""


def test_a_stopped_worker_is_reported_with_its_steps_and_waited_for(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_STALL_SECONDS", "0.3")
    with Loader(packed, 4, transform=functions.draw_pixels, num_workers=2) as loader:
        batches = iter(loader)
        next(batches)
        pid = multiprocessing.active_children()[0].pid
        assert pid is not None
        with stopped(pid) as said:
            assert sum(1 for _ in batches) == len(loader) - 1
    assert f"(pid {pid}) has returned no result for" in said[0]
    assert " with steps " in said[0] and "of transform in hand; it is stopped" in said[0]


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_a_killed_loader_leaves_no_temporary_folder(
    packed: Path, tmp_path_factory: pytest.TempPathFactory, start: str
) -> None:
    folder = tmp_path_factory.mktemp("t")  # a short name: sockets are named by at most 107 letters
    script, temporary = folder / "script.py", folder / "t"
    script.write_text(SCRIPT)
    temporary.mkdir()
    paths = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, script, packed, start]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": paths}
    with subprocess.Popen(command, env=environment, **pipes) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    for pid in pids:
        wait_for_end(pid)
    assert list(temporary.glob("pymp-*")) == []
