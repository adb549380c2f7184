"""A flow as a torch IterableDataset. torch is imported when one is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.errors import MissingExtraError


def make_dataset(flow: Any) -> Any:
    """An IterableDataset over `flow`, for `torch.utils.data.DataLoader`.

    Guaranteed: with any number of DataLoader workers each item is given once; stages before the
    last batch that can seek do only their own worker's share of the work. `set_epoch` is the
    flow's; workers take it over when they start, so leave `persistent_workers` off. Items are
    batches already if the flow makes them: pass `batch_size=None`.
    """
    try:
        from torch.utils.data import IterableDataset, get_worker_info
    except ImportError as error:
        raise MissingExtraError("torch", "torch") from error

    class FlowDataset(IterableDataset):  # type: ignore[type-arg]
        def __init__(self, flow: Any) -> None:
            self.flow = flow

        def __iter__(self) -> Iterator[Any]:
            worker = get_worker_info()
            if worker is None:
                return iter(self.flow)
            if worker.num_workers > 1:
                self.flow._check_repeatable("shared out among workers")
            share = self.flow.shard(worker.id, worker.num_workers)
            share.set_epoch(self.flow.epoch)
            return iter(share)

        def __len__(self) -> int:
            return len(self.flow)

        def __reduce__(self) -> Any:
            return make_dataset, (self.flow,)

    return FlowDataset(flow)
