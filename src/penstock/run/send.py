"""The sending end of a remote flow: connects, says hello, sends while it has credit (see `remote`)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any

from penstock.errors import ReceiverLostError
from penstock.run.remote import connect, open_sockets
from penstock.run.stage import Items
from penstock.run.task import make_failure
from penstock.run.wire import encode_item

log = logging.getLogger("penstock")


def send_items(
    open_at: Callable[[int], Items],
    addresses: tuple[str, ...],
    name: str | None,
    receiver_key: bytes | None,
) -> int:
    """Send what `open_at(position)` gives to whichever receiver has room; how many were sent.

    Ends early, without an error, when all receivers have left.
    """
    with open_sockets() as (zmq, make_socket):
        links = _Links(zmq)
        for address in addresses:
            socket = make_socket(zmq.DEALER)
            links.add(socket, address, name or uuid.uuid4().hex, receiver_key)
        start = links.wait_welcome() if name and len(addresses) == 1 else 0
        items = open_at(start)
        try:
            return _send_all(links, items, start)
        except Exception as error:
            failure = make_failure(error, "the flow that is sent failed", "at the sender", None)
            links.send_last(b"F", f"{failure.what}\n{failure.traceback}".encode())
            raise
        finally:
            items.close()


def _send_all(links: _Links, items: Items, start: int) -> int:
    """How many were sent, of which the first is item `start` of the flow."""
    count = 0
    for item in items:
        try:
            frames = encode_item(item)
        except (TypeError, ValueError) as error:
            raise TypeError(f"item {start + count} cannot be sent: {error}") from error
        socket = links.take_credit()
        if socket is None:
            log.info("all receivers have left after %d items", count)
            return count
        socket.send_multipart([b"I", *frames])  # copies: the next item may be in the same memory
        count += 1
    links.send_last(b"E", b"")
    links.wait_goodbyes()
    return count


class _Links:
    """The sender's side: which receivers are there, and how much each may be sent."""

    def __init__(self, zmq: Any) -> None:
        self._zmq = zmq
        self._poller = zmq.Poller()
        self._credit: dict[Any, int] = {}
        self._hellos: dict[Any, bytes] = {}  # of the links that were not welcomed yet
        self._monitors: dict[Any, tuple[Any, str]] = {}  # the link and address that each watches
        self._welcomes: list[int] = []

    def add(self, socket: Any, address: str, name: str, receiver_key: bytes | None) -> None:
        monitor = socket.get_monitor_socket(self._zmq.EVENT_DISCONNECTED)
        self._monitors[monitor] = socket, address
        self._hellos[socket] = name.encode()
        connect(socket, address, receiver_key)
        socket.send_multipart([b"H", self._hellos[socket]])
        self._credit[socket] = 0
        for watched in (socket, monitor):
            self._poller.register(watched, self._zmq.POLLIN)

    def take_credit(self) -> Any:
        """The receiver with most room, waiting for room; None when all have left."""
        self._listen(wait=False)
        while self._credit and max(self._credit.values()) == 0:
            self._listen(wait=True)
        if not self._credit:
            return None
        socket = max(self._credit, key=lambda link: self._credit[link])
        self._credit[socket] -= 1
        return socket

    def wait_welcome(self) -> int:
        """How many items of ours the receiver has from earlier."""
        while not self._welcomes and self._credit:
            self._listen(wait=True)
        return self._welcomes[0] if self._welcomes else 0

    def send_last(self, kind: bytes, body: bytes) -> None:
        for socket in self._credit:
            socket.send_multipart([kind, body])

    def wait_goodbyes(self) -> None:
        """Until the pass of every receiver has ended."""
        while self._credit:
            self._listen(wait=True)

    def _listen(self, wait: bool) -> None:
        ready = [socket for socket, _ in self._poller.poll(None if wait else 0)]
        for socket in ready:
            if socket in self._credit:
                self._read(socket)
        for monitor in ready:
            if monitor in self._monitors:  # not if its link has said goodbye above
                monitor.recv_multipart()
                self._look_after(*self._monitors[monitor])

    def _read(self, socket: Any) -> None:
        kind, *frames = socket.recv_multipart()
        if kind == b"C":
            self._credit[socket] += int(frames[0])
        elif kind == b"W":
            self._welcomes.append(int(frames[0]))
            self._hellos.pop(socket, None)
        elif kind == b"B":
            self._drop(socket)
        elif kind == b"R":
            address = self._drop(socket)
            raise ReceiverLostError(
                f"the receiver at {address} no longer hears this sender: another one came under the "
                "same name and goes on in its place. Give each sender a name of its own"
            )

    def _look_after(self, socket: Any, address: str) -> None:
        """A connection has ended: by goodbye, before it was welcomed, or because its receiver died."""
        while socket in self._credit and socket.poll(0):
            self._read(socket)  # its last words
        if socket not in self._credit:
            return
        if socket in self._hellos:  # ZeroMQ connects again, to the next who binds there
            socket.send_multipart([b"H", self._hellos[socket]])
            return
        self._drop(socket)
        raise ReceiverLostError(
            f"the receiver at {address} is gone without a goodbye: it was killed, or the network is "
            "down. What was under way to it may be lost; send again when it is back"
        )

    def _drop(self, socket: Any) -> str:
        """Take leave of a link; its address."""
        del self._credit[socket]
        (monitor,) = (each for each, (link, _) in self._monitors.items() if link is socket)
        _, address = self._monitors.pop(monitor)
        for watched in (socket, monitor):
            self._poller.unregister(watched)
        socket.disable_monitor()
        monitor.close(0)
        socket.close(0)
        return address
