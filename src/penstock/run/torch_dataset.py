"""A flow as a torch IterableDataset. torch is imported when one is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.errors import MissingExtraError


def make_dataset(flow: Any) -> Any:
    """An IterableDataset over `flow`, for `torch.utils.data.DataLoader`.

    Guaranteed: with any number of DataLoader workers the items of the flow's epoch are given, each once,
    in its order; stages before the last batch that can seek do only their own worker's share of the work.
    What workers cannot know, because it happens to the flow of their parent, is refused.
    """
    try:
        from torch.utils.data import IterableDataset, get_worker_info
    except ImportError as error:
        raise MissingExtraError("torch", "torch") from error

    class FlowDataset(IterableDataset):  # type: ignore[type-arg]
        def __init__(self, flow: Any) -> None:
            self.flow = flow
            self._begun = False  # in this worker

        def __iter__(self) -> Iterator[Any]:
            worker = get_worker_info()
            if worker is None:
                return iter(self.flow)
            return self._give_share(worker.id, worker.num_workers)

        def _give_share(self, rank: int, world: int) -> Iterator[Any]:
            # A generator, since an error of __iter__ would end the worker without a word.
            self._check_first_pass()
            if world > 1:
                self.flow._check_repeatable("shared out among workers")
            share = self.flow.shard(rank, world)
            share.set_epoch(self.flow.epoch)
            yield from share

        def _check_first_pass(self) -> None:
            if self._begun:
                raise RuntimeError(
                    "a worker that lives on does not hear of flow.set_epoch, and would give the same epoch "
                    "again: leave persistent_workers off"
                )
            if self.flow._place.next.start:
                raise RuntimeError(
                    "a DataLoader with workers cannot go on inside an epoch: finish this one with "
                    "num_workers=0, or by the flow itself"
                )
            self._begun = True

        def __len__(self) -> int:
            return len(self.flow)

        def __reduce__(self) -> Any:
            return make_dataset, (self.flow,)

    return FlowDataset(flow)
