"""Counts the samples in the batches of a torch DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any


def find_batch_size(loader: Any) -> int | None:
    """Return the batch size of the loader or its batch sampler; None if there is none.

    Never raises: the attribute of a user's sampler may be anything.
    """
    try:
        return index(loader.batch_size or loader.batch_sampler.batch_size)
    except Exception:  # noqa: BLE001 - user code
        return None


def make_counter(loader: Any) -> Callable[[Any, int], int]:
    """Return a function of a batch and its number (from 1) that counts its samples. Keeps no loader alive.

    It counts the rows that torch collated; other batches count as full, except for the last. Never raises,
    whatever the user's samplers and batches do.
    """
    usual = find_batch_size(loader) or 1
    try:
        count = _choose_counter(loader)
    except Exception:  # noqa: BLE001 - user code
        return lambda batch, number: usual

    def count_safely(batch: Any, number: int) -> int:
        try:
            return count(batch, number)
        except Exception:  # noqa: BLE001 - user code
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
    """Return the rows of the first field, however deeply default_collate nested it."""
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
    """Return the samples of an epoch; 0 if unknown."""
    try:
        return len(loader.sampler)
    except (TypeError, NotImplementedError):
        return 0  # data without a length
