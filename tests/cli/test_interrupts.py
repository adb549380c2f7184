"""Ctrl-C at any moment of a command: exit code 130, one line, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import headrace
from trees import digests, make_folder

SOURCE = Path(headrace.__file__).parents[1]

# Python imports it before anything else. Counts the calls of functions from the moment when Headrace
# has been reached, and sends the process Ctrl-C at one of them, given by its number or its name; or
# when Python is about to end.
AT_CALL = """
import atexit, os, signal, sys
when, place = os.environ["INTERRUPT_AT"], os.environ["INTERRUPT_COUNT"]
calls = -1

def count(frame, event, argument):
    global calls
    if calls < 0:
        if event != "return" or frame.f_code.co_name != "leave_on_interrupt":
            return
    elif event != "call":
        return
    calls += 1
    if when in (str(calls), frame.f_code.co_name):
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

def end():
    sys.setprofile(None)
    if when == "end":
        os.kill(os.getpid(), signal.SIGINT)
    elif when == "never":
        open(place, "w").write(str(calls))

atexit.register(end)
sys.setprofile(count)
"""
SCRIPT = "import re\nimport sys\nfrom headrace.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
COMMAND = ["-m", "headrace"]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source, the console script as pip writes it, and what Python imports first."""
    root = tmp_path_factory.mktemp("room")
    make_folder(root / "source", classes=2, per_class=2)
    (root / "sitecustomize.py").write_text(AT_CALL)
    (root / "headrace").write_text(SCRIPT)
    return root


def run(room: Path, start: Sequence[str], when: object, *arguments: object) -> tuple[int, str]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{room}:{SOURCE}",
        "INTERRUPT_AT": str(when),
        "INTERRUPT_COUNT": str(room / "count"),
    }
    result = subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        env=environment,
        cwd=room,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stderr


@pytest.fixture(scope="module")
def calls(room: Path) -> int:
    """Return how many calls an uninterrupted pack makes."""
    assert run(room, COMMAND, "never", "pack", room / "source", room / "whole") == (0, "")
    calls = int((room / "count").read_text())
    assert calls > 10_000
    return calls


@pytest.mark.parametrize("part", range(4))
def test_an_interrupt_at_any_call_of_a_pack_exits_with_130_and_it_resumes(
    room: Path, calls: int, tmp_path: Path, part: int
) -> None:
    for when in [calls * (4 * n + part) // 40 + 1 for n in range(10)]:
        out = tmp_path / str(when)
        ended = run(room, COMMAND, when, "pack", room / "source", out)
        assert ended == (130, "headrace: interrupted\n"), when
        if out.exists():
            headrace.pack_dataset(room / "source", out)
            assert digests(out) == digests(room / "whole"), when


def test_an_interrupt_inside_an_exec_of_text_exits_with_130(room: Path) -> None:
    """Python remembers that one, and would end by the signal."""
    program = (
        "import sys\nsys.argv = ['headrace', 'pack', 'a', 'b']\n"
        "from headrace.cli import app\n"
        "app._run = lambda: exec('raise KeyboardInterrupt')\n"
        "app.main()"
    )
    (room / "program.py").write_text(program)
    assert run(room, ["-m", "program"], "none") == (130, "headrace: interrupted\n")


def test_an_interrupt_inside_a_finalizer_exits_with_130(room: Path) -> None:
    """Python ignores exceptions there and would continue."""
    program = (
        "import signal, sys, threading\n"
        "class Finalized:\n"
        "    def __del__(self):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "def run():\n"
        "    Finalized()\n"
        "    threading.Event().wait(20)\n"
        "    return 0\n"
        "from headrace.cli import app\n"
        "app._run = run\n"
        "app.main()"
    )
    (room / "finalizing").mkdir(exist_ok=True)
    (room / "finalizing" / "headrace").write_text(program)
    assert run(room, ["finalizing/headrace"], "none") == (130, "headrace: interrupted\n")


def test_an_interrupted_command_cleans_up(room: Path, tmp_path: Path) -> None:
    export = ("export", room / "source", tmp_path / "out", "--to", "folder")
    assert run(room, COMMAND, "write_new", *export) == (130, "headrace: interrupted\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("start", [COMMAND, ["-Bmheadrace"], ["-X", "dev", "./headrace"]])
@pytest.mark.parametrize("when", [1, 1000, "end"])
def test_every_way_of_starting_exits_with_130(room: Path, start: list[str], when: object) -> None:
    code, said = run(room, start, when, "--version")
    assert (code, said) == (130, "headrace: interrupted\n")


def test_a_program_that_imports_headrace_handles_ctrl_c_itself(room: Path) -> None:
    program = (
        "import signal, headrace, headrace.cli\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    )
    assert run(room, ["-c", program], "none") == (0, "")
    assert run(room, ["-c", program, "-m", "headrace"], "none") == (0, "")
    worker = f"import sys; sys.argv = ['./headrace', 'bench']; {program}"  # as multiprocessing does
    assert run(room, ["-c", worker, "--multiprocessing-fork"], "none") == (0, "")


def test_a_command_that_ignores_ctrl_c_keeps_ignoring_it(room: Path, tmp_path: Path) -> None:
    """`nohup` and shells without job control start it like this."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for when in (1, 1000, 100_000, "end"):
            assert run(room, COMMAND, when, "info", room / "source") == (0, "")
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_typer_turns_into_an_exit_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Older versions print `Aborted` and exit with 1."""
    from headrace.cli import app

    def aborted() -> None:
        try:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                raise RuntimeError("click.Abort") from error
        except RuntimeError:
            sys.exit(1)

    monkeypatch.setattr(app, "app", aborted)
    with pytest.raises(SystemExit) as end:
        app.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "headrace: interrupted\n"
