"""Clips as tensors: views without a copy, on any device the same floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import headrace
from headrace.render import Output
from headrace.serve.device import make_normalizer
from headrace.torch import Loader, prefetch_to_device
from headrace.transforms import CenterCrop, Clip, Normalize, RandomResizedCrop, Resize, ThreeCrop
from videos import make_video, save_videos


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples = [make_video(i, 12, (40, 50)) for i in range(6)]
    return save_videos(tmp_path_factory.mktemp("videos") / "packed", samples)


@pytest.mark.parametrize("floats", [[], [Normalize()]], ids=["bytes", "floats"])
def test_clips_are_views_in_channels_last_3d(videos: Path, floats: list[Any]) -> None:
    steps = [Clip(4), CenterCrop(16), *floats]
    (clips, labels) = next(iter(Loader(videos, 3, transform=steps)))
    (arrays, _) = next(iter(headrace.Loader(videos, 3, transform=steps)))
    assert clips.shape == (3, 3, 4, 16, 16) and labels.dtype == torch.int64
    assert clips.is_contiguous(memory_format=torch.channels_last_3d)
    assert np.array_equal(clips.permute(0, 2, 3, 4, 1).numpy(), arrays)


def test_several_clips_have_an_axis_of_their_own(videos: Path) -> None:
    steps = [Clip(4, clips=2, at="uniform"), Resize(20), ThreeCrop(16), Normalize(dtype="bfloat16")]
    batch = next(iter(Loader(videos, 3, transform=steps)))
    assert batch[0].shape == (3, 6, 3, 4, 16, 16) and batch[0].dtype == torch.bfloat16
    assert batch.clips.shape == (3, 2, 4)


@pytest.mark.parametrize("clips", [1, 2])
def test_a_device_normalizes_clips_as_the_core_does(videos: Path, clips: int) -> None:
    steps = [Clip(4, clips=clips, at="uniform"), CenterCrop(16)]
    normal = Normalize()
    (expected, _) = next(iter(Loader(videos, 3, transform=[*steps, normal])))
    output = Output("float32", normal.mean, normal.std)
    loader = Loader(videos, 3, transform=steps)
    (found, _) = next(iter(prefetch_to_device(loader, "cpu", normalize=output)))
    assert found.shape == expected.shape and torch.equal(found, expected)
    assert torch.equal(make_normalizer(output)(torch.zeros(2)), torch.zeros(2))


def test_a_torchvision_compose_applies_with_one_draw_a_clip(videos: Path, torchvision: Any) -> None:
    transforms = torchvision.transforms
    compose = transforms.Compose(
        [
            transforms.RandomResizedCrop(16),
            transforms.RandomRotation(30),
            transforms.ToTensor(),
            transforms.RandomErasing(p=1.0, value="random"),
        ]
    )
    loader = Loader(videos, 3, transform=[Clip(1, clips=2), compose], num_workers=0)
    (clips, _) = next(iter(loader))
    assert clips.shape == (3, 2, 3, 1, 16, 16)
    # One frame shown four times: a transform with one draw gives four equal pictures.
    still = Clip(4, step=50, short="last")
    for batch in Loader(videos, 3, transform=[still, compose], num_workers=0):
        assert (batch.clips == batch.clips[:, :1]).all()
        assert batch[0].shape == (3, 3, 4, 16, 16)
        assert torch.equal(batch[0], batch[0][:, :, :1].expand_as(batch[0]))
        assert not torch.equal(batch[0][0], batch[0][1])


def test_the_core_runs_a_compose_on_clips(videos: Path, torchvision: Any) -> None:
    transforms = torchvision.transforms
    steps = [transforms.CenterCrop(16), transforms.ToTensor()]
    compose = transforms.Compose(steps)
    loader = Loader(videos, 3, transform=[Clip(4, at="start"), compose])
    assert loader.num_workers == 0
    (clips, _) = next(iter(loader))
    own = Normalize((0, 0, 0), (1, 1, 1))
    (expected, _) = next(
        iter(Loader(videos, 3, transform=[Clip(4, at="start"), CenterCrop(16), own]))
    )
    assert torch.equal(clips, expected)


def test_random_crops_of_a_clip_are_equal(videos: Path) -> None:
    (clips, _) = next(iter(Loader(videos, 6, transform=[Clip(3, step=40), RandomResizedCrop(16)])))
    assert torch.equal(clips[:, :, 0], clips[:, :, 2])
