"""Count what a loader has done so far: cheap counters that are always on."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field

from headrace.serve.batch import Batch

_ERRORS_LISTED = 1000


@dataclass
class Counters:
    """Counters that the threads of iterations add to, without locks: two iterators at once may lose a count."""

    images: int = 0
    frames: int = 0
    batches: int = 0
    seconds: float = 0.0
    wait_seconds: float = 0.0
    read_wait_seconds: float = 0.0
    render_seconds: float = 0.0
    read_seconds: float = 0.0
    bytes_read: int = 0
    error_count: int = 0
    errors: list[tuple[str, str]] = field(default_factory=list)

    def count_batch(self, batch: Batch, pictures: int = 1) -> None:
        """Count a batch that the training loop receives, whose samples consist of so many pictures."""
        self.batches += 1
        images = int(batch.valid.sum())
        self.images += images
        self.frames += images * pictures
        self.error_count += len(batch.errors)
        self.errors += batch.errors
        del self.errors[_ERRORS_LISTED:]


@dataclass(frozen=True)
class Stats:
    """What `loader.stats()` returns: totals of all iterations so far.

    Attributes:
        images: samples that the training loop received: images, or clips.
        frames: pictures that they consist of: images, or frames of clips.
        batches: batches that the training loop received.
        seconds: time that the training loop iterated.
        wait_seconds: time of it that was spent waiting for data, and in Python code of the iterating thread.
        read_wait_seconds: time that rendering waited for bytes.
        render_seconds: time spent rendering, added up over all threads and divided by their number.
        read_seconds: time spent reading, added up over all reading threads.
        bytes_read: bytes read. This and the times of reading and rendering include prefetched batches.
        error_count: number of bad samples in the received batches.
        errors: (key, reason) of the first 1,000 of them.
        images_per_second: images / seconds.
        frames_per_second: frames / seconds.
        queue_depth: finished batches that are waiting now.
    """

    images: int
    frames: int
    batches: int
    seconds: float
    wait_seconds: float
    read_wait_seconds: float
    render_seconds: float
    read_seconds: float
    bytes_read: int
    error_count: int
    errors: tuple[tuple[str, str], ...]
    images_per_second: float
    frames_per_second: float
    queue_depth: int


def summarise(counters: Counters, queues: Sequence[Sized]) -> Stats:
    """Return the counters as they are now."""
    totals = {**vars(counters), "errors": tuple(counters.errors)}
    seconds = counters.seconds or float("inf")
    return Stats(
        **totals,
        images_per_second=counters.images / seconds,
        frames_per_second=counters.frames / seconds,
        queue_depth=sum(map(len, queues)),
    )
