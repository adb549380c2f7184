"""timm's transforms and its training loop with our loaders."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from places import list_places

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def timm(torchvision: ModuleType) -> Any:
    for part in ("timm.loss", "timm.optim", "timm.utils"):
        pytest.importorskip(part, reason="needs timm: pip install --no-deps timm")
    return pytest.importorskip("timm")


def make_loader(path: Path, transform: Any, **options: Any) -> Any:
    from headrace.torch import Loader

    return Loader(path, 16, transform=transform, **{"shuffle": True, **options})


def test_its_evaluation_transform_runs_in_the_core_to_the_last_bit(packed: Path, timm: Any) -> None:
    transform = timm.data.create_transform(24, interpolation="bicubic", crop_pct=0.8)
    loader = make_loader(packed, transform)
    assert set(list_places(loader)) == {"core"}
    for batch in loader:
        for image, row in zip(batch[0], batch.rows):
            sample = loader.dataset[int(row)]
            data = sample.get("jpg") or sample.get("png")
            picture = Image.open(io.BytesIO(data)).convert("RGB")
            assert torch.equal(image, transform(picture))


def test_its_training_transform_with_randaugment_and_random_erasing_works(
    packed: Path, timm: Any
) -> None:
    transform = timm.data.create_transform(
        24,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1",
        re_prob=0.5,
        interpolation="bilinear",
    )
    loader = make_loader(packed, transform, num_workers=2)
    assert set(list_places(loader)) == {"core"}
    found = [images.clone() for images, _ in loader]
    assert sum(map(len, found)) == 61
    assert found[0].shape == (16, 3, 24, 24) and found[0].dtype == torch.float32
    again = [images.clone() for images, _ in make_loader(packed, transform, num_workers=0)]
    assert all(map(torch.equal, found, again))


def test_its_random_interpolation_runs_in_python(packed: Path, timm: Any) -> None:
    transform = timm.data.create_transform(24, is_training=True, interpolation="random")
    loader = make_loader(packed, transform, num_workers=0)
    assert list_places(loader)[0] == "Python"
    assert next(iter(loader))[0].shape == (16, 3, 24, 24)


def test_its_training_loop_trains_and_evaluates(packed: Path, timm: Any) -> None:
    """The loop of timm's train.py: mixup, soft targets, its optimiser, an epoch told to every sampler."""
    model = timm.create_model("test_resnet", num_classes=4)
    config = timm.data.resolve_data_config({"input_size": (3, 32, 32)}, model=model)
    train = make_loader(packed, timm.data.create_transform(**config, is_training=True))
    mixup = timm.data.Mixup(mixup_alpha=0.2, num_classes=4)
    optimizer = timm.optim.create_optimizer_v2(model, opt="sgd", lr=0.01)
    criterion = timm.loss.SoftTargetCrossEntropy()
    before = model.get_classifier().weight.detach().clone()
    for epoch in range(2):
        train.sampler.set_epoch(epoch)
        train.batch_sampler.sampler.set_epoch(epoch)
        model.train()
        for images, labels in train:
            if len(images) % 2:  # timm's mixup takes even batches
                continue
            images, targets = mixup(images, labels)
            loss = criterion(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert torch.isfinite(loss)
    assert not torch.equal(before, model.get_classifier().weight)
    assert evaluate(timm, model, packed, config) == 61


def evaluate(timm: Any, model: Any, path: Path, config: Any) -> int:
    """Evaluate as timm's validate.py does, and return the number of samples that its meter counted."""
    meter = timm.utils.AverageMeter()
    model.eval()
    with torch.inference_mode():
        for images, labels in make_loader(
            path, timm.data.create_transform(**config), shuffle=False
        ):
            (top1,) = timm.utils.accuracy(model(images), labels, topk=(1,))
            meter.update(top1.item(), len(images))
    assert 0 <= meter.avg <= 100
    return int(meter.count)
