"""The loader for PyTorch: `from headrace.torch import Loader`.

Images are NCHW tensors whose memory is channels_last: views of the bytes that the core wrote, without a copy. Labels are
int64 tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.errors import MissingExtraError
from headrace.read.dataset import Dataset
from headrace.serve import loader
from headrace.serve.batch import Batch
from headrace.serve.dataloader_compat import BatchSampler, Sampler, WithoutDataLoaderArguments
from headrace.serve.loader_options import LoaderOptions
from headrace.serve.sampling import Mixture
from headrace.serve.stats import Stats

try:
    import torch
except ModuleNotFoundError:
    raise MissingExtraError("torch", "torch") from None

from torch.utils import _pytree as pytree

from headrace.serve.device import prefetch_to_device
from headrace.serve.tensors import TensorDelivery

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Loader", "fast_collate", "prefetch_to_device"]


@dataclass(frozen=True, eq=False, repr=False)
class TorchOptions(LoaderOptions, WithoutDataLoaderArguments):
    """Add to the options of `headrace.Loader` those that only tensors need."""

    device: torch.device | str | None = field(default=None, kw_only=True)


TorchOptions.__init__.__qualname__ = "Loader.__init__"  # in errors about arguments


class Loader(TorchOptions):
    """Load batches of tensors: `headrace.Loader` for PyTorch, on a device if you like.

        train = Loader("shards/train", 256, shuffle=True, transform=transforms, device="cuda")
        for images, labels in train:      # float32[256, 3, 224, 224], int64[256]
            ...

    It takes the same arguments and gives the same guarantees.

    Args:
        device: where batches go. On a GPU they are copied from pinned memory on a stream of their own, one batch ahead,
            as bytes, and normalised there. Default: the CPU, where the core normalises.

    Raises:
        TypeError: an argument of torch's DataLoader was given that is not needed here; the message says what is.
    """

    def __post_init__(
        self, num_workers: int | None, rank: int | None, world_size: int | None
    ) -> None:
        super().__post_init__(num_workers, rank, world_size)
        device = torch.device("cpu" if self.device is None else self.device)
        self._set(device=device)
        delivery = TensorDelivery(device, converts=self.collate_fn is None)
        self._loader = loader.Loader.deliver(self, delivery)

    def __getstate__(self) -> Any:
        return {**vars(self), "_loader": self._loader.__getstate__()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._loader = loader.Loader.__new__(loader.Loader)
        self._loader.__setstate__(state["_loader"])

    def __repr__(self) -> str:
        return repr(self._loader).replace("Loader", type(self).__name__, 1)

    def __str__(self) -> str:
        """Return where each step of the transform runs, and why."""
        return str(self._loader).replace("Loader", type(self).__name__, 1)

    def __len__(self) -> int:
        """Return the number of batches per epoch, the same on every rank."""
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the current epoch; see `headrace.Loader`."""
        return iter(self._loader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all running iterations. Idempotent and thread-safe; the loader can be iterated again afterwards."""
        self._loader.close()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration; see `headrace.Loader.set_epoch`."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch received; see `headrace.Loader.state_dict`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume where `state` was taken; see `headrace.Loader.load_state_dict`."""
        self._loader.load_state_dict(state)

    def count_samples(self) -> int:
        """Return the number of samples this rank sees per epoch."""
        return self._loader.count_samples()

    def stats(self) -> Stats:
        """Return what was loaded so far, how fast, and which samples were bad."""
        return self._loader.stats()

    @property
    def dataset(self) -> Dataset | Mixture:
        """The data that are loaded."""
        return self._loader.dataset

    @property
    def rank(self) -> int:
        """Rank of this process; see `headrace.Loader.rank`."""
        return self._loader.rank

    @property
    def world_size(self) -> int:
        """Number of ranks; see `headrace.Loader.world_size`."""
        return self._loader.world_size

    @property
    def num_workers(self) -> int:
        """Number of processes that an iteration starts: 0 where nothing runs in Python."""
        return self._loader.num_workers

    @property
    def pin_memory(self) -> bool:
        """Whether batches come from pinned memory."""
        return torch.device(self.device or "cpu").type == "cuda"

    @property
    def sampler(self) -> Sampler:
        """For programs that call `loader.sampler.set_epoch(epoch)`, or ask how long it is."""
        return Sampler(self._loader)

    @property
    def batch_sampler(self) -> BatchSampler:
        """For programs that read its `sampler`, `batch_size` and `drop_last`. It is not iterable."""
        return BatchSampler(self._loader)


def _take_apart(batch: Batch) -> tuple[list[Any], Batch]:
    """Return the values of a batch, and the batch without them, which equals any other: pytrees compare these."""
    return list(batch), batch.replace(())


if Batch not in pytree.SUPPORTED_NODES:  # this module may be imported twice
    pytree.register_pytree_node(
        Batch, _take_apart, lambda values, rest: rest.replace(tuple(values))
    )


def fast_collate(samples: Sequence[tuple[Any, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Collate samples for torch's DataLoader without a transpose and without floats in the workers.

        DataLoader(ImageFolder(root, Compose([RandomResizedCrop(224)])), 256, collate_fn=fast_collate)

    Normalise on the device: see `prefetch_to_device`.

    Args:
        samples: pairs of an image (PIL, or an array of bytes) and a label. Images of other modes become RGB.

    Returns:
        Images uint8[B, 3, H, W], channels_last in memory, and labels int64[B].

    Raises:
        TypeError: an image does not consist of bytes, or is not [H, W, 3].
    """
    images = np.stack([_as_rgb(image) for image, _ in samples])
    labels = torch.tensor([label for _, label in samples], dtype=torch.int64)
    return torch.from_numpy(images).permute(0, 3, 1, 2), labels


def _as_rgb(image: Any) -> NDArray[np.uint8]:
    array = np.asarray(image.convert("RGB") if isinstance(image, Image.Image) else image)
    if array.dtype != np.uint8:
        raise TypeError(
            f"fast_collate takes images of uint8, not {array.dtype}; leave ToTensor out"
        )
    if array.ndim == 2:
        return np.broadcast_to(array[..., None], (*array.shape, 3))
    if array.ndim != 3 or array.shape[2] != 3:
        raise TypeError(
            f"fast_collate takes images [H, W, 3], not {list(array.shape)}; leave PILToTensor out"
        )
    return array
