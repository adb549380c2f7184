"""in_process: run the stages before it in another process."""

from __future__ import annotations

import select
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.errors import WorkerError
from headrace.flow.flow_source import OnceSource
from headrace.flow.stage import At, Items, Opener, Stage, opened
from headrace.work.call_task import Failure, make_failure
from headrace.work.channel import MAX_IN_FLIGHT, Channel
from headrace.work.child_process import Child, check_crosses
from headrace.work.delay_interrupts import started
from headrace.work.seeding import seed_globals
from headrace.work.stall_report import StallWatch

END = -1


@dataclass(frozen=True)
class InProcess(Stage):
    """Run the stages before it in another process, up to `buffer` items ahead.

    `once` lists the sources before it that can be read only once. `share` is (rank, world) where it
    runs one shard of a flow.
    """

    buffer: int
    start: str | None
    once: tuple[OnceSource, ...] = field(default=(), repr=False)
    share: tuple[int, int] = (0, 1)
    seeks = True
    name = "in_process()"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        check_crosses(inputs[0], "the flow before in_process()", self.start)
        for source in self.once:
            source.take()
        room = min(self.buffer, MAX_IN_FLIGHT)
        args = (inputs[0], replace(at, stop=None), room, self.once, self.share)
        with started(lambda: Child("flow process", _produce, args, self.start)) as child:
            child.busy = True
            given = at.start
            watch = StallWatch(lambda _: f" for item {given}")
            while (message := _take(child, watch)) is not None:
                number, value = message
                given += at.step
                with suppress(BrokenPipeError, ConnectionResetError):  # dead: seen at the next take
                    child.channel.send(number, None)  # room for one more
                yield value
            child.busy = False

    place = "1 process, with all before it"


def _take(child: Child, watch: StallWatch) -> tuple[int, Any] | None:
    """Return the next message of the child, None at the end of its flow; raise its errors here."""
    message = (
        child.channel.receive() if child.channel.has_message() or _wait(child, watch) else None
    )
    if message is None:
        raise WorkerError(f"{child.describe_death()} before its flow had ended")
    number, value = message
    if isinstance(value, Failure):
        raise value.make_error()
    return None if number == END else message


def _wait(child: Child, watch: StallWatch) -> bool:
    """Wait for the child; return whether it sent something rather than died."""
    said = child.channel.connection.fileno()
    poll = select.poll()
    poll.register(said, select.POLLIN)
    poll.register(child.death_fd, select.POLLIN)
    watch.start(child)
    while not (events := poll.poll(watch.get_timeout())):
        watch.report()
    return any(fd == said for fd, _ in events)


def _produce(
    channel: Channel,
    opener: Opener,
    at: At,
    room: int,
    once: tuple[OnceSource, ...],
    share: tuple[int, int],
) -> None:
    """Run in the other process: send items while there is room, then report how the flow ended."""
    for source in once:
        source.hand_on()
    seed_globals(0, at.epoch, 0)
    given, end = 0, None
    try:
        with opened(opener, at) as items:
            for item in items:
                if not room:
                    if channel.receive() is None:
                        return
                    room += 1
                channel.send(given, item)
                given += 1
                room -= 1
                del item  # gives its shared memory back before the next is made
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:  # noqa: BLE001 - raised again at the consumer
        position = getattr(error, "position", None)
        if position is None:
            rank, world = share
            position = rank + (at.start + given * at.step) * world
        end = make_failure(error, "the flow before in_process() failed", "in its process", position)
    channel.send(END, end)
    while channel.receive() is not None:  # stay until the consumer has read everything
        pass
