"""`headrace bench` and `headrace doctor` as a user types them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from formats.making import write_tar
from headrace import index_dataset
from headrace.cli.bench import print_bench
from headrace.cli.bench_report import finish_bench
from images import encode
from workbench.benches import make_bench, make_stage
from workbench.test_bench import make_photos

QUICK = ("--batch-size", "8", "--size", "32", "--rounds", "1", "--seconds", "0.02")


def headrace(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return make_photos(tmp_path / "photos", 16)


def test_bench_prints_a_table(folder: Path) -> None:
    result = headrace("bench", folder, *QUICK, "--threads", "1")
    assert result.returncode == 0, result.stderr
    for name in ("storage, cold", "render", "pipeline", "CPU", "user transform: not"):
        assert name in result.stdout
    assert result.stderr == "", "no bar where nobody looks"


@pytest.mark.parametrize("columns", ["40", "80"])
def test_no_figure_of_the_table_is_cut_off(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    stage = make_stage("entropy decode", 123_456, peak_bytes=12_345_000_000)
    print_bench(replace(make_bench(), stages=(stage,)))
    table = capsys.readouterr().out
    for figure in ("123,456", "117,283", "129,629", "13,580", "12,345"):
        assert figure in table
    row = next(line for line in table.splitlines() if "123,456" in line)
    assert len(row.rstrip()) <= 80


def test_the_report_has_the_numbers_of_the_json(folder: Path) -> None:
    result = headrace("bench", folder, *QUICK, "--json", "--html", "report.html")
    told = json.loads(result.stdout)
    page = Path("report.html").read_text()
    data = json.loads(page.split('id="headrace-data">')[1].split("</script>")[0])
    assert data["bench"] == told
    assert told["setting"]["command"].startswith("headrace bench")


def test_doctor_compares_the_machine_with_the_need(folder: Path) -> None:
    result = headrace("doctor", folder, *QUICK, "--step-ms", "4000", "--html", "report.html")
    assert result.returncode == 0, result.stderr
    assert "Fast enough" in result.stdout and "2 images/s (8 in 4000 ms)" in result.stdout
    assert "Fast enough" in Path("report.html").read_text()
    told = json.loads(headrace("doctor", folder, *QUICK, "--target", "1e9", "--json").stdout)
    assert told["diagnosis"]["headline"].startswith("Too slow")


def test_your_own_transforms_are_measured(folder: Path) -> None:
    Path("mine.py").write_text(
        "from headrace.transforms import OnArray, RandomResizedCrop\n"
        "def invert(pixels): return 255 - pixels\n"
        "steps = [RandomResizedCrop(32), OnArray(invert)]\n"
    )
    result = headrace(
        "bench", folder, *QUICK, "--threads", "1", "--transform", "mine.py:steps", "--json"
    )
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert "user transform" in {stage["name"] for stage in told["stages"]}


def test_the_image_field_is_chosen_if_samples_have_several(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar", {"0.jpg": encode(40, 40), "0.png": b"no image", "0.cls": b"0"})
    index_dataset(tmp_path / "x.tar")
    result = headrace("bench", tmp_path, *QUICK)
    assert result.returncode == 2 and "--image" in result.stderr
    result = headrace("bench", tmp_path, *QUICK, "--threads", "1", "--image", "jpg")
    assert result.returncode == 0, result.stderr


def test_transforms_are_imported_from_the_current_folder(folder: Path) -> None:
    Path("mine").mkdir()
    Path("mine/steps.py").write_text(
        "from headrace.transforms import CenterCrop\nsteps = [CenterCrop(32)]\n"
    )
    script = Path(sys.executable).with_name("headrace")  # unlike -m, has its own folder in the path
    command = [script, "bench", folder, *QUICK, "--transform", "mine.steps:steps", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "CenterCrop" in json.loads(result.stdout)["setting"]["transform"]


def test_a_broken_sample_is_named_in_one_line(folder: Path) -> None:
    (folder / "class0" / "004.jpg").write_bytes(b"\xff\xd8\xff\xe0 not an image")
    result = headrace("bench", folder, *QUICK)
    assert result.returncode == 2
    assert "class0/004" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bench", "nowhere"), "nowhere: no such"),
        (("bench", "photos", "--threads", "many"), "not a list of integers: 'many'"),
        (("bench", "photos", "--threads", "0"), "threads are [0]"),
        (("bench", "photos", "--transform", "nothing"), "not a transform: 'nothing'"),
        (("bench", "photos", "--transform", "os:nothing"), "os:nothing: module 'os' has no"),
        (("doctor",), "give either a dataset, or a command after --"),
        (("doctor", "photos", "--", "python"), "give either a dataset, or a command after --"),
        (("doctor", "sh", "train.sh"), "put -- before a command: headrace doctor -- sh"),
        (("doctor", "photos", "--target", "5", "--step-ms", "5"), "say the same thing: give one"),
        (("doctor", "photos", "--target", "-5"), "it must be above 0"),
        (("doctor", "photos", "--step-ms", "nan"), "it must be above 0 and finite"),
        (("bench", "photos", "--seconds", "inf"), "it must be above 0 and finite"),
        (("bench", "photos", "--html", "no/r.html"), "cannot write no/r.html"),
        (
            ("doctor", "--html", "no/r.html", "--", "touch", "x"),
            "cannot write no/r.html",
        ),
    ],
)
def test_mistakes_are_reported_in_one_line(
    folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = headrace(*arguments)
    assert result.returncode == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.stderr
    assert not Path("x").exists(), "nothing was started"


def test_a_report_that_cannot_be_written_leaves_the_exit_code_of_the_program(folder: Path) -> None:
    Path("gone").mkdir()
    result = headrace("doctor", "--html", "gone/r.html", "--", "sh", "-c", "rmdir gone; exit 7")
    assert result.returncode == 7
    assert "no report: [Errno 2]" in result.stderr and "Traceback" not in result.stderr


def test_ctrl_c_ends_with_what_was_measured_and_a_bar_was_shown(folder: Path) -> None:
    """The interrupt comes when the bar on its terminal shows the second round."""
    here, there = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", "bench", str(folder), *QUICK[:4], "--threads", "1",
         "--rounds", "500", "--seconds", "0.05"],
        stdout=subprocess.PIPE, stderr=there, text=True, env={**os.environ, "COLUMNS": "120"},
    )  # fmt: skip
    os.close(there)
    shown = b""
    while b"collate, 1 thread" not in shown.partition(b"pipeline, 1 thread")[2]:
        shown += os.read(here, 4096)
    process.send_signal(signal.SIGINT)
    while True:
        try:
            if not os.read(here, 4096):
                break
        except OSError:  # the other side is closed
            break
    output, _ = process.communicate(timeout=60)
    os.close(here)
    assert process.returncode == 130
    assert "interrupted: only the rounds until then" in output and "render" in output
    assert b"measuring" in shown


def test_an_interrupted_bench_without_results_writes_no_report(
    tmp_path: Path,
) -> None:
    bench = replace(make_bench(), stages=(), complete=False)
    with pytest.raises(typer.Exit) as ended:
        finish_bench(bench, None, tmp_path / "report.html")
    assert ended.value.exit_code == 130 and list(tmp_path.iterdir()) == []
