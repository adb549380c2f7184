"""The receiving end of a remote flow: a stage that binds and gives what its senders send (see `desk`)."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.run.desk import Desk
from headrace.run.remote import Keys, bind, open_sockets
from headrace.run.stage import At, Items, Length, Opener, Stage


@dataclass(frozen=True)
class Receive(Stage):
    """Items of `senders` senders as they arrive, until all have ended; without end if None."""

    addresses: tuple[str, ...]
    senders: int | None
    buffer: int
    keys: Keys | None
    max_message: int
    place = "other machines"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with open_sockets() as (zmq, make_socket):
            desk = Desk(zmq, self.senders, self.buffer, self.max_message)
            for address in self.addresses:
                socket = make_socket(zmq.ROUTER)
                desk.add(socket)
                bind(socket, address, self.keys)
            if at.stop is not None:
                desk.poller.register(at.stop.fd, zmq.POLLIN)
            try:
                yield from desk.receive()
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
