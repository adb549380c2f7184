"""How many samples a batch of a torch DataLoader holds, as far as that can be told without looking far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any


def find_batch_size(loader: Any) -> int | None:
    """That of the loader or of its batch sampler; None if batches are of any size, or made by the dataset.

    Never raises: a sampler of the user's may have anything under that name.
    """
    try:
        return index(loader.batch_size or loader.batch_sampler.batch_size)
    except Exception:  # noqa: BLE001 - it is the user's
        return None


def make_counter(loader: Any) -> Callable[[Any, int], int]:
    """Says how many samples a batch holds, which is the nth of its epoch. Does not hold the loader.

    What torch collated itself tells it; of other batches the last is as short as the sampler makes it. Never
    raises, whatever the user's samplers and batches do when they are asked.
    """
    usual = find_batch_size(loader) or 1
    try:
        count = _choose_counter(loader)
    except Exception:  # noqa: BLE001 - it is the user's
        return lambda batch, number: usual

    def count_safely(batch: Any, number: int) -> int:
        try:
            return count(batch, number)
        except Exception:  # noqa: BLE001 - it is the user's
            return usual

    return count_safely


def _choose_counter(loader: Any) -> Callable[[Any, int], int]:
    size = find_batch_size(loader)
    if loader.batch_sampler is None:
        return lambda batch, number: 1
    if size is None or getattr(loader.collate_fn, "__name__", "") == "default_collate":
        return lambda batch, number: _count_rows(batch) or size or 1
    total, most = _count_sampled(loader), size

    def count_left(batch: Any, number: int) -> int:
        left = total - (number - 1) * most
        return left if 0 < left < most else most

    return count_left


def _count_rows(batch: Any) -> int | None:
    """Rows of the first field, however deep it lies in what default_collate makes."""
    while True:
        if isinstance(batch, Mapping):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, (list, tuple)):
            if not batch or isinstance(batch[0], (str, bytes)):
                return len(batch)
            batch = batch[0]
        else:
            shape: Any = getattr(batch, "shape", ())
            return int(shape[0]) if len(shape) else None


def _count_sampled(loader: Any) -> int:
    """Samples of an epoch; 0 where nobody knows."""
    try:
        return len(loader.sampler)
    except (TypeError, NotImplementedError):
        return 0  # data without a length
