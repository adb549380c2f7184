"""Copy batches to a device, one ahead: while the training loop works on one, the next is copied.

On CUDA, host memory is pinned, the copy runs on a stream of its own, and the stream of the training loop
waits for its event, never the CPU. A tensor is marked as used there, so that its memory is not given to
another copy too early, and host memory is held until the copy has ended. This follows CUDA's documentation;
tests run the logic with a fake device, and it has not run on a GPU yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

import torch

from headrace.render import Output
from headrace.serve.batch import Batch, map_nested

T = TypeVar("T")


def prefetch_to_device(
    batches: Iterable[T], device: torch.device | str, *, normalize: Output | None = None
) -> Iterator[T]:
    """Copy the batches of any loader to a device, one ahead.

        for images, labels in prefetch_to_device(DataLoader(...), "cuda"):
            ...

    Args:
        batches: what to iterate over. Tensors are found in tuples, lists and dicts.
        device: where to copy them.
        normalize: how to normalise uint8 tensors of pictures on the device: those of four dimensions (images, NCHW), of
            five (clips, NCTHW) and of six (several clips). Default: not at all.

    Returns:
        An iterator over the same batches on `device`.
    """
    change = None if normalize is None else make_normalizer(normalize)

    def finish(batch: Any) -> Any:
        if change is None or (isinstance(batch, Batch) and batch.finished):
            return batch
        return map_tensors(batch, change)

    return prefetch_batches(batches, torch.device(device), finish)


def prefetch_batches(
    batches: Iterable[T], device: torch.device, finish: Callable[[Any], Any]
) -> Iterator[T]:
    """Copy batches to a device, one ahead, and call `finish` with each copy there."""
    if device.type == "cuda":
        return _prefetch(batches, _CudaCopies(device), finish)
    return _prefetch(batches, _PlainCopies(device), finish)


class _PlainCopies:
    """Copies that have ended when they return."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def start(self, host: Any, finish: Callable[[Any], Any]) -> Any:
        return finish(map_tensors(host, lambda tensor: tensor.to(self._device)))

    def wait(self, started: Any) -> Any:
        return started

    def finish(self) -> None:
        pass


class _CudaCopies:
    """Copies on a stream of their own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._in_flight: deque[tuple[Any, Any]] = deque()

    def start(self, host: Any, finish: Callable[[Any], Any]) -> tuple[Any, Any]:
        pinned = map_tensors(host, lambda t: t if t.is_pinned() else t.pin_memory())
        with torch.cuda.stream(self._stream):
            copies = map_tensors(pinned, lambda t: t.to(self._device, non_blocking=True))
            copies = finish(copies)
            event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(self._stream)
        # Host memory may be written again only when the copy has read it.
        self._in_flight.append((event, pinned))
        while self._in_flight and self._in_flight[0][0].query():
            self._in_flight.popleft()
        return event, copies

    def wait(self, started: tuple[Any, Any]) -> Any:
        event, copies = started
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(event)
        # They were allocated on our stream and are used on another: the allocator must know.
        map_tensors(copies, lambda tensor: tensor.record_stream(stream))
        return copies

    def finish(self) -> None:
        """Wait for all copies, before host memory is released."""
        while self._in_flight:
            self._in_flight[0][0].synchronize()
            self._in_flight.popleft()


def _prefetch(batches: Iterable[T], copies: Any, finish: Callable[[Any], Any]) -> Iterator[T]:
    started: deque[Any] = deque()
    try:
        for batch in batches:
            started.append(copies.start(batch, finish))
            del batch
            if len(started) > 1:
                yield copies.wait(started.popleft())
        while started:
            yield copies.wait(started.popleft())
    finally:
        copies.finish()


def find_channels(axes: int) -> int:
    """Return which axis of pictures, in tensors of so many axes, has the channels."""
    return 2 if axes == 6 else 1


@cache
def make_normalizer(
    output: Output, channels: int | None = None
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function from bytes, [B, 3, H, W] or of clips, to the floats of the core; other tensors stay.

    `channels` is the axis of the channels. Default: see `find_channels`.
    """
    dtype = getattr(torch, output.dtype)

    @cache
    def place_constants(device: torch.device, axes: int) -> tuple[torch.Tensor, ...]:
        # Once per device, since this copy blocks. Tensors, not numbers: CUDA divides by a number by
        # multiplying with its reciprocal.
        axis = find_channels(axes) if channels is None else channels
        after = [1] * (axes - 1 - axis)
        return tuple(
            torch.tensor(values, dtype=torch.float32, device=device).view(-1, *after)
            for values in ([255.0], output.mean, output.std)
        )

    def normalize(images: torch.Tensor) -> torch.Tensor:
        pictures = images.ndim in (4, 5, 6) or (images.ndim == 3 and channels == 0)
        if images.dtype != torch.uint8 or not pictures or dtype == torch.uint8:
            return images
        levels, mean, std = place_constants(images.device, images.ndim)
        floats = images.to(torch.float32)
        floats = floats.mul_(1 / levels) if output.reciprocal else floats.div_(levels)
        return floats.sub_(mean).div_(std).to(dtype)

    return normalize


def map_tensors(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Return the same structure with every tensor changed."""
    return map_nested(value, lambda item: isinstance(item, torch.Tensor), change)
