"""What a loader has done so far: cheap counters, always on."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field

from headrace.serve.batch import Batch

_ERRORS_LISTED = 1000


@dataclass
class Counters:
    """Added to by the threads of iterations, without locks: two iterators at once may lose a count."""

    images: int = 0
    batches: int = 0
    wait_seconds: float = 0.0
    read_wait_seconds: float = 0.0
    render_seconds: float = 0.0
    read_seconds: float = 0.0
    bytes_read: int = 0
    seconds: float = 0.0
    errors: list[tuple[str, str]] = field(default_factory=list)
    error_count: int = 0

    def count_batch(self, batch: Batch) -> None:
        """Counts a batch that the training loop receives."""
        self.batches += 1
        self.images += int(batch.valid.sum())
        self.error_count += len(batch.errors)
        self.errors += batch.errors
        del self.errors[_ERRORS_LISTED:]


@dataclass(frozen=True)
class Stats:
    """What `loader.stats()` says of all iterations so far.

    images, batches: what the training loop received. bytes_read and the seconds of reading and rendering are
        of what was prefetched too.
    wait_seconds: how long it waited for data, of `seconds` that it iterated; Python in its own thread counts.
    read_wait_seconds: how long rendering waited for bytes. render_seconds: how long it rendered: the time
        of all threads, divided by how many there are.
    read_seconds: how long the reading threads read, together.
    queue_depth: finished batches that are waiting now.
    errors: (key, reason) of the first bad samples in what was received; `error_count` of all.
    """

    images: int
    batches: int
    seconds: float
    images_per_second: float
    wait_seconds: float
    read_wait_seconds: float
    render_seconds: float
    read_seconds: float
    bytes_read: int
    queue_depth: int
    error_count: int
    errors: tuple[tuple[str, str], ...]


def summarise(counters: Counters, queues: Sequence[Sized]) -> Stats:
    """The counters as they are now."""
    rate = counters.images / counters.seconds if counters.seconds else 0.0
    return Stats(
        images=counters.images,
        batches=counters.batches,
        seconds=counters.seconds,
        images_per_second=rate,
        wait_seconds=counters.wait_seconds,
        read_wait_seconds=counters.read_wait_seconds,
        render_seconds=counters.render_seconds,
        read_seconds=counters.read_seconds,
        bytes_read=counters.bytes_read,
        queue_depth=sum(len(queue) for queue in queues),
        error_count=counters.error_count,
        errors=tuple(counters.errors),
    )
