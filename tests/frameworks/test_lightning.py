"""Lightning's Trainer with our loaders: fit, validate, and resume in the middle of an epoch."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headrace.torch import Loader
from headrace.transforms import CenterCrop, RandomResizedCrop, Resize

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

STEPS = 7
"""Batches of an epoch: 61 samples by 9."""


@pytest.fixture(scope="module")
def parts(torchvision: ModuleType) -> ModuleType:
    """Return our module with Lightning in it, imported when it is needed and without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("lightning", reason="needs lightning: pip install lightning")
        from frameworks import recorder
    return recorder


def make_trainer(parts: Any, root: Path, **options: Any) -> Any:
    return parts.lightning.Trainer(
        accelerator="cpu",
        default_root_dir=root,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"enable_checkpointing": False, "num_sanity_val_steps": 0, **options},
    )


def make_train(path: Path) -> Loader:
    return Loader(path, 9, shuffle=True, transform=[RandomResizedCrop(24)], seed=5)


def make_validation(path: Path) -> Loader:
    return Loader(path, 16, transform=[Resize(28), CenterCrop(24)])


def are_equal(one: list[tuple[int, Any, Any]], other: list[tuple[int, Any, Any]]) -> bool:
    return len(one) == len(other) and all(
        a[0] == b[0] and torch.equal(a[1], b[1]) and torch.equal(a[2], b[2])
        for a, b in zip(one, other)
    )


def test_fit_and_validate_see_every_sample_once_an_epoch(
    parts: Any, packed: Path, tmp_path: Path
) -> None:
    model, trainer = parts.Recorder(), make_trainer(parts, tmp_path, max_epochs=2)
    trainer.fit(model, make_train(packed), make_validation(packed))
    assert [epoch for epoch, _, _ in model.trained] == [0] * STEPS + [1] * STEPS
    assert len(model.validated) == 2 * 61
    loader = make_train(packed)
    expected = [(e, *map(torch.clone, batch)) for e in range(2) for batch in loader]
    assert are_equal(model.trained, expected)
    model.validated.clear()
    trainer.validate(model, make_validation(packed), verbose=False)
    assert len(model.validated) == 61


@pytest.mark.parametrize("validates", [False, True])
def test_a_run_resumed_from_a_checkpoint_sees_the_batches_of_an_uninterrupted_one(
    parts: Any, packed: Path, tmp_path: Path, validates: bool
) -> None:
    """The Trainer keeps the state of the loader in its checkpoints by itself."""
    writer = parts.lightning.pytorch.callbacks.ModelCheckpoint(
        tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1
    )
    options = {"enable_checkpointing": True, "callbacks": [writer]}
    whole = parts.Recorder()
    validation = make_validation(packed) if validates else None
    make_trainer(parts, tmp_path, max_epochs=2, **options).fit(
        whole, make_train(packed), validation
    )
    for steps in (1, 4, STEPS - 1, STEPS, STEPS + 2, 2 * STEPS - 1):
        rest = parts.Recorder()
        make_trainer(parts, tmp_path, max_epochs=2).fit(
            rest, make_train(packed), validation, ckpt_path=tmp_path / f"step={steps}.ckpt"
        )
        assert are_equal(rest.trained, whole.trained[steps:]), steps
