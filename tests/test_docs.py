"""The examples of README and docs run, their links resolve, and they name only what is public."""

from __future__ import annotations

import ast
import inspect
import multiprocessing
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import headrace
from api_page import COMPAT, MODULES, import_public
from formats.making_pairs import VOC, coco_content, write_coco, write_pairs, write_voc
from formats.making_videos import write_class_folders
from headrace.cli.app import app
from images import encode
from stored import FIXTURES

ROOT = Path(__file__).resolve().parents[1]
GENERATED = {"docs/reference/api.md", "docs/reference/benchmarks.md"}


def list_pages(folder: str) -> list[str]:
    return sorted(str(page.relative_to(ROOT)) for page in (ROOT / folder).rglob("*.md"))


PAGES = ["README.md", "SECURITY.md", *list_pages("docs")]
FOR_PYTEST = ["docs/guides/add-a-format.md", "docs/guides/test-your-flow.md"]
RUNNING = ["README.md", "docs/reference/drop-in.md", "docs/reference/loader.md"]
RUNNING += [
    page for page in list_pages("docs/start") + list_pages("docs/guides") if page not in FOR_PYTEST
]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folders that the examples name, in the working directory."""
    for number in range(70):
        image = encode(60 + number % 5, 70, seed=number)
        for split in ("train", "val"):
            path = tmp_path / "imagenet" / split / f"class{number % 3}" / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(image)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jester-gulp").symlink_to(FIXTURES / "gulp")
    headrace.pack_dataset("imagenet/train", "shards/train")
    classes = headrace.open_dataset("shards/train").classes
    headrace.pack_dataset("imagenet/val", "shards/val", classes=classes)
    write_class_folders(tmp_path / "videos/train", frames=40)
    write_pairs(tmp_path / "street")
    write_voc(tmp_path / "voc", VOC)
    write_coco(tmp_path / "coco", coco_content())
    (tmp_path / "docs.lmdb").symlink_to(FIXTURES / "unified-doc/warp24.lmdb")
    return tmp_path


@pytest.mark.parametrize("page", RUNNING)
@pytest.mark.usefixtures("data")
def test_the_examples_of_a_page_run(page: str, torchvision: ModuleType) -> None:
    if "timm.data" in (ROOT / page).read_text():
        pytest.importorskip("timm")
    names: dict[str, object] = {}
    for language, block in find_blocks(page):
        if language == "sh":
            run_commands(block)
        else:
            code = block.replace("range(90)", "range(2)")
            exec(compile(code, page, "exec"), names)  # noqa: S102
    names.clear()  # and with it iterators that are still open
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("page", FOR_PYTEST)
def test_the_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    code = "\n".join(block for language, block in find_blocks(page) if language == "python")
    (tmp_path / "test_page.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert int(re.findall(r"(\d+) passed", result.stdout)[0]) >= 7


def test_the_examples_of_the_flow_reference_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run all but the remote one, which needs two machines, with the names that the page does not define."""
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
    blocks = [block for _, block in find_blocks("docs/reference/flow.md")]
    remote = [block for block in blocks if "tcp://" in block]
    assert len(remote) == 1
    for block in blocks:
        if block not in remote:
            exec(block.replace("range(90)", "range(2)"), names)  # noqa: S102
    assert [sample.label for sample in headrace.open_dataset("shards/good")] == [0, 0, 0]


def test_the_loader_reference_has_all_options_and_their_defaults() -> None:
    text = (ROOT / "docs/reference/loader.md").read_text().partition("## All options")[2]
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|", text.partition("\n## ")[0], re.MULTILINE)
    told = {name: default for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    parameters = inspect.signature(headrace.Loader).parameters
    assert told.keys() == {*parameters, "device"}
    for name, default in told.items():
        if default.startswith("`") and "_" not in default:
            assert ast.literal_eval(default.strip("`")) == parameters[name].default
        elif default.isdigit():
            assert int(default) == parameters[name].default


def test_the_command_line_reference_has_all_commands() -> None:
    text = (ROOT / "docs/reference/command-line.md").read_text()
    told = set(re.findall(r"^\| `headrace (\w+)", text, re.MULTILINE))
    assert told == {command.name for command in app.registered_commands}


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_relative_links_resolve(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            path = (ROOT / page).parent / name if name else ROOT / page
            assert path.exists(), target
            assert not anchor or anchor in find_anchors(path), target


def test_the_index_of_the_docs_links_to_every_page() -> None:
    links = set(re.findall(r"\]\(([^)#]+)", (ROOT / "docs/README.md").read_text()))
    pages = {page.removeprefix("docs/") for page in list_pages("docs")} - {"README.md"}
    assert pages <= links


def test_pages_that_the_code_names_exist() -> None:
    folders = ("src", "benchmarks", "examples", "tests")
    files = [*(f for name in folders for f in (ROOT / name).rglob("*.py")), ROOT / "Makefile"]
    for file in files:
        for page in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text()):
            assert (ROOT / page).exists(), f"{file.relative_to(ROOT)} names {page}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_only_what_is_public(page: str) -> None:
    text = (ROOT / page).read_text()
    for name in set(re.findall(r"\bheadrace(?:\.[A-Za-z_]\w*)+", text)) - {"headrace.json"}:
        assert is_public(name), name
    for _, block in find_blocks(page, languages="python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace"):
                names = [alias.name for alias in node.names if alias.name != "*"]
                assert all(is_public(f"{node.module}.{name}") for name in names), names


@pytest.mark.parametrize("page", sorted({*PAGES} - GENERATED))
def test_text_wraps_at_100_columns(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    assert [line for line in text.splitlines() if len(line) > 100 and line[0] != "|"] == []


@pytest.mark.parametrize("page", list_pages("docs/start") + list_pages("docs/guides"))
def test_a_guide_fits_on_two_screens(page: str) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= 120


def is_public(name: str) -> bool:
    """Return whether a dotted name is a public module or an attribute of one."""
    if name in {*MODULES, *COMPAT, "headrace.compat"}:
        return True
    module = max((m for m in MODULES + COMPAT if name.startswith(f"{m}.")), key=len)
    attribute = name.removeprefix(f"{module}.").partition(".")[0]
    return attribute in import_public(module).__all__


def find_anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def find_blocks(page: str, languages: str = "python|sh") -> list[tuple[str, str]]:
    text = (ROOT / page).read_text()
    return re.findall(rf"^```({languages})\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_commands(block: str) -> None:
    """Run the `headrace` commands of a shell block; the others are for people."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["headrace"] and "--" not in words:
            command = [sys.executable, "-m", "headrace", *words[1:]]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
