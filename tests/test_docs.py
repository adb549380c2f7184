"""The Python examples of README and docs run as they stand, one after the other in a page."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import headrace
from images import encode

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "docs/drop-in.md", "docs/loader.md"]


@pytest.fixture
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the examples talk about: shards/train in the working directory."""
    for number in range(70):
        path = tmp_path / "imagenet" / "train" / f"class{number % 3}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(60 + number % 5, 70, seed=number))
    monkeypatch.chdir(tmp_path)
    headrace.pack_dataset("imagenet/train", "shards/train")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("_data")
def test_the_examples_of_a_page_run(page: str, torchvision: ModuleType) -> None:
    run_blocks(page, find_blocks(page), {})


def test_the_examples_of_flows_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the remote one, which needs two machines. The names that they leave to the reader are given here."""
    monkeypatch.chdir(tmp_path)
    headrace.Flow.of([(encode(8, 8), 1)]).save("old.lmdb")
    names = {
        "headrace": headrace,
        "paths": range(600),
        "load_and_augment": lambda number: (np.full((2, 2, 3), number % 256, np.uint8), number % 3),
        "rows": range(5),
        "download": lambda number: (encode(20, 24, seed=number), number % 2),
        "is_good": lambda sample: sample.label == 0,
    }
    blocks = find_blocks("docs/flow.md")
    remote = [block for block in blocks if "tcp://" in block]
    assert len(remote) == 1
    run_blocks("docs/flow.md", [block for block in blocks if block not in remote], names)
    assert [sample.label for sample in headrace.open_dataset("shards/good")] == [0, 0, 0]


def test_the_page_of_the_loader_has_all_options_and_their_defaults() -> None:
    text = (ROOT / "docs/loader.md").read_text().partition("## All options")[2]
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|", text.partition("\n## ")[0], re.MULTILINE)
    told = {name: default for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    parameters = inspect.signature(headrace.Loader).parameters
    assert told.keys() == {*parameters, "device"}
    for name, default in told.items():
        if default.startswith("`") and "_" not in default:
            assert ast.literal_eval(default.strip("`")) == parameters[name].default
        elif default.isdigit():
            assert int(default) == parameters[name].default


def find_blocks(page: str) -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    return blocks


def run_blocks(page: str, blocks: list[str], names: dict[str, object]) -> None:
    code = "\n".join(blocks).replace("range(90)", "range(2)")
    exec(compile(code, page, "exec"), names)  # noqa: S102
