"""The Python examples of README and docs run as they stand, one after the other in a page."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import penstock
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
    penstock.pack_dataset("imagenet/train", "shards/train")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("_data")
def test_the_examples_of_a_page_run(page: str, torchvision: ModuleType) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    code = "\n".join(blocks).replace("range(90)", "range(2)")
    exec(compile(code, page, "exec"), {})  # noqa: S102
