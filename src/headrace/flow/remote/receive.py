"""receive: a stage that binds to addresses and yields what its senders send (see `receiver`)."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.flow.remote.protocol import Keys, bind, open_sockets
from headrace.flow.remote.receiver import Receiver
from headrace.flow.stage import At, Items, Length, Opener, Stage


@dataclass(frozen=True)
class Receive(Stage):
    """Items of `senders` senders as they arrive, until all have ended; without end if None."""

    addresses: tuple[str, ...]
    senders: int | None
    buffer: int
    keys: Keys | None
    max_message: int
    place = "other machines"
    order = "kept within each sender"
    unrepeatable = "the items depend on its senders"

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with open_sockets() as (zmq, make_socket):
            receiver = Receiver(zmq, self.senders, self.buffer, self.max_message)
            for address in self.addresses:
                socket = make_socket(zmq.ROUTER)
                receiver.add(socket)
                bind(socket, address, self.keys)
            if at.stop is not None:
                receiver.poller.register(at.stop.fd, zmq.POLLIN)
            try:
                yield from receiver.receive()
            finally:
                receiver.say_goodbye()

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None

    @property
    def name(self) -> str:
        return f"receive({', '.join(self.addresses)})"
