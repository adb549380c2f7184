"""What users and frameworks know from torch's DataLoader: its arguments, explained, and its samplers.

The samplers have lengths, sizes and `set_epoch`. They are not iterable: a framework that built another DataLoader of
them would load other batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.serve.loader import Loader

if TYPE_CHECKING:
    from typing_extensions import Self

_INSTEAD = {
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
"""Arguments of DataLoader that a Loader does not take, and what to do instead."""


class WithoutDataLoaderArguments:
    """Refuses the arguments of torch's DataLoader before Python misses others."""

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        for name in options:
            if name in _INSTEAD:
                raise TypeError(
                    f"Loader has no {name}, unlike torch's DataLoader: {_INSTEAD[name]}"
                )
        return super().__new__(cls)


@dataclass(frozen=True)
class Sampler:
    """The order of a loader, as programs know it from torch's DistributedSampler."""

    loader: Loader

    def __len__(self) -> int:
        """Return the number of samples this rank sees per epoch."""
        return self.loader.count_samples()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        self.loader.set_epoch(epoch)


@dataclass(frozen=True)
class BatchSampler(Sampler):
    """The batches of a loader, as programs know them from torch's BatchSampler."""

    @property
    def sampler(self) -> Sampler:
        """The sampler of the samples."""
        return Sampler(self.loader)

    @property
    def batch_size(self) -> int:
        """Samples per batch, on each rank; of the largest batches, if a schedule changes them."""
        return max(self.loader.batch_sizes)

    @property
    def drop_last(self) -> bool:
        """Whether a last batch that is not full is left out."""
        return self.loader.drop_last

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return len(self.loader)

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "the batch_sampler of a Loader is not iterable: the loader chooses its samples itself; iterate over the "
            "loader, and resume by loader.load_state_dict(state)"
        )
