"""A flow as a torch IterableDataset. torch is imported when one is made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from penstock.errors import MissingExtraError


def make_dataset(flow: Any, board: Any = None, owner: int = 0) -> Any:
    """An IterableDataset over `flow`, for `torch.utils.data.DataLoader`.

    Guaranteed: with any number of DataLoader workers, persistent or not, the items of the flow's next
    pass are given, each once, in its order; stages before the last batch that can seek do only their
    own worker's share of the work. `board` and `owner` are those of `place` in another process.
    """
    try:
        import torch
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
            begun = self.flow._place.begin_share(worker.seed - worker.id)
            share: Iterator[Any] = self.flow._count(begun, worker.id, worker.num_workers)
            return share

        def __len__(self) -> int:
            return len(self.flow)

        def __reduce__(self) -> Any:
            place = self.flow._place
            return make_dataset, (self.flow, place.board, place.owner)

    if board is None and flow._place.board is None:
        board, owner = torch.zeros(3, dtype=torch.int64), os.getpid()
    if board is not None:
        flow._place.share(board.share_memory_(), owner)
    return FlowDataset(flow)
