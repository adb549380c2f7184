"""A flow as a torch IterableDataset. torch is imported on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from headrace.errors import MissingExtraError


class Passes(Protocol):
    """The part of a flow that a dataset needs."""

    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...


def make_dataset(flow: Passes, share: Callable[[int, int], Iterator[Any]]) -> Any:
    """Return an IterableDataset over `flow` for DataLoader; `share` gives one worker's part of it.

    Guaranteed: with any number of DataLoader workers the items of the flow's epoch are given, each once,
    in its order; stages before the last batch that can seek do only their own worker's share of the work.
    What workers cannot know, because it happens to the flow of their parent, is refused.
    """
    try:
        from torch.utils.data import IterableDataset, get_worker_info
    except ImportError as error:
        raise MissingExtraError("torch", "torch") from error

    class FlowDataset(IterableDataset):  # type: ignore[type-arg]
        def __init__(self) -> None:
            self._begun = False  # in this worker

        def __iter__(self) -> Iterator[Any]:
            worker = get_worker_info()
            if worker is None:
                return iter(flow)
            return self._give_share(worker.id, worker.num_workers)

        def _give_share(self, rank: int, world: int) -> Iterator[Any]:
            # A generator, since an error of __iter__ would end the worker without a word.
            if self._begun:
                raise RuntimeError(
                    "a worker that lives on does not hear of flow.set_epoch, and would give the same epoch "
                    "again: leave persistent_workers off"
                )
            items = share(rank, world)
            self._begun = True
            yield from items

        def __len__(self) -> int:
            return len(flow)

        def __reduce__(self) -> Any:
            return make_dataset, (flow, share)

    return FlowDataset()
