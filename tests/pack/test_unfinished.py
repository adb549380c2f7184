"""A pack that was killed is an error wherever it is opened, which tells how to resume it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.errors import CorruptError, SourceError
from trees import digests, make_folder

KILLED = """
import os, signal, sys
from headrace.pack import packer, staging
source, destination, renames = sys.argv[1], sys.argv[2], int(sys.argv[3])
publish, replace = staging.publish, os.replace

def publish_some(*args):
    def count(*names):
        global renames
        renames -= 1
        if renames < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*names)
    os.replace = count
    publish(*args)

staging.publish = publish_some
staging.write_manifest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
packer.pack_dataset(source, destination, shard_size=4000)
"""


def kill_while_publishing(source: Path, destination: Path, renames: int) -> None:
    command = [sys.executable, "-c", KILLED, str(source), str(destination), str(renames)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == -signal.SIGKILL, result.stderr


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Killed when half of the shards had their names."""
    root = tmp_path_factory.mktemp("unfinished")
    kill_while_publishing(make_folder(root / "source"), root / "out", 5)
    assert len(list((root / "out").glob("*.tar"))) == 3
    return root / "out"


def said(out: Path) -> str:
    return re.escape(f"run `headrace pack SRC {out}` again to resume it")


@pytest.mark.parametrize("below", ["", "shard-000000.tar", "shard-{000000..000001}.tar", "*.tar"])
@pytest.mark.parametrize("format", [None, "webdataset"])
def test_an_unfinished_pack_is_not_a_source(
    unfinished: Path, tmp_path: Path, below: str, format: str | None
) -> None:
    path = unfinished / below
    with pytest.raises(SourceError, match=said(unfinished)):
        headrace.open_source(path, format=format)
    with pytest.raises(SourceError, match=said(unfinished)):
        headrace.index_dataset(path, format=format, out=tmp_path / "index")
    with pytest.raises(SourceError, match=said(unfinished)):
        headrace.pack_dataset(path, tmp_path / "packed", format=format)
    assert not list(tmp_path.iterdir())


def test_an_unfinished_pack_is_not_a_dataset(unfinished: Path, tmp_path: Path) -> None:
    for path in (unfinished, unfinished / "headrace.json"):
        with pytest.raises(CorruptError, match=said(unfinished)):
            headrace.open_dataset(path)
        with pytest.raises(CorruptError, match=said(unfinished)):
            headrace.Loader(path, 4)
    with pytest.raises(CorruptError, match=said(unfinished)):
        headrace.verify_dataset(unfinished)
    with pytest.raises(SourceError, match=said(unfinished)):
        headrace.open_dataset(unfinished / "shard-000000.tar", tmp_path / "cache")


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", "{}"),
        ("info", "{}", "--format", "webdataset"),
        ("info", "{}/headrace.json"),
        ("show", "{}", "-o", "sheet.png"),
        ("verify", "{}"),
        ("index", "{}"),
        ("index", "{}/*.tar", "--out", "index"),
        ("export", "{}", "out", "--to", "folder"),
        ("export", "{}/shard-000000.tar", "out", "--to", "lmdb"),
        ("pack", "{}", "out"),
        ("bench", "{}"),
    ],
)
def test_every_command_says_how_to_resume_an_unfinished_pack(
    unfinished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = digests(unfinished)
    result = CliRunner().invoke(app, [argument.format(unfinished) for argument in arguments])
    assert result.exit_code != 0
    assert isinstance(result.exception, (SourceError, CorruptError)), result.output
    assert re.search(said(unfinished), str(result.exception))
    assert digests(unfinished) == before and not os.listdir(tmp_path)


@pytest.mark.parametrize("renames", [0, 1, 9, 1000])
def test_packing_killed_while_publishing_resumes_to_the_same_bytes(
    tmp_path: Path, renames: int
) -> None:
    source = make_folder(tmp_path / "source")
    kill_while_publishing(source, tmp_path / "out", renames)
    with pytest.raises(SourceError, match="packing was not finished"):
        headrace.open_source(tmp_path / "out")
    headrace.pack_dataset(source, tmp_path / "out", shard_size=4000)
    headrace.pack_dataset(source, tmp_path / "whole", shard_size=4000)
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")
    assert len(headrace.open_source(tmp_path / "out").names) == 15
