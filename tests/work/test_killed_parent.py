"""A parent that is killed while its workers run: nothing of theirs remains, in memory or on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from flow.test_runners import wait_for_end

FLOW = """
import os, sys
from headrace import Flow
from flow.functions import get_pid
if __name__ == "__main__":
    passed = iter(Flow.of(range(10)).repeat().map({function}, 2, start={start!r}))
    print(next(passed), flush=True)
    print(sorted({{next(passed) for _ in range(200)}}), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_a_killed_parent_leaves_no_temporary_folder(
    tmp_path_factory: pytest.TempPathFactory, start: str
) -> None:
    folder = tmp_path_factory.mktemp("t")  # a short name: sockets are named by at most 107 letters
    script, temporary = folder / "script.py", folder / "t"
    script.write_text(FLOW.format(function="get_pid", start=start))
    temporary.mkdir()
    environment = os.environ | {
        "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, script], env=environment, **pipes) as parent:
        first = int(parent.stdout.readline())
        pids = [int(pid) for pid in parent.stdout.readline().strip("[]\n").split(",")]
        assert first in pids or len(pids) == 2
        if start == "forkserver":
            assert list(temporary.glob("pymp-*"))
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    for pid in pids:
        wait_for_end(pid)
    assert list(temporary.iterdir()) == []
