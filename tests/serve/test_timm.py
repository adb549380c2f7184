"""timm's transforms through the same door: what the core knows of them, exactly; the rest as they are."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def create_transform(torchvision: ModuleType) -> Any:
    reason = "needs timm: pip install --no-deps timm"
    return pytest.importorskip("timm.data", reason=reason).create_transform


def make_loader(path: Path, transform: Any, **options: Any) -> Any:
    from headrace.torch import Loader

    return Loader(path, 16, shuffle=True, transform=transform, **options)


def where(loader: Any) -> list[str]:
    return [line.where for line in loader._pipeline.lines]


def test_its_evaluation_transform_runs_in_the_core_to_the_last_bit(
    packed: Path, create_transform: Any
) -> None:
    transform = create_transform(24, interpolation="bicubic", crop_pct=0.8)
    loader = make_loader(packed, transform)
    assert set(where(loader)) == {"core"}
    for batch in loader:
        for image, row in zip(batch[0], batch.rows):
            sample = loader.dataset[int(row)]
            data = sample.get("jpg") or sample.get("png")
            picture = Image.open(io.BytesIO(data)).convert("RGB")
            assert torch.equal(image, transform(picture))


def test_its_training_transform_with_randaugment_and_random_erasing_works(
    packed: Path, create_transform: Any
) -> None:
    transform = create_transform(
        24,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1",
        re_prob=0.5,
        interpolation="bilinear",
    )
    loader = make_loader(packed, transform, num_workers=2)
    assert where(loader) == ["core", "core", "Python", "core, worker", "core, worker", "Python"]
    found = [images.clone() for images, _ in loader]
    assert sum(map(len, found)) == 61
    assert found[0].shape == (16, 3, 24, 24) and found[0].dtype == torch.float32
    again = [images.clone() for images, _ in make_loader(packed, transform, num_workers=0)]
    assert all(map(torch.equal, found, again))


def test_its_random_interpolation_is_left_to_python(packed: Path, create_transform: Any) -> None:
    transform = create_transform(24, is_training=True, interpolation="random")
    loader = make_loader(packed, transform, num_workers=0)
    assert where(loader)[0] == "Python"
    assert next(iter(loader))[0].shape == (16, 3, 24, 24)
