"""Python imports this at startup if its folder is on PYTHONPATH: it starts the probe, then the user's sitecustomize.

It must not fail or be noticed by the user's program.
"""

import importlib
import importlib.util
import os
import sys


def _start_probe() -> None:
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # Intentional: not as part of headrace, whose import costs time and which may not be installed there.
    spec = importlib.util.spec_from_file_location(
        "headrace_probe",
        os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder],
    )
    assert spec is not None and spec.loader is not None
    probe = importlib.util.module_from_spec(spec)
    sys.modules["headrace_probe"] = probe
    spec.loader.exec_module(probe)
    probe.start(os.environ["HEADRACE_PROBE"])


def _run_shadowed() -> None:
    """Import the sitecustomize that ours shadows."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        if ours is not None:
            sys.modules["sitecustomize"] = ours


if "HEADRACE_PROBE" in os.environ:
    try:
        _start_probe()
    except Exception as error:  # noqa: BLE001 - an unwatched program is better than a failed one
        print(f"headrace doctor: cannot watch this process: {error!r}", file=sys.stderr)
    _run_shadowed()
