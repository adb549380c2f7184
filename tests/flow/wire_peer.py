"""A sender made of a raw socket, which joins as the protocol asks and then says what a test wants."""

from __future__ import annotations

import threading
from typing import Any

import zmq


class Peer:
    """Joins a receiver in a thread of its own, then sends `messages`; leaves at the end of the block."""

    def __init__(self, address: str, name: str, *messages: list[bytes], named: bool = True) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.connect(address)
        self._name, self._named, self._messages = name.encode(), named, messages
        self.welcomed, self.joined = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        self._thread.join(30)
        self._context.destroy(1000)

    def _run(self) -> None:
        self.say(b"H", self._name)
        kind, token, *_ = self.hear()
        assert kind == b"W"
        self.say(b"J", token, self._name, b"1" if self._named else b"0")
        self.welcomed.set()
        for message in self._messages:
            self.say(*message)
        if self.hear()[0] == b"P":
            self.joined.set()

    def say(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def hear(self) -> list[bytes]:
        """What the receiver says next, or nothing when it is silent for long."""
        return self.socket.recv_multipart() if self.socket.poll(30_000) else [b""]
