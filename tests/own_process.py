"""Python in a process of its own: what happens to threads at import, fork and exit is seen only there."""

from __future__ import annotations

import subprocess
import sys


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
