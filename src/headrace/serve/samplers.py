"""What frameworks look for in the samplers of torch's DataLoader: lengths, sizes and `set_epoch`.

Neither is iterable: a framework that built another DataLoader of them would load other batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from headrace.serve.loader import Loader


@dataclass(frozen=True)
class Sampler:
    """The order of a loader, as programs know it from torch's DistributedSampler."""

    loader: Loader

    def __len__(self) -> int:
        """Return the number of samples this rank sees per epoch."""
        return self.loader.count_samples()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration goes through."""
        self.loader.set_epoch(epoch)


@dataclass(frozen=True)
class BatchSampler:
    """The batches of a loader, as programs know them from torch's BatchSampler."""

    loader: Loader

    @property
    def sampler(self) -> Sampler:
        """The sampler of the samples."""
        return Sampler(self.loader)

    @property
    def batch_size(self) -> int:
        """Samples per batch, on each rank."""
        return self.loader.batch_size

    @property
    def drop_last(self) -> bool:
        """Whether a last batch that is not full is left out."""
        return self.loader.drop_last

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration goes through."""
        self.loader.set_epoch(epoch)

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "the batch_sampler of a Loader is not iterable: the loader chooses its samples itself; iterate over the "
            "loader, and resume by loader.load_state_dict(state)"
        )
