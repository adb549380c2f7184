"""The commands as a user types them: exit codes, JSON, and errors in one line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from headrace.cli.app import app
from images import encode_deep
from trees import full_at, make_folder, write_images


def headrace(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    result = headrace("pack", make_folder(tmp_path / "in"), tmp_path / "out", "--shard-size", "8KB")
    assert result.returncode == 0, result.stderr
    assert "15" in result.stdout and result.stderr == ""
    return tmp_path / "out"


def test_pack_prints_its_summary_as_json(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    (source / "class0" / "bad.jpg").write_bytes(b"")
    result = headrace("pack", source, tmp_path / "out", "--on-error", "skip", "--json")
    summary = json.loads(result.stdout)
    assert (summary["samples"], summary["shards"]) == (15, 1)
    assert summary["rejected"] == [{"name": "class0/bad.jpg", "reason": "the file is empty"}]
    assert result.stderr == "rejected class0/bad.jpg: the file is empty\n"


def test_images_with_16_bits_are_counted_and_warned_of(tmp_path: Path) -> None:
    deep = encode_deep(np.arange(64).reshape(8, 8) * 1000)
    for name in ("0.png", "1.png"):
        (tmp_path / "in" / "a").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / "a" / name).write_bytes(deep)
    for arguments in (
        ("info", tmp_path / "in"),
        ("pack", tmp_path / "in", tmp_path / "out"),
        ("index", tmp_path / "in", "--out", tmp_path / "index"),
        ("info", tmp_path / "out"),
    ):
        result = headrace(*arguments, "--json")
        assert result.stderr.startswith("note: 2 images have 16 bits per pixel")
        assert json.loads(result.stdout)["kinds"] == {"png-16": 2}


@pytest.mark.parametrize("verb", ["pack", "index"])
@pytest.mark.parametrize(
    ("names", "classes", "row"),
    [
        (["cat/0.jpg", "dog/1.jpg"], ["cat", "dog"], "2: cat, dog"),
        (["0.jpg"], None, "none: the samples are unlabelled"),
    ],
)
def test_pack_and_index_show_the_classes(
    tmp_path: Path, verb: str, names: list[str], classes: list[str] | None, row: str
) -> None:
    source = str(write_images(tmp_path / "in", *names))
    for options in ([], ["--json"]):
        out = str(tmp_path / f"out{len(options)}")
        place = [out] if verb == "pack" else ["--out", out]
        result = CliRunner().invoke(app, [verb, source, *place, *options])
        assert result.exit_code == 0, result.output
        assert row in result.stdout or json.loads(result.stdout)["classes"] == classes


def test_numeric_labels_are_shown_as_not_named(tmp_path: Path) -> None:
    write_images(tmp_path, "0.jpg")
    (tmp_path / "list.csv").write_text("path,label\n0.jpg,3\n")
    result = CliRunner().invoke(app, ["pack", str(tmp_path / "list.csv"), str(tmp_path / "out")])
    assert "not named" in result.stdout


def test_pack_of_bad_files_exits_with_2_and_names_them(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    (source / "class0" / "bad.jpg").write_bytes(b"")
    result = headrace("pack", source, tmp_path / "out")
    assert result.returncode == 2
    assert "class0/bad.jpg: the file is empty" in result.stderr
    assert "Traceback" not in result.stderr


def test_pack_takes_a_listing_and_shrinks(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", classes=1, size=60)
    (tmp_path / "list.csv").write_text("path,label,angle\nclass0/000.jpg,5,0.25\n")
    result = headrace(
        "pack", source, tmp_path / "out", "--listing", tmp_path / "list.csv",
        "--resize-short", 20, "--quality", 80, "--order", "source", "--seed", 3, "--workers", 1,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    info = json.loads(headrace("info", tmp_path / "out", "--json").stdout)
    assert (info["samples"], info["fields"]) == (1, ["cls", "jpg", "json"])


def test_info_shows_the_content(packed: Path) -> None:
    info = json.loads(headrace("info", packed, "--json").stdout)
    assert info["samples"] == 15
    assert info["shards"] == len(list(packed.glob("*.tar"))) > 1
    assert info["bytes"] == sum(path.stat().st_size for path in packed.glob("*.tar"))
    assert info["fields"] == ["cls", "jpg", "png"]
    assert info["classes"] == ["class0", "class1", "class2"]
    assert info["kinds"] == {"baseline": 12, "png": 3}
    assert "12 baseline, 3 png" in headrace("info", packed).stdout


def test_verify_exits_with_1_and_lists_the_problems(packed: Path) -> None:
    assert headrace("verify", packed).returncode == 0
    tar = packed / "shard-000000.tar"
    tar.write_bytes(tar.read_bytes()[:-2000])
    result = headrace("verify", packed)
    assert result.returncode == 1
    assert "shard-000000.tar" in result.stdout
    report = json.loads(headrace("verify", packed, "--json").stdout)
    assert report["ok"] is False
    assert {"shard", "key", "offset", "reason"} == set(report["problems"][0])


def test_index_reads_tars_where_they_are(shared: Path, tmp_path: Path) -> None:
    result = headrace("index", shared / "fixtures" / "webdataset", "--out", tmp_path, "--json")
    assert json.loads(result.stdout)["samples"] == 120
    assert headrace("verify", tmp_path).returncode == 0


def test_index_shows_where_the_index_of_a_pattern_is(shared: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    fixtures = shared / "fixtures" / "webdataset"
    shutil.copyfile(fixtures / "train-000000.tar", tmp_path / "a" / "x.tar")
    shutil.copyfile(fixtures / "train-000001.tar", tmp_path / "b" / "x.tar")
    result = headrace("index", tmp_path / "{a,b}" / "x.tar", "--json")
    assert json.loads(result.stdout)["path"] == str(tmp_path), result.stderr


def test_show_draws_a_contact_sheet(packed: Path, tmp_path: Path) -> None:
    result = headrace("show", packed, "-o", tmp_path / "sheet.png", "--count", 6, "--size", 64)
    assert result.returncode == 0, result.stderr
    with Image.open(tmp_path / "sheet.png") as sheet:
        colours = sheet.convert("RGB").getcolors(1 << 20)
    assert colours is not None and len(colours) > 100


def test_a_sheet_that_does_not_fit_on_the_disk_leaves_the_one_before(
    packed: Path, tmp_path: Path
) -> None:
    sheet = tmp_path / "sheet.png"
    sheet.write_bytes(b"before")
    with full_at(100):
        result = headrace("show", packed, "-o", sheet, "--force")
    assert (result.returncode, result.stderr) == (
        2,
        f"headrace: [Errno 27] File too large: '{sheet}'\n",
    )
    assert sheet.read_bytes() == b"before"


def test_a_sheet_is_overwritten_only_on_request(packed: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    sheet.write_bytes(b"years of work")
    result = headrace("show", packed, "-o", sheet)
    assert (result.returncode, sheet.read_bytes()) == (2, b"years of work")
    assert result.stderr == (
        f"headrace: {sheet}: exists already; choose another --out, or overwrite it with --force\n"
    )
    assert headrace("show", packed, "-o", sheet, "--force").returncode == 0
    assert sheet.read_bytes() != b"years of work"


def test_of_many_rejected_files_ten_are_shown_and_all_are_listed(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    for number in range(40):
        (source / "class0" / f"bad{number:02d}.jpg").write_bytes(b"")
    lines = headrace("pack", source, tmp_path / "refused").stderr.splitlines()
    assert lines[0] == "headrace: 40 of 55 files cannot be packed:"
    assert lines[11] == "  ... and 30 more; on_error='skip' lists all of them in rejected.jsonl"
    assert lines[12].endswith("or pack the rest with on_error='skip' (--on-error skip).")
    assert len(lines) == 13
    result = headrace("pack", source, tmp_path / "out", "--on-error", "skip", "--json")
    lines = result.stderr.splitlines()
    assert lines[:2] == [f"rejected class0/bad{n}.jpg: the file is empty" for n in ("00", "01")]
    listed = tmp_path / "out" / "rejected.jsonl"
    assert lines[10:] == [f"rejected ... and 30 more; {listed} lists all"]
    assert len(json.loads(result.stdout)["rejected"]) == 40
    assert len(listed.read_text().splitlines()) == 40


def test_info_shows_the_columns_of_the_user_with_their_types(tmp_path: Path) -> None:
    write_images(tmp_path / "in", "0.jpg", "1.jpg")
    listing = tmp_path / "in" / "list.csv"
    listing.write_text("path,label,angle,who\n0.jpg,0,0.5,ann\n1.jpg,1,1.5,bob\n")
    assert headrace("pack", listing, tmp_path / "out").returncode == 0
    for path in (listing, tmp_path / "out"):
        content = json.loads(headrace("info", path, "--json").stdout)
        assert content["columns"] == {"angle": "double", "who": "string"}
        assert "angle (double), who (string)" in headrace("info", path).stdout
    plain = make_folder(tmp_path / "plain")
    assert json.loads(headrace("info", plain, "--json").stdout)["columns"] == {}
    assert "\ncolumns" not in headrace("info", plain).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("info", "nowhere"), "nowhere: no such dataset"),
        (("verify", "nowhere"), "nowhere: no such dataset"),
        (("pack", "nowhere", "out"), "nowhere: no such file or directory"),
        (("pack", "x", "out", "--shard-size", "many"), "not a size: 'many'"),
        (("pack", "x", "out", "--resize-short", "0"), "Invalid value for '--resize-short'"),
        (("pack", "x", "out", "--channels", "rgb"), "--channels needs --encode"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = headrace(*arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_odd_paths_are_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("nowhere")
    result = headrace("pack", make_folder(tmp_path / "in"), tmp_path / "gone")
    assert result.returncode == 2 and "gone: is a link to nowhere" in result.stderr
    (tmp_path / "l.csv").write_text("path\n")
    result = headrace("verify", tmp_path / "l.csv")
    assert result.returncode == 2 and "no manifest" in result.stderr


@pytest.mark.parametrize("verb", ["export", "info", "show", "verify"])
def test_the_argument_to_read_is_called_path(verb: str) -> None:
    said = CliRunner().invoke(app, [verb, "--help"]).stdout
    assert "dst" not in said.lower()


def test_the_help_lists_the_exit_codes() -> None:
    said = " ".join(headrace("--help").stdout.split())
    assert "0 success, 1 verification failed, 2 error, 130 interrupted" in said


def test_version() -> None:
    assert headrace("--version").stdout.startswith("headrace 0.")
