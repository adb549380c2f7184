"""The torch front end: tensors over the same bytes, and the floats of torchvision."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import runpy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

import headrace
from headrace.transforms import CenterCrop, Normalize, RandomResizedCrop, Resize

torch = pytest.importorskip("torch")
from torch.utils import _pytree as pytree

from headrace.torch import Loader


def test_images_are_nchw_over_channels_last_memory(packed: Path) -> None:
    arrays = headrace.Loader(packed, 8, shuffle=True, transform=[RandomResizedCrop(24)])
    tensors = Loader(packed, 8, shuffle=True, transform=[RandomResizedCrop(24)])
    for (images, labels), (array, numbers) in zip(tensors, arrays, strict=True):
        assert images.dtype == torch.uint8 and images.shape[1:] == (3, 24, 24)
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert (images.permute(0, 2, 3, 1).numpy() == array).all()
        assert labels.dtype == torch.int64 and (labels.numpy() == numbers).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_floats_equal_those_of_torchvision(packed: Path, torchvision, dtype: str) -> None:
    from torchvision.transforms import transforms as tv

    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    theirs = tv.Compose([tv.Resize(30), tv.CenterCrop(24), tv.ToTensor(), tv.Normalize(mean, std)])
    steps = [Resize(30), CenterCrop(24), Normalize(mean, std, dtype=dtype)]
    dataset = headrace.open_dataset(packed)
    batch = next(iter(Loader(packed, 16, transform=steps)))
    assert batch[0].dtype == getattr(torch, dtype)
    for image, row in zip(batch[0], batch.rows, strict=True):
        sample = dataset[int(row)]
        picture = Image.open(io.BytesIO(sample.get("jpg") or sample.get("png"))).convert("RGB")
        assert torch.equal(image, theirs(picture).to(getattr(torch, dtype)))


def test_mean_and_std_may_be_tensors() -> None:
    half = torch.tensor([0.5, 0.5, 0.5])
    assert Normalize(half, half) == Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


class Pair(NamedTuple):
    image: Any
    mask: Any


def test_named_tuples_of_a_transform_become_tensors_too(packed: Path) -> None:
    steps = [RandomResizedCrop(24), lambda image: Pair(image, image.convert("L"))]
    ((pair, _), *_) = Loader(packed, 4, transform=steps, num_workers=0)
    assert isinstance(pair, Pair)
    assert pair.image.shape == (4, 3, 24, 24) and pair.mask.shape == (4, 24, 24)


def test_a_kept_tensor_is_never_overwritten(packed: Path) -> None:
    loader = Loader(packed, 8, shuffle=True, transform=[RandomResizedCrop(24)])
    kept = [images for images, _ in loader]
    copies = [images.clone() for images in kept]
    loader.set_epoch(0)
    for _ in loader:
        pass
    assert all(torch.equal(a, b) for a, b in zip(kept, copies, strict=True))


def test_a_pickled_loader_keeps_its_device(packed: Path) -> None:
    loader = Loader(packed, 8, transform=[RandomResizedCrop(24)], device="meta")
    assert pickle.loads(pickle.dumps(loader)).device == torch.device("meta")


def test_arguments_of_a_dataloader_say_what_to_give_instead(packed: Path) -> None:
    with pytest.raises(TypeError, match="no pin_memory, unlike torch's DataLoader: give device"):
        Loader(packed, 4, pin_memory=True)
    with pytest.raises(TypeError, match="no dataset, unlike torch's DataLoader: give source"):
        Loader(dataset=packed, batch_size=4)


def test_every_argument_of_a_dataloader_is_taken_or_explained(packed: Path) -> None:
    taken = inspect.signature(Loader.__init__).parameters
    for name in inspect.signature(torch.utils.data.DataLoader.__init__).parameters:
        if name not in taken:
            with pytest.raises(TypeError, match=f"no {name}, unlike torch's DataLoader: "):
                Loader(packed, 4, **{name: None})


def test_signatures_show_all_options() -> None:
    arrays = inspect.signature(headrace.Loader).parameters
    tensors = inspect.signature(Loader).parameters
    assert list(tensors) == [*arrays, "device"]
    for parameters in (arrays, tensors):
        assert list(parameters)[:2] == ["source", "batch_size"]
        assert (parameters["prefetch"].default, parameters["rank"].default) == (2, None)
        assert all(p.kind is p.KEYWORD_ONLY for p in list(parameters.values())[2:])


def test_options_cannot_be_changed_later(packed: Path) -> None:
    for kind in (headrace.Loader, Loader):
        loader = kind(packed, 8, fields=["label"])
        loader.name = "anything else can be set"
        with pytest.raises(AttributeError, match="batch_size"):
            loader.batch_size = 4


class Labels(Loader):
    """A loader with a constructor of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, 8, fields=("label",))


def test_a_derived_loader_with_another_constructor_crosses_to_other_processes(packed: Path) -> None:
    loader = Labels(packed)
    loader.set_epoch(2)
    copy = pickle.loads(pickle.dumps(loader))
    assert isinstance(copy, Labels) and repr(copy) == repr(loader) and repr(copy)[:7] == "Labels("
    assert next(iter(copy)).epoch == 2


def test_frameworks_find_what_they_look_for(packed: Path) -> None:
    loader = Loader(packed, 8, shuffle=True, transform=[RandomResizedCrop(24)])
    loader.sampler.set_epoch(3)
    assert loader.state_dict()["epoch"] == 3
    assert loader.batch_size == 8 and len(loader.dataset) == 61
    assert (loader.num_workers, loader.collate_fn, loader.pin_memory) == (0, None, False)
    in_python = Loader(packed, 8, transform=np.asarray, collate_fn=list, num_workers=3)
    assert (in_python.num_workers, in_python.collate_fn) == (3, list)


def test_frameworks_find_a_batch_sampler_that_they_cannot_iterate(packed: Path) -> None:
    loader = Loader(packed, 8, drop_last=True, shuffle=True, transform=[RandomResizedCrop(24)])
    batches = loader.batch_sampler
    assert (batches.batch_size, batches.drop_last, len(batches)) == (8, True, 7)
    assert batches.sampler == loader.sampler and len(batches.sampler) == 56
    assert not isinstance(batches.sampler, torch.utils.data.SequentialSampler)
    for epoch, set_epoch in enumerate((batches.set_epoch, batches.sampler.set_epoch), 3):
        set_epoch(epoch)
        assert next(iter(loader)).epoch == epoch
    with pytest.raises(TypeError, match="not iterable.*resume by loader.load_state_dict"):
        iter(batches)
    rebuilt = torch.utils.data.DataLoader(loader.dataset, batch_sampler=batches)
    with pytest.raises(TypeError, match="not iterable"):
        next(iter(rebuilt))


def test_trees_of_torch_reach_the_tensors_of_a_batch(packed: Path) -> None:
    first, second, *_ = Loader(packed, 8, shuffle=True, transform=[RandomResizedCrop(24)])
    floats = pytree.tree_map_only(torch.Tensor, torch.Tensor.double, second)
    assert [value.dtype for value in floats] == [torch.float64] * 2
    assert (floats.step, floats.rows.tolist()) == (1, second.rows.tolist())
    both = pytree.tree_map(lambda a, b: torch.cat([a, b]), first, second)
    assert [len(value) for value in both] == [16, 16]


def test_the_module_can_be_loaded_again() -> None:
    assert "Loader" in runpy.run_path(inspect.getfile(Loader))


@pytest.mark.parametrize(("drop_last", "samples"), [(False, 21), (True, 16)])
def test_the_sampler_is_as_long_as_the_part_of_a_rank(
    packed: Path, drop_last: bool, samples: int
) -> None:
    options = {"drop_last": drop_last, "transform": [RandomResizedCrop(24)]}
    ranks = [Loader(packed, 8, rank=rank, world_size=3, **options) for rank in range(3)]
    assert [len(loader.sampler) for loader in ranks] == [samples] * 3
    assert drop_last or samples * 3 >= len(ranks[0].dataset), "else examples load the rest again"


def test_axes_of_what_collate_fn_returns_are_not_moved(packed: Path) -> None:
    def collate(samples: list[Any]) -> dict[str, Any]:
        return {"x": np.stack([np.zeros((3, 5, 7), np.float32) for _ in samples])}

    loader = Loader(packed, 4, transform=[RandomResizedCrop(8)], collate_fn=collate, num_workers=0)
    batch = next(iter(loader))
    found = batch["x"] if isinstance(batch, dict) else batch[0]["x"]
    assert isinstance(found, np.ndarray) and found.shape == (4, 3, 5, 7)


def list_public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_torch_loader_has_all_methods_of_the_other(packed: Path) -> None:
    assert list_public(headrace.Loader) - list_public(Loader) == {"deliver"}
    loader = Loader(packed, 8, transform=[CenterCrop(8)])
    assert loader.count_samples() == len(loader.sampler) == len(loader.dataset)


def test_a_copy_of_a_loader_moves_on_its_own(packed: Path) -> None:
    loader = Loader(packed, 8, shuffle=True, transform=[CenterCrop(8)])
    next(iter(loader))
    other = copy.copy(loader)
    assert other.state_dict() == loader.state_dict()
    other.set_epoch(3)
    assert other.state_dict()["epoch"] == 3 and loader.state_dict()["epoch"] == 0


@pytest.mark.parametrize("kind", [headrace.Loader, Loader])
def test_an_unknown_option_is_an_error_of_the_loader(packed: Path, kind: Any) -> None:
    with pytest.raises(TypeError, match=r"^Loader\.__init__\(\) got an unexpected .*'windows'"):
        kind(packed, 8, windows=3)
