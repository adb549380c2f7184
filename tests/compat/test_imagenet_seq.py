"""Seed 001's loader: its own usage runs with only the import changed, without its defects."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from headrace.compat.imagenet_seq import ImagenetLoader
from headrace.transforms import CenterCrop, Resize

CROP = [Resize(16), CenterCrop(16)]


@pytest.fixture
def databases(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    return shared / "fixtures" / "sequential-imagenet"


def expected_labels(databases: Path, mode: str) -> list[int]:
    files = json.loads((databases / "expected.json").read_text())["files"]
    return [sample["label"] for sample in files[f"ILSVRC-{mode}.lmdb"]["samples"]]


def find_usage(beside: Path) -> str:
    """The block of the README that shows how to replace the DataLoader."""
    (page,) = (beside / "seeds").glob("001_*.txt")
    blocks = re.findall(r"```\n(.*?)```", page.read_text(), re.DOTALL)
    (usage,) = [block for block in blocks if "train_loader = ImagenetLoader" in block]
    return usage


def test_the_usage_in_its_readme_runs_as_it_stands(
    beside: Path, databases: Path, torchvision: ModuleType
) -> None:
    names: dict[str, Any] = {
        "transforms": torchvision.transforms,
        "args": SimpleNamespace(data=str(databases), batch_size=10, workers=2),
        "ImagenetLoader": ImagenetLoader,
    }
    exec(find_usage(beside), names)  # noqa: S102
    batches = list(names["train_loader"])
    assert [tuple(images.shape) for images, _ in batches] == [(10, 3, 224, 224)] * 4 + [
        (8, 3, 224, 224)
    ]
    labels = Counter(label for _, batch in batches for label in batch.tolist())
    assert labels == Counter(expected_labels(databases, "train"))


def test_validation_is_every_sample_once_and_in_order(databases: Path) -> None:
    loader = ImagenetLoader(databases, "val", CROP, batch_size=8)
    assert len(loader) == 3
    for _ in range(2):
        labels = [label for _, batch in loader for label in batch.tolist()]
        assert labels == expected_labels(databases, "val")


def test_drop_last_is_honoured(databases: Path) -> None:
    loader = ImagenetLoader(databases, "val", CROP, 8, drop_last=True)
    assert len(loader) == len(list(loader)) == 2


def test_ranks_divide_an_epoch(databases: Path) -> None:
    rows: list[int] = []
    for rank in range(2):
        loader = ImagenetLoader(databases, "train", CROP, 5, True, rank=rank, world_size=2)
        rows += [row for batch in loader for row in batch.rows[batch.valid].tolist()]
    assert sorted(rows) == list(range(48))


def test_it_crosses_to_other_processes(databases: Path) -> None:
    loader = pickle.loads(pickle.dumps(ImagenetLoader(databases, "val", CROP, 8)))
    assert sum(len(labels) for _, labels in loader) == 20


def test_cache_is_the_window_also_in_another_process(databases: Path) -> None:
    loader = ImagenetLoader(databases, "train", CROP, 8, shuffle=True, cache=7)
    for each in (loader, pickle.loads(pickle.dumps(loader))):
        assert each.state_dict()["window"] == 7


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"ILSVRC-train\.lmdb"):
        ImagenetLoader(tmp_path, "train", CROP, 8)
    with pytest.raises(ValueError, match="mode is 'test'"):
        ImagenetLoader(tmp_path, "test", CROP, 8)
