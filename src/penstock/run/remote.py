"""Flows between machines, over ZeroMQ: any number of senders, one or more receivers.

A receiver binds, senders connect. Guaranteed: a sender is never more than the receiver's `buffer`
items ahead of its consumer; a pass ends when all senders have said so; a sender's error is raised
at the receiver; a sender that was restarted under its own `name` goes on after the last item that
arrived, if it has one receiver; nothing that arrives is ever executed (see `wire`).

Messages, first frame: from a sender H (hello: name), I (item), E (end), F (failure: text); from a
receiver W (welcome: how many items it has of this name), C (credit: how many more to send),
B (bye: it has left, or has read the end).
"""

from __future__ import annotations

import ipaddress
import logging
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import MissingExtraError, SourceError, WorkerError
from penstock.run.stage import At, Items, Length, Opener, Stage
from penstock.run.task import make_failure
from penstock.run.wire import decode_item, encode_item

log = logging.getLogger("penstock")
LINGER = 2000  # milliseconds that a closing socket may use to deliver its last words


@dataclass(frozen=True)
class Keys:
    """A CURVE key pair. The receiver keeps `secret`; senders are given `public`."""

    public: bytes
    secret: bytes = field(repr=False)


def make_keys() -> Keys:
    """A new key pair for a receiver."""
    return Keys(*_import_zmq().curve_keypair())


@dataclass(frozen=True)
class Receive(Stage):
    """Items of `senders` senders as they arrive, until all have ended; without end if None."""

    addresses: tuple[str, ...]
    senders: int | None
    buffer: int
    keys: Keys | None
    inputs_needed = 0
    place = "other machines"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with _open_sockets() as (zmq, make_socket):
            desk = _Desk(self.buffer)
            for address in self.addresses:
                socket = make_socket(zmq.ROUTER)
                _bind(socket, address, self.keys)
                desk.add(zmq, socket)
            if at.stop is not None:
                desk.poller.register(at.stop.fd, zmq.POLLIN)
            try:
                yield from desk.receive(zmq, self.senders)
            finally:
                desk.say_goodbye()

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None

    @property
    def name(self) -> str:
        return f"receive({', '.join(self.addresses)})"

    @property
    def order(self) -> str:
        return "kept within each sender"

    @property
    def unrepeatable(self) -> str | None:
        return "what arrives, and when, is up to its senders"


class _Desk:
    """The receiver's side: who has sent how much, and who may send more."""

    def __init__(self, buffer: int) -> None:
        self.buffer = buffer
        self.sockets: list[Any] = []
        self.poller: Any = None
        self.names: dict[tuple[Any, bytes], str] = {}  # of each connection
        self.counts: dict[str, int] = {}  # items of each name, over its connections
        self.owed: dict[tuple[Any, bytes], int] = {}  # credit that was not granted yet

    def add(self, zmq: Any, socket: Any) -> None:
        self.sockets.append(socket)
        self.poller = self.poller or zmq.Poller()
        self.poller.register(socket, zmq.POLLIN)

    def receive(self, zmq: Any, senders: int | None) -> Iterator[Any]:
        ended = 0
        while senders is None or ended < senders:
            for ready, _ in self.poller.poll():
                if ready not in self.sockets:
                    return  # the thread that we are read in has to end
                peer, kind, *frames = ready.recv_multipart(copy=False)
                sender = (ready, peer.bytes)
                if kind.bytes == b"H" and frames:
                    self._welcome(sender, frames[0].bytes.decode(errors="replace"))
                elif sender not in self.names:
                    continue  # who has not said hello, or has been replaced, is not heard
                elif kind.bytes == b"I":
                    yield self._read(sender, frames)
                elif kind.bytes == b"E":
                    ended += 1
                    self._send(sender, b"B")
                    del self.names[sender]
                elif kind.bytes == b"F":
                    text = b"".join(frame.bytes for frame in frames).decode(errors="replace")
                    raise WorkerError(f"sender {self.names[sender]} failed: {text}")

    def _welcome(self, sender: tuple[Any, bytes], name: str) -> None:
        # Of a sender that was restarted, what is still under way is dropped: it comes again.
        for other in [other for other, known in self.names.items() if known == name]:
            del self.names[other]
        self.names[sender] = name
        self.owed[sender] = 0
        self._send(sender, b"W", b"%d" % self.counts.setdefault(name, 0))
        self._send(sender, b"C", b"%d" % self.buffer)

    def _read(self, sender: tuple[Any, bytes], frames: list[Any]) -> Any:
        name = self.names[sender]
        try:
            item = decode_item([frame.buffer for frame in frames])
        except ValueError as error:
            raise SourceError(f"sender {name}: {error}") from error
        self.counts[name] += 1
        self.owed[sender] += 1
        if 2 * self.owed[sender] >= self.buffer:
            self._send(sender, b"C", b"%d" % self.owed[sender])
            self.owed[sender] = 0
        return item

    def say_goodbye(self) -> None:
        for sender in self.names:
            self._send(sender, b"B")

    def _send(self, sender: tuple[Any, bytes], *frames: bytes) -> None:
        socket, peer = sender
        socket.send_multipart([peer, *frames])


def send_items(
    open_at: Callable[[int], Items],
    addresses: tuple[str, ...],
    name: str | None,
    receiver_key: bytes | None,
) -> int:
    """Send what `open_at(position)` gives to whichever receiver has room; how many were sent.

    Ends early, without an error, when all receivers have left.
    """
    with _open_sockets() as (zmq, make_socket):
        links = _Links(zmq)
        for address in addresses:
            socket = make_socket(zmq.DEALER)
            _connect(socket, address, receiver_key, zmq)
            links.add(socket, name or uuid.uuid4().hex)
        items = open_at(links.wait_welcome() if name and len(addresses) == 1 else 0)
        try:
            return _send_all(links, items)
        except Exception as error:
            failure = make_failure(error, "the flow that is sent failed", "at the sender", None)
            links.send_last(b"F", f"{failure.what}\n{failure.traceback}".encode())
            raise
        finally:
            items.close()


def _send_all(links: _Links, items: Items) -> int:
    count = 0
    for item in items:
        try:
            frames = encode_item(item)
        except (TypeError, ValueError) as error:
            raise TypeError(f"item {count} cannot be sent: {error}") from error
        socket = links.take_credit()
        if socket is None:
            log.info("all receivers have left after %d items", count)
            return count
        socket.send_multipart([b"I", *frames], copy=False)
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
        self._welcomes: list[int] = []

    def add(self, socket: Any, name: str) -> None:
        socket.send_multipart([b"H", name.encode()])
        self._credit[socket] = 0
        self._poller.register(socket, self._zmq.POLLIN)

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
        """Until every receiver has read to the end or left."""
        while self._credit:
            self._listen(wait=True)

    def _listen(self, wait: bool) -> None:
        for socket, _ in self._poller.poll(None if wait else 0):
            kind, *frames = socket.recv_multipart()
            if kind == b"C":
                self._credit[socket] += int(frames[0])
            elif kind == b"W":
                self._welcomes.append(int(frames[0]))
            elif kind == b"B":
                self._poller.unregister(socket)
                del self._credit[socket]
                socket.close(0)


@contextmanager
def _open_sockets() -> Iterator[tuple[Any, Callable[[int], Any]]]:
    """ZeroMQ and a maker of sockets that are all closed at the end. One context a pass: fork-safe."""
    zmq = _import_zmq()
    context = zmq.Context()

    def make_socket(kind: int) -> Any:
        socket = context.socket(kind)
        socket.set_hwm(0)  # credit bounds what is in flight; ZeroMQ must not drop or block
        return socket

    try:
        yield zmq, make_socket
    finally:
        context.destroy(LINGER)


def _bind(socket: Any, address: str, keys: Keys | None) -> None:
    if keys is not None:
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret
    elif not is_local(address):
        warnings.warn(
            f"receiving on {address} without keys: anyone who can reach this address can send "
            "items into this flow and see that it is there. Pass keys=make_keys(), or bind to "
            "127.0.0.1",
            stacklevel=2,
        )
    try:
        socket.bind(address)
    except _import_zmq().ZMQError as error:
        raise SourceError(f"cannot receive on {address}: {error}") from error


def _connect(socket: Any, address: str, receiver_key: bytes | None, zmq: Any) -> None:
    if receiver_key is not None:
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_serverkey = receiver_key
    try:
        socket.connect(address)
    except zmq.ZMQError as error:
        raise SourceError(f"cannot send to {address}: {error}") from error


def is_local(address: str) -> bool:
    """Whether only this machine can reach an address that is bound."""
    scheme, _, rest = address.partition("://")
    if scheme != "tcp":
        return scheme in ("ipc", "inproc")
    host = rest.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name or an interface; "*" is all of them
        return host in ("localhost", "lo")


def _import_zmq() -> Any:
    try:
        import zmq
    except ImportError as error:
        raise MissingExtraError("zmq", "zmq") from error
    return zmq
