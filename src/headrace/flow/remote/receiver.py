"""The receiver of a remote flow: who has joined, what has arrived, who may send more (see `protocol`).

Guaranteed: nothing is stored of a peer that has not joined; at most `senders` names join a pass; per
connection ZeroMQ holds at most `buffer` items and a few other messages, each frame within
`max_message` bytes, and then stops reading, so that a sender which ignores its credit fills its own
memory. A malformed message of a sender is an error; of anyone else it is ignored and logged once.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.errors import SourceError, WorkerError
from headrace.flow.remote.protocol import MAX_NAME, MAX_SENDERS, MAX_WORDS
from headrace.flow.remote.wire import decode_item

log = logging.getLogger("headrace")
BESIDES = 8  # messages of a connection that may wait besides its items
Link: TypeAlias = "tuple[Any, bytes]"  # a socket of ours and what it calls the peer


@dataclass
class _Sender:
    """A sender that has joined: its connection and its counters."""

    link: Link
    chosen: bool  # the user gave it its name, so that it can come back
    count: int = 0  # items, over all connections of its name
    here: int = 0  # items, over this connection
    owed: int = 0  # credit that was not granted yet
    ended: bool = False


class Receiver:
    """Serves the sockets that are added, until `senders` senders have ended; None: without end."""

    def __init__(self, zmq: Any, senders: int | None, buffer: int, max_message: int) -> None:
        self.poller = zmq.Poller()
        self._zmq, self._senders = zmq, senders
        self._buffer, self._max_message = buffer, max_message
        self._sockets: list[Any] = []
        self._secret = os.urandom(32)
        self._names: dict[Link, str] = {}
        self._joined: dict[str, _Sender] = {}
        self._logged: set[str] = set()

    def add(self, socket: Any) -> None:
        """Listen to a ROUTER that is not bound yet."""
        socket.maxmsgsize = max(self._max_message, MAX_WORDS)
        socket.set_hwm(self._buffer + BESIDES)
        socket.router_mandatory = True  # so that sending tells who is gone
        self._sockets.append(socket)
        self.poller.register(socket, self._zmq.POLLIN)

    def receive(self) -> Iterator[Any]:
        """Yield the items until all senders have ended, or another member of `poller` is ready."""
        while self._senders is None or self._count_ended() < self._senders:
            for ready, _ in self.poller.poll():
                if ready not in self._sockets:
                    return  # the thread that we are read in has to end
                peer, kind, *frames = ready.recv_multipart(copy=False)
                yield from self._hear((ready, peer.bytes), kind, frames)

    def say_goodbye(self) -> None:
        """Tell all senders that the pass has ended."""
        for link in self._names:
            self._send(link, b"B")

    def _hear(self, link: Link, kind: Any, frames: list[Any]) -> Iterator[Any]:
        word = kind.bytes if len(kind) == 1 else b""
        name = self._names.get(link)
        if word == b"H" and len(frames) == 1:
            self._welcome(link, frames[0])
        elif word == b"J" and len(frames) == 3:
            self._join(link, frames)
        elif name is None:
            self._log_once(
                "ignored a message from %s, a peer that is not one of its senders",
                _find_address(kind),
            )
        elif word == b"I":
            yield self._read(self._joined[name], name, frames)
        elif word == b"E":
            self._end(self._joined[name], name, frames)
        elif word == b"F":
            text = b"".join(frame.bytes for frame in frames).decode(errors="replace")
            del self._names[link]
            raise WorkerError(f"sender {name} failed: {text}")

    def _welcome(self, link: Link, name: Any) -> None:
        if 0 < len(name) <= MAX_NAME:
            self._send(link, b"W", self._make_token(link, name.bytes), b"%d" % self._max_message)

    def _make_token(self, link: Link, name: bytes) -> bytes:
        socket, peer = link
        place = b"%d %d " % (self._sockets.index(socket), len(peer))
        return hmac.digest(self._secret, place + peer + name, "sha256")

    def _join(self, link: Link, frames: list[Any]) -> None:
        token, raw_name, chosen = (frame.bytes for frame in frames)
        if link in self._names:
            return  # it asked again because it did not know whether it had been heard
        if not hmac.compare_digest(token, self._make_token(link, raw_name)):
            return
        name = raw_name.decode(errors="replace")
        sender = self._joined.get(name)
        if sender is None:
            if not self._has_room():
                self._log_once(
                    "%r wants to send, but the receiver has its senders=%s: it has to wait",
                    name,
                    self._senders,
                )
                return
            sender = self._joined[name] = _Sender(link, chosen == b"1")
        elif self._names.pop(sender.link, None) is not None:
            # Restarted: what is still in flight of the earlier one is dropped, and comes again.
            self._send(sender.link, b"R")
        sender.link, sender.here, sender.owed = link, 0, 0
        self._names[link] = name
        self._send(link, b"P", b"%d" % sender.count)
        self._send(link, b"C", b"%d" % self._buffer)

    def _has_room(self) -> bool:
        """Return whether another sender may join, replacing a disconnected one if necessary."""
        if len(self._joined) < (self._senders or MAX_SENDERS):
            return True
        for name, sender in self._joined.items():
            returns = self._senders is not None and sender.chosen and sender.count
            if not sender.ended and not returns and not self._send(sender.link, b"C", b"0"):
                self._forget(name)
                return True
        return False

    def _read(self, sender: _Sender, name: str, frames: list[Any]) -> Any:
        size = sum(map(len, frames))
        if size > self._max_message:
            raise SourceError(
                f"sender {name}: an item of {size} bytes, more than max_message={self._max_message}; "
                "raise max_message of Flow.receive, or send smaller items"
            )
        try:
            item = decode_item([frame.buffer for frame in frames])
        except ValueError as error:
            raise SourceError(f"sender {name}: {error}") from error
        sender.count += 1
        sender.here += 1
        sender.owed += 1
        if 2 * sender.owed >= self._buffer:
            self._send(sender.link, b"C", b"%d" % sender.owed)
            sender.owed = 0
        return item

    def _end(self, sender: _Sender, name: str, frames: list[Any]) -> None:
        said = frames[0].bytes.decode(errors="replace")[:20] if frames else "unknown"
        if said != str(sender.here):
            raise SourceError(f"sender {name}: ended after {said} items, but {sender.here} arrived")
        log.info("sender %s has ended after %d items", name, sender.count)
        if self._senders is None:  # a later sender of this name starts from the beginning
            self._send(sender.link, b"B")
            self._forget(name)
        else:  # kept until the pass ends: its next epoch must not come into this one
            sender.ended = True

    def _forget(self, name: str) -> None:
        self._names.pop(self._joined.pop(name).link, None)

    def _count_ended(self) -> int:
        return sum(sender.ended for sender in self._joined.values())

    def _send(self, link: Link, *frames: bytes) -> bool:
        """Send without waiting; return whether the peer is connected."""
        socket, peer = link
        try:
            socket.send_multipart([peer, *frames], self._zmq.NOBLOCK)
        except self._zmq.ZMQError:  # gone, or it does not read what it is told
            return False
        return True

    def _log_once(self, text: str, *args: object) -> None:
        if text not in self._logged:
            self._logged.add(text)
            log.warning(f"{text} (not logged again in this pass)", *args)


def _find_address(frame: Any) -> str:
    try:
        return str(frame.get("Peer-Address")) or "a local peer"
    except Exception:  # noqa: BLE001 - what has no address raises one error or another
        return "a local peer"
