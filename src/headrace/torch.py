"""The loader for PyTorch: `from headrace.torch import Loader`.

Images come as NCHW tensors whose memory is channels_last: the bytes that the core wrote, seen the other way,
without a copy. Labels are int64 tensors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, ParamSpec, TypedDict

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.errors import MissingExtraError
from headrace.read.dataset import Dataset
from headrace.render.options import Depth16
from headrace.serve import loader
from headrace.serve.batch import Batch
from headrace.serve.memory import LoaderMemory
from headrace.serve.python_steps import Collate
from headrace.serve.samplers import BatchSampler, Sampler
from headrace.serve.sampling import Mixture, Weights
from headrace.serve.substitution import OnError

try:
    import torch
except ModuleNotFoundError:
    raise MissingExtraError("torch", "torch") from None

from torch.utils import _pytree as pytree
from typing_extensions import Unpack  # torch needs it too

from headrace.serve.device import prefetch_to_device

__all__ = ["Loader", "fast_collate", "prefetch_to_device"]


P = ParamSpec("P")

_ELSEWHERE = {
    "batch_sampler": "give batch_size, shuffle and weights",
    "dataset": "give source, the path of the data",
    "generator": "give seed",
    "in_order": "leave it out: batches come in order",
    "multiprocessing_context": "give start_method",
    "persistent_workers": "leave it out",
    "pin_memory": "give device, and batches come from pinned memory",
    "pin_memory_device": "give device",
    "prefetch_factor": "give prefetch, the number of batches",
    "sampler": "give shuffle and weights; each rank takes its part by itself",
    "timeout": "leave it out: a worker that dies is an error at once",
    "worker_init_fn": "leave it out: workers are seeded for each sample",
}
"""What DataLoader takes, and what to do here instead."""


class Options(TypedDict, total=False):
    """Those of `headrace.Loader`, whose defaults they have."""

    shuffle: bool
    transform: Any
    collate_fn: Collate | None
    num_workers: int | None
    seed: int
    drop_last: bool
    exact: bool | None
    fields: Sequence[str]
    weights: Weights
    on_error: OnError
    window: int | str | None
    rank: int | None
    world_size: int | None
    threads: int | None
    prefetch: int
    start_method: str | None
    verify: bool
    depth16: Depth16


def _explain_arguments(init: Callable[P, None]) -> Callable[P, None]:
    """Says what to give in place of a DataLoader's arguments, before Python misses others; `help` shows all options."""

    @wraps(init)
    def checked(*arguments: P.args, **options: P.kwargs) -> None:
        for name in options:
            if name in _ELSEWHERE:
                raise TypeError(
                    f"Loader has no {name}, unlike torch's DataLoader: {_ELSEWHERE[name]}"
                )
        init(*arguments, **options)

    checked.__signature__ = _list_options(signature(init))  # type: ignore[attr-defined]
    return checked


def _list_options(own: Signature) -> Signature:
    """A signature with the options of `headrace.Loader` in place of `**options`."""
    parameters = {**signature(loader.Loader.__init__).parameters, **own.parameters}
    listed = (p for p in parameters.values() if p.kind is not Parameter.VAR_KEYWORD)
    return own.replace(parameters=list(listed))


class Loader(loader.Loader):
    """`headrace.Loader` with tensors for arrays. See there for its arguments and guarantees."""

    _tensors = True

    @_explain_arguments
    def __init__(
        self,
        source: str | os.PathLike[str] | Dataset | Mixture,
        batch_size: int,
        *,
        device: torch.device | str | None = None,
        **options: Unpack[Options],
    ) -> None:
        """
        device: where batches go. On a GPU they are copied from pinned memory on a stream of their own, one
            batch ahead, as bytes, and normalised there; on the CPU the core normalises.
        """
        super().__init__(source, batch_size, **options)
        self._arguments["device"] = device
        self.device = torch.device("cpu" if device is None else device)
        self._output = self._pipeline.final_output
        if self.device.type != "cpu":
            self._pipeline = self._pipeline.leave_bytes()

    def _make_memory(self) -> LoaderMemory:
        return LoaderMemory(self._prefetch, _allocate_pinned if self.pin_memory else None)

    def __str__(self) -> str:
        place = (
            ""
            if self.device.type == "cpu"
            else f"\n  batches are copied to {self.device} one ahead"
        )
        normalised = "" if self._output.dtype == "uint8" or not place else ", and normalised there"
        return super().__str__() + place + normalised

    def _deliver(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        tensors = map(self._convert, batches)
        if self.device.type == "cpu":
            return tensors
        return prefetch_to_device(tensors, self.device, normalize=self._output)

    def _convert(self, batch: Batch) -> Batch:
        if self._collate_fn is not None:  # what it returns is what comes
            return batch
        return batch.replace(tuple(_to_tensors(value, self._output.dtype) for value in batch))

    @property
    def num_workers(self) -> int:
        """Processes that an iteration starts: none where Python has nothing to do."""
        return self._num_workers if self._in_python else 0

    @property
    def collate_fn(self) -> Collate | None:
        """The one that was given."""
        return self._collate_fn

    @property
    def pin_memory(self) -> bool:
        """Whether batches come from pinned memory."""
        return self.device.type == "cuda"

    @property
    def sampler(self) -> Sampler:
        """For programs that call `loader.sampler.set_epoch(epoch)`, or ask how long it is."""
        return Sampler(self)

    @property
    def batch_sampler(self) -> BatchSampler:
        """For programs that read its `sampler`, `batch_size` and `drop_last`. It is not iterable."""
        return BatchSampler(self)


def _take_apart(batch: Batch) -> tuple[list[Any], Batch]:
    """The values of a batch, and it without them: so it equals any other, as trees of one structure must."""
    return list(batch), batch.replace(())


def _put_together(values: Iterable[Any], rest: Batch) -> Batch:
    return rest.replace(tuple(values))


if Batch not in pytree.SUPPORTED_NODES:  # this module may be loaded again
    pytree.register_pytree_node(Batch, _take_apart, _put_together)


def fast_collate(samples: Sequence[tuple[Any, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of an image in bytes (PIL or array) and a label to uint8[B, 3, H, W] and int64[B].

        DataLoader(ImageFolder(root, Compose([RandomResizedCrop(224)])), 256, collate_fn=fast_collate)

    For those who stay with torch's DataLoader: no transpose and no floats in the workers. Memory is
    channels_last; PIL images of other modes and grey arrays become RGB. Normalise on the device: see
    `prefetch_to_device`.
    """
    images = np.stack([_as_rgb(image) for image, _ in samples])
    labels = torch.tensor([label for _, label in samples], dtype=torch.int64)
    return torch.from_numpy(images).permute(0, 3, 1, 2), labels


def _as_rgb(image: Any) -> NDArray[np.uint8]:
    array = np.asarray(image.convert("RGB") if isinstance(image, Image.Image) else image)
    if array.dtype != np.uint8:
        raise TypeError(
            f"fast_collate takes images in bytes, not {array.dtype}: leave ToTensor out"
        )
    if array.ndim == 2:
        return np.broadcast_to(array[..., None], (*array.shape, 3))
    if array.ndim != 3 or array.shape[2] != 3:
        raise TypeError(
            f"fast_collate takes images [H, W, 3], not {list(array.shape)}: leave PILToTensor out"
        )
    return array


def _allocate_pinned(size: int) -> NDArray[np.uint8]:
    pinned: NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
    return pinned


def _to_tensors(value: Any, dtype: str) -> Any:
    """Arrays as tensors, pictures (and only they have four dimensions) as NCHW."""
    if isinstance(value, Mapping):
        return {key: _to_tensors(item, dtype) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_to_tensors(item, dtype) for item in value))
    if type(value) is tuple:
        return tuple(_to_tensors(item, dtype) for item in value)
    if not isinstance(value, np.ndarray):
        return value
    tensor = torch.from_numpy(value)
    if value.ndim != 4:
        return tensor
    if dtype == "bfloat16" and value.dtype == np.uint16:
        tensor = tensor.view(torch.bfloat16)
    return tensor.permute(0, 3, 1, 2)
