"""Batches as the training loop receives them: tuples that also know where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

IGNORED_LABEL = -100
"""Label of an entry that only fills up a batch: torch's losses ignore it by default."""


class Batch(tuple[Any, ...]):
    """A tuple of the requested fields, in their order, that knows which samples it holds.

        for batch in loader:
            images, labels = batch
            correct += int((predict(images) == labels)[batch.valid].sum())

    Attributes:
        valid: bool[B], False for entries that only fill up a batch: leave them out of metrics.
        rows: int64[B], numbers of the samples in the dataset.
        draws: int64[B], numbers that their randomness comes from: the rows, unless rows repeat.
        errors: (key, reason) of samples that did not decode and were left out or substituted.
        epoch: number of the epoch. With the seed, epoch and step are enough to make the batch again.
        step: number of the batch in its epoch.
        clips: int64[B, T], numbers of the frames that a clip shows; [B, K, T] with several clips. None for images.
        finished: whether all transforms ran in Python, so that a device has nothing to normalise.

    Raises:
        RuntimeError: one of these attributes is read, but some program has rebuilt the batch as `type(batch)(values)`,
            which loses them. Intentional: not AttributeError, since `getattr(batch, "valid", None)` would then count
            fillers silently.
    """

    valid: NDArray[np.bool_]
    rows: NDArray[np.int64]
    draws: NDArray[np.int64]
    errors: tuple[tuple[str, str], ...]
    epoch: int
    step: int
    finished: bool
    clips: NDArray[np.int64] | None

    def __new__(
        cls,
        values: Iterable[Any] = (),
        *,
        valid: NDArray[np.bool_] | None = None,
        rows: NDArray[np.int64] | None = None,
        draws: NDArray[np.int64] | None = None,
        errors: tuple[tuple[str, str], ...] = (),
        epoch: int = 0,
        step: int = 0,
        finished: bool = False,
        clips: NDArray[np.int64] | None = None,
    ) -> Self:
        """Make a batch; from the values alone, one that does not know where it comes from."""
        batch = super().__new__(cls, values)
        if valid is not None and rows is not None and draws is not None:
            batch.valid, batch.rows, batch.draws = valid, rows, draws
            batch.errors, batch.epoch, batch.step, batch.finished = errors, epoch, step, finished
            batch.clips = clips
        return batch

    if not TYPE_CHECKING:  # so that type checkers notice a mistyped name

        def __getattr__(self, name: str) -> Any:
            if name in Batch.__annotations__:
                raise RuntimeError(
                    f"batch.{name} is lost: this batch was rebuilt from its values alone, as type(batch)(values); move "
                    "batches by batch.to(device), change them by batch.replace(values), or read it earlier"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def to(self, device: Any, non_blocking: bool = False) -> Batch:
        """Move all tensors to a device, also those in tuples, lists and dicts.

            images, labels = batch.to("cuda", non_blocking=True)

        Args:
            device: what `to` of a tensor takes. Anything that has a `to` is moved; the rest stays as it is.
            non_blocking: whether copies from pinned memory may continue after the call.

        Returns:
            A batch with the same attributes.
        """
        options = {"non_blocking": True} if non_blocking else {}
        return self._map("to", lambda value: value.to(device, **options))

    def pin_memory(self) -> Batch:
        """Return the same batch with all tensors in pinned memory: `batch.pin_memory()`."""
        return self._map("pin_memory", lambda value: value.pin_memory())

    def _map(self, method: str, change: Callable[[Any], Any]) -> Batch:
        def has_method(value: Any) -> bool:
            return hasattr(value, method) and not isinstance(value, type)

        return self.replace(tuple(map_nested(value, has_method, change) for value in self))

    def replace(self, values: tuple[Any, ...]) -> Batch:
        """Return the same batch with other values: `batch.replace((images.half(), labels))`."""
        return _rebuild(values, vars(self))

    def take(self, kept: NDArray[np.int64]) -> Batch:
        """Return the same values with the attributes of the entries `kept`."""
        chosen = {name: getattr(self, name)[kept] for name in ("valid", "rows", "draws")}
        if self.clips is not None:
            chosen["clips"] = self.clips[kept]
        return _rebuild(tuple(self), {**vars(self), **chosen})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (tuple(self), vars(self))


def _rebuild(values: tuple[Any, ...], about: dict[str, Any]) -> Batch:
    """Return a batch of other values with the same attributes, also those that the user set."""
    batch = Batch(values)
    vars(batch).update(about)
    return batch


def map_nested(value: Any, is_wanted: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:
    """Return the same structure of tuples, lists and dicts with all wanted values changed."""
    if is_wanted(value):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_nested(item, is_wanted, change) for key, item in value.items()}
    if not isinstance(value, (tuple, list)):
        return value
    items = [map_nested(item, is_wanted, change) for item in value]
    if isinstance(value, Batch):
        return value.replace(tuple(items))
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
