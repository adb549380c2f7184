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
    batches: int = 0
    seconds: float = 0.0
    wait_seconds: float = 0.0
    read_wait_seconds: float = 0.0
    render_seconds: float = 0.0
    read_seconds: float = 0.0
    bytes_read: int = 0
    error_count: int = 0
    errors: list[tuple[str, str]] = field(default_factory=list)

    def count_batch(self, batch: Batch) -> None:
        """Count a batch that the training loop receives."""
        self.batches += 1
        self.images += int(batch.valid.sum())
        self.error_count += len(batch.errors)
        self.errors += batch.errors
        del self.errors[_ERRORS_LISTED:]


@dataclass(frozen=True)
class Stats:
    """What `loader.stats()` returns: totals of all iterations so far.

    Attributes:
        images: images that the training loop received.
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
        queue_depth: finished batches that are waiting now.
    """

    images: int
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
    queue_depth: int


def summarise(counters: Counters, queues: Sequence[Sized]) -> Stats:
    """Return the counters as they are now."""
    totals = {**vars(counters), "errors": tuple(counters.errors)}
    rate = counters.images / counters.seconds if counters.seconds else 0.0
    return Stats(**totals, images_per_second=rate, queue_depth=sum(map(len, queues)))
