"""The receiving end of a remote flow: binds, hears its senders, grants them credit (see `remote`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.errors import SourceError, WorkerError
from penstock.run.remote import Keys, bind, open_sockets
from penstock.run.stage import At, Items, Length, Opener, Stage
from penstock.run.wire import decode_item


@dataclass(frozen=True)
class Receive(Stage):
    """Items of `senders` senders as they arrive, until all have ended; without end if None."""

    addresses: tuple[str, ...]
    senders: int | None
    buffer: int
    keys: Keys | None
    place = "other machines"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with open_sockets() as (zmq, make_socket):
            desk = _Desk(self.buffer)
            for address in self.addresses:
                socket = make_socket(zmq.ROUTER)
                bind(socket, address, self.keys)
                desk.add(zmq, socket)
            if at.stop is not None:
                desk.poller.register(at.stop.fd, zmq.POLLIN)
            try:
                yield from desk.receive(self.senders)
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
        self.ended: set[str] = set()  # names: one that is started again has not ended twice

    def add(self, zmq: Any, socket: Any) -> None:
        self.sockets.append(socket)
        self.poller = self.poller or zmq.Poller()
        self.poller.register(socket, zmq.POLLIN)

    def receive(self, senders: int | None) -> Iterator[Any]:
        while senders is None or len(self.ended) < senders:
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
                    if senders is None:
                        self._let_go(sender)
                    else:  # kept until the pass ends: its next epoch must not come into this one
                        self.ended.add(self.names[sender])
                elif kind.bytes == b"F":
                    text = b"".join(frame.bytes for frame in frames).decode(errors="replace")
                    raise WorkerError(f"sender {self.names.pop(sender)} failed: {text}")

    def _welcome(self, sender: tuple[Any, bytes], name: str) -> None:
        if self.names.get(sender) == name:
            return  # it said hello again because it did not know whether it had been heard
        # Of a sender that was restarted, what is still under way is dropped: it comes again.
        for other in [other for other, known in self.names.items() if known == name]:
            del self.names[other]
            self._send(other, b"R")
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

    def _let_go(self, sender: tuple[Any, bytes]) -> None:
        """It has ended: what comes under its name later begins anew."""
        del self.counts[self.names.pop(sender)], self.owed[sender]
        self._send(sender, b"B")

    def say_goodbye(self) -> None:
        for sender in self.names:
            self._send(sender, b"B")

    def _send(self, sender: tuple[Any, bytes], *frames: bytes) -> None:
        socket, peer = sender
        socket.send_multipart([peer, *frames])
