"""The sending end of a remote flow: connects, says hello, sends while it has credit (see `protocol`)."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from typing import Any

from headrace.errors import ReceiverLostError, SourceError
from headrace.flow.remote.protocol import LINGER, MAX_WORDS, SILENCE, connect, open_sockets
from headrace.flow.remote.wire import encode_item
from headrace.flow.stage import Items
from headrace.work.call_task import make_failure

log = logging.getLogger("headrace")


def send_items(
    open_at: Callable[[int], Items],
    addresses: tuple[str, ...],
    name: str | None,
    receiver_key: bytes | None,
) -> int:
    """Send what `open_at(position)` gives to whichever receiver has room; return how many were sent.

    Ends early, without an error, when all receivers have left.
    """
    with open_sockets() as (zmq, make_socket):
        links = _Links(zmq)
        for address in addresses:
            socket = make_socket(zmq.DEALER)
            links.add(socket, address, name, receiver_key)
        start = links.wait_place() if name and len(addresses) == 1 else 0
        items = open_at(start)
        try:
            return _send_all(links, items, start)
        except Exception as error:
            failure = make_failure(error, "the flow that is sent failed", "at the sender", None)
            links.send_failure(f"{failure.what}\n{failure.traceback}")
            raise
        finally:
            items.close()


def _send_all(links: _Links, items: Items, start: int) -> int:
    """Send the items, the first being item `start` of the flow; return how many were sent."""
    count = 0
    for item in items:
        try:
            frames = encode_item(item)
        except (TypeError, ValueError) as error:
            raise TypeError(f"item {start + count} cannot be sent: {error}") from error
        link = links.take_credit()
        if link is None:
            log.info("all receivers have left after %d items", count)
            return count
        link.send_item(start + count, frames)
        count += 1
    links.send_ends()
    links.wait_goodbyes()
    return count


class _Link:
    """A connection to one receiver."""

    def __init__(self, socket: Any, address: str, name: str | None) -> None:
        self.socket, self.address = socket, address
        self._name = (name or uuid.uuid4().hex).encode()
        self._chosen = b"0" if name is None else b"1"
        self.credit = self.sent = self.largest = 0
        self._ends = False
        self.place: int | None = (
            None  # items that the receiver has of this name, once we have joined
        )

    def say_hello(self) -> None:
        self.socket.send_multipart([b"H", self._name])

    def send_item(self, number: int, frames: list[Any]) -> None:
        size = sum(memoryview(frame).nbytes for frame in frames)
        if size > self.largest:
            raise ValueError(
                f"item {number} has {size} bytes, and the receiver at {self.address} takes "
                f"{self.largest}; raise max_message of Flow.receive, or send smaller items"
            )
        self.socket.send_multipart([b"I", *frames])  # copies: the next may be in the same memory
        self.credit -= 1
        self.sent += 1

    def send_end(self) -> None:
        """Announce that there are no more items, once we have joined."""
        self._ends = True
        if self.place is not None:
            self.socket.send_multipart([b"E", b"%d" % self.sent])

    def hear(self) -> bytes:
        """Act on one message of the receiver; return its kind."""
        kind, *frames = self.socket.recv_multipart()
        try:
            if kind == b"C":
                self.credit += int(frames[0])
            elif kind == b"W" and self.place is None:
                self.largest = int(frames[1])
                self.socket.send_multipart([b"J", frames[0], self._name, self._chosen])
            elif kind == b"P":
                self.place = int(frames[0])
                if self._ends:
                    self.send_end()
        except (ValueError, IndexError) as error:
            raise SourceError(f"not a receiver of flows: {self.address}") from error
        return bytes(kind)


class _Links:
    """The sender's side: which receivers are there, and how much each may be sent."""

    def __init__(self, zmq: Any) -> None:
        self._zmq = zmq
        self._poller = zmq.Poller()
        self._links: dict[Any, _Link] = {}  # by socket
        self._monitors: dict[Any, _Link] = {}  # what watches each

    def add(self, socket: Any, address: str, name: str | None, receiver_key: bytes | None) -> None:
        link = _Link(socket, address, name)
        socket.maxmsgsize = MAX_WORDS
        monitor = socket.get_monitor_socket(self._zmq.EVENT_DISCONNECTED)
        self._monitors[monitor] = link
        connect(socket, address, receiver_key)
        link.say_hello()
        self._links[socket] = link
        for watched in (socket, monitor):
            self._poller.register(watched, self._zmq.POLLIN)

    def take_credit(self) -> _Link | None:
        """Wait for room and return the receiver with the most; None when all have left."""
        self._listen(0)
        while self._links:
            link = max(self._links.values(), key=lambda each: each.credit)
            if link.credit > 0:
                return link
            self._wait()
        return None

    def wait_place(self) -> int:
        """Return how many of our items the one receiver already has."""
        place = None
        while self._links and place is None:
            self._wait()
            place = next((link.place for link in self._links.values()), None)
        return place or 0

    def send_ends(self) -> None:
        for link in self._links.values():
            link.send_end()

    def send_failure(self, text: str) -> None:
        """Report a failure to all receivers, after a moment for those we have not joined yet."""
        deadline = time.monotonic() + LINGER / 1000
        while self._find_unjoined() and (left := deadline - time.monotonic()) > 0:
            self._listen(int(left * 1000))
        for link in self._links.values():
            link.socket.send_multipart([b"F", text.encode(errors="replace")[:MAX_WORDS]])

    def wait_goodbyes(self) -> None:
        """Wait until the pass of every receiver has ended."""
        while self._links:
            self._wait()

    def _find_unjoined(self) -> list[_Link]:
        return [link for link in self._links.values() if link.place is None]

    def _wait(self) -> None:
        """Wait for messages; say hello again from time to time to receivers that had no room for us."""
        unjoined = self._find_unjoined()
        if not self._listen(SILENCE if unjoined else None):
            for link in unjoined:
                link.say_hello()

    def _listen(self, timeout: int | None) -> bool:
        """Act on what has arrived; return whether anything has."""
        ready = [socket for socket, _ in self._poller.poll(timeout)]
        for socket in ready:
            if socket in self._links:
                self._hear(self._links[socket])
        for monitor in ready:
            if monitor in self._monitors:  # not if its link has said goodbye above
                monitor.recv_multipart()
                self._look_after(self._monitors[monitor])
        return bool(ready)

    def _hear(self, link: _Link) -> None:
        kind = link.hear()
        if kind in (b"B", b"R"):
            self._drop(link)
        if kind == b"R":
            raise ReceiverLostError(
                f"the receiver at {link.address} no longer hears this sender: another one came under "
                "the same name and goes on in its place. Give each sender a name of its own"
            )

    def _look_after(self, link: _Link) -> None:
        """Handle a connection that ended: by goodbye, before we joined, or because its receiver died."""
        while link.socket in self._links and link.socket.poll(0):
            self._hear(link)  # its last words
        if link.socket not in self._links:
            return
        if link.place is None:  # ZeroMQ connects again, to the next who binds there
            link.say_hello()
            return
        self._drop(link)
        raise ReceiverLostError(
            f"the receiver at {link.address} is gone without a goodbye: it was killed, or the network "
            "is down. What was in flight to it may be lost; send again when it is back"
        )

    def _drop(self, link: _Link) -> None:
        """Forget a receiver and close its sockets."""
        del self._links[link.socket]
        (monitor,) = (each for each, watched in self._monitors.items() if watched is link)
        del self._monitors[monitor]
        for watched in (link.socket, monitor):
            self._poller.unregister(watched)
        link.socket.disable_monitor()
        monitor.close(0)
        link.socket.close(0)
