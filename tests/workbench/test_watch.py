"""Watched programs: their limit is found, and the seconds agree with their own."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from headrace.workbench.watch.program_advice import judge
from headrace.workbench.watch.program_bottleneck import Limit, find_busiest, find_limit
from headrace.workbench.watch.run_command import watch_command
from headrace.workbench.watch.watched_program import Watched
from workbench.test_bench import make_photos

PROGRAM = Path(__file__).with_name("programs.py")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))


def watch(case: str, *rest: object) -> Watched:
    if not case.startswith("headrace"):
        pytest.importorskip("torch")
    watched = watch_command([sys.executable, str(PROGRAM), case, *map(str, rest)])
    assert watched.exit_code == 0
    return watched


def check_books(watched: Watched) -> None:
    """Check that the seconds equal the program's own and add up to the wall time."""
    own = json.loads(Path("own.json").read_text())
    assert watched.attributed == pytest.approx(1, abs=0.05)
    waited = watched.waiting + watched.spans["first batch"]
    assert waited == pytest.approx(own["waited"], rel=0.05, abs=0.1)
    assert watched.computing == pytest.approx(own["computed"], rel=0.05, abs=0.1)


def test_a_slow_disk_is_found() -> None:
    watched = watch("slow disk")
    check_books(watched)
    assert find_limit(watched) is Limit.READ, watched.work
    assert watched.work["read"] > 0.7
    assert watched.places[0][0] == "read programs.py:read_slowly"


def test_a_slow_python_transform_is_found_and_named() -> None:
    watched = watch("slow Python")
    check_books(watched)
    assert watched.work["Python"] > 0.7
    assert find_limit(watched) in (Limit.PYTHON, Limit.TOO_FEW_WORKERS)
    assert "Python programs.py:transform_slowly" in dict(watched.places)


def test_a_slow_training_step_is_compute_bound() -> None:
    watched = watch("slow step")
    check_books(watched)
    found = judge(watched)
    assert found.limit is Limit.COMPUTE and found.headline.startswith("Compute-bound"), found
    assert watched.workers == 1 and watched.work["idle"] > 0.6, "the worker waits for the loop"


def test_too_many_workers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on one core, so that eight workers are too many on any machine."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    command = ["taskset", "-c", "0", sys.executable, str(PROGRAM), "too many workers"]
    pytest.importorskip("torch")
    watched = watch_command(command)
    assert watched.workers == 8
    found = judge(watched)
    assert found.limit is Limit.TOO_MANY_WORKERS, (watched.system, watched.work)
    assert "8 workers on 1 cores" in found.headline


def test_a_loop_without_workers_is_sampled_itself() -> None:
    watched = watch("no workers")
    check_books(watched)
    assert watched.workers == 0 and watched.work["Python"] > 0.8
    assert watched.loaders[0].workers == 0 and watched.loaders[0].batches == 20


def test_a_headrace_loader_counts_its_own_time(tmp_path: Path) -> None:
    watched = watch("headrace slow step", make_photos(tmp_path / "photos"))
    check_books(watched)
    (loader,) = watched.loaders
    assert (loader.kind, loader.batches, loader.batch_size) == ("headrace Loader", 8, 4)
    assert find_limit(watched) is Limit.COMPUTE
    assert sum(watched.work.values()) == pytest.approx(1)


def test_a_headrace_loader_that_is_too_slow_renders(tmp_path: Path) -> None:
    watched = watch("headrace slow render", make_photos(tmp_path / "photos"))
    assert find_busiest(watched) is Limit.DECODE, watched.work
    assert watched.work["decode"] > 0.5


def run_python(code: str, **modules: str) -> Watched:
    """Watch a program, with other modules beside it."""
    for name, text in {**modules, "program": code}.items():
        Path(f"{name}.py").write_text(text)
    return watch_command([sys.executable, "program.py"])


def test_a_program_without_a_loader_gets_no_verdict() -> None:
    watched = run_python("print('hello')")
    assert judge(watched).limit is Limit.UNSEEN


def test_a_program_that_fails_in_its_first_batch_used_a_loader() -> None:
    pytest.importorskip("torch")
    watched = run_python(
        "from torch.utils.data import DataLoader\n"
        "def fail(samples): raise RuntimeError('bad sample')\n"
        "list(DataLoader(range(4), 2, collate_fn=fail))\n"
    )
    assert watched.exit_code == 1 and watched.loops == 1
    assert judge(watched).headline.endswith(
        "with exit code 1: RuntimeError: bad sample. There is no verdict on a program that failed."
    )


def test_a_killed_program_is_reported() -> None:
    watched = run_python("import os\nos.kill(os.getpid(), 11)")
    assert "The program was killed by SIGSEGV" in judge(watched).headline


COUNTED = """
from torch.utils.data import DataLoader
train = DataLoader(range(64), 8, num_workers=2, persistent_workers=True)
for _ in range(2):
    list(train)
    list(DataLoader(range(8), 8, num_workers=1))  # beside the two that persist
"""


def test_the_workers_of_several_loaders_are_counted() -> None:
    """Short-lived workers count too: they are recorded when they begin."""
    pytest.importorskip("torch")
    watched = run_python(COUNTED)
    assert watched.exit_code == 0 and watched.workers == 3
    assert sorted((each.workers, each.persistent) for each in watched.loaders) == [
        (1, False),
        (2, True),
    ]


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_the_worker_processes_of_headrace_are_counted(tmp_path: Path, start: str) -> None:
    photos = make_photos(tmp_path / "photos", 8)
    watched = run_python(
        "import headrace\n"
        "from own_steps import same\n"
        "from headrace.transforms import RandomResizedCrop\n"
        "if __name__ == '__main__':\n"
        "    steps = [RandomResizedCrop(32), same]\n"
        f"    options = dict(transform=steps, num_workers=2, start_method={start!r})\n"
        f"    list(headrace.Loader({str(photos)!r}, 1, **options))\n",
        own_steps="def same(image): return image\n",
    )
    assert watched.exit_code == 0 and watched.workers == 2


OUTLIVING = """
import os, subprocess, sys
writer = '''
import os
print("started", flush=True)
number = 0
try:
    while number < 1_000_000:
        number += 1
        os.close(os.open(os.path.join(os.environ["HEADRACE_PROBE"], f"{number % 500}.part"), os.O_CREAT))
except FileNotFoundError:
    pass
'''
command = [sys.executable, "-S", "-c", writer]
subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE).stdout.readline()
"""


def test_a_process_that_outlives_the_program_does_not_disturb_its_end() -> None:
    assert run_python(OUTLIVING).exit_code == 0


LAUNCHER = """
import os, subprocess, sys
ranks = [
    subprocess.Popen([sys.executable, "rank.py"], env={**os.environ, "RANK": str(rank)})
    for rank in range(2)
]
sys.exit(max(rank.wait() for rank in ranks))
"""
RANK = """
import os, time
from torch.utils.data import DataLoader
class Slow:
    def __len__(self): return 16
    def __getitem__(self, number):
        end = time.perf_counter() + 0.05 * (os.environ["RANK"] == "1")
        while time.perf_counter() < end: pass
        return number
list(DataLoader(Slow(), 4, num_workers=1))
"""


def test_every_rank_is_watched_and_the_slowest_is_named() -> None:
    pytest.importorskip("torch")
    watched = run_python(LAUNCHER, rank=RANK)
    assert watched.exit_code == 0
    assert [(each.rank, each.batches, each.workers) for each in watched.ranks] == [
        (0, 4, 1),
        (1, 4, 1),
    ]
    assert watched.rank == 1 and "Rank 1 waited for data the longest" in judge(watched).headline
    assert watched.places[0][0] == "Python rank.py:__getitem__"


def test_the_ranks_of_torchrun_are_watched() -> None:
    pytest.importorskip("torch")
    Path("rank.py").write_text(RANK)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "rank.py"]
    watched = watch_command(launch)
    assert watched.exit_code == 0
    assert [each.rank for each in watched.ranks] == [0, 1] and watched.rank == 1


def test_the_exit_code_is_that_of_the_program() -> None:
    assert run_python("raise SystemExit(7)").exit_code == 7


def test_the_users_own_sitecustomize_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own").mkdir()
    Path("own/sitecustomize.py").write_text("open('seen', 'w').close()")
    monkeypatch.setenv("PYTHONPATH", str(Path("own").resolve()))
    assert run_python("import sitecustomize").exit_code == 0
    assert Path("seen").exists()


def test_a_program_that_ends_at_once_has_recorded_its_loader(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", 8)
    watched = run_python(
        "import os, headrace\n"
        "from headrace.transforms import RandomResizedCrop\n"
        f"list(headrace.Loader({str(photos)!r}, 4, transform=[RandomResizedCrop(32)]))\n"
        "os._exit(3)\n"
    )
    assert watched.exit_code == 3 and watched.cut_short
    assert judge(watched).limit is not Limit.UNSEEN


def test_a_missing_command_is_reported_in_one_line() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere: No such file"):
        watch_command(["nowhere"])


@lru_cache
def watched_by_cli(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "headrace", "doctor", "--json", "--", sys.executable]
    result = subprocess.run(
        [*command, str(PROGRAM), "headrace", str(make_photos(folder / "photos"))],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


def test_the_command_prints_json_and_writes_the_report(tmp_path: Path) -> None:
    told = watched_by_cli(tmp_path)
    assert set(told) == {"judgement", "watched"}
    assert told["watched"]["attributed"] == pytest.approx(1, abs=0.05)
    assert "<svg" in Path("headrace-report.html").read_text()


def test_ctrl_c_reaches_the_program_and_the_verdict_still_comes() -> None:
    Path("program.py").write_text(
        "import sys\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.read()\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(9)\n"
    )
    command = [sys.executable, "-m", "headrace", "doctor", "--", sys.executable, "program.py"]
    here, there = pty.openpty()
    on_terminal = ["sh", "-c", 'exec "$@" <"$0"', os.ttyname(there)]  # opening it takes it over
    process = subprocess.Popen(
        [*on_terminal, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    os.write(here, b"\x03")
    _, said = process.communicate(timeout=60)
    os.close(here)
    os.close(there)
    assert process.returncode == 9
    assert "No Headrace loader" in said and "report: headrace-report.html" in said


def test_with_json_the_program_prints_to_stderr() -> None:
    command = [sys.executable, "-m", "headrace", "doctor", "--json", "--"]
    command += [sys.executable, "-c", "print('hello')"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "watched" in json.loads(result.stdout)
    assert "hello\n" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_that_ends_the_doctor_ends_the_program_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    program = "import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()"
    command = [sys.executable, "-m", "headrace", "doctor", "--", sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.send_signal(number)
        try:
            assert process.wait(timeout=60) == 128 + number
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
                pytest.fail("the program is still running")
    assert list((tmp_path / "tmp").iterdir()) == []
