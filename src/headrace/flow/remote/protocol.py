"""Flows between machines, over ZeroMQ: any number of senders, one or more receivers.

A receiver binds, senders connect. Guaranteed: a sender is never more than the receiver's `buffer`
items ahead of its consumer; a pass ends when all senders have said so, and each `send` with it, so
that epochs do not mix; a sender's error is raised at the receiver; a sender that was restarted under
its own `name` goes on after the last item that arrived, if it has one receiver; a sender whose receiver
was killed or cut off, or hears another one under the same name instead, raises ReceiverLostError;
nothing that arrives is ever executed (see `wire`); whoever has not joined is ignored, and what they
send takes a bounded amount of memory per connection.

Messages, first frame: from a sender H (hello: name), J (join: token, name, whether the user chose
the name), I (item), E (end: how many items this connection has carried), F (failure: text); from a
receiver W (welcome: token, bytes of the largest message), P (place: how many items it has of this
name), C (credit: how many more to send), B (bye: its pass has ended), R (replaced: another sender
joined under this name). A hello leaves nothing behind at the receiver: the token proves that whoever
joins has read the welcome of this pass on this connection.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import MissingExtraError, SourceError

LINGER = 2000  # milliseconds that a closing socket may use to deliver its last words
HEARTBEAT, SILENCE = 5000, 30_000  # milliseconds: ask that often; after so long a peer is gone
MAX_MESSAGE = 256 << 20  # bytes of one item, unless the receiver says otherwise
MAX_NAME = 256  # bytes
MAX_WORDS = 1 << 16  # bytes of a message that is not an item
MAX_SENDERS = 1024  # at once, of a receiver that does not say how many it waits for


@dataclass(frozen=True)
class Keys:
    """A CURVE key pair. The receiver keeps `secret`; senders are given `public`."""

    public: bytes
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_key("public", self.public)
        check_key("secret", self.secret)


def make_keys() -> Keys:
    """Make a new key pair for a receiver."""
    return Keys(*import_zmq().curve_keypair())


@contextmanager
def open_sockets() -> Iterator[tuple[Any, Callable[[int], Any]]]:
    """Yield ZeroMQ and a maker of sockets, all closed at the end. One context per pass: fork-safe."""
    zmq = import_zmq()
    context = zmq.Context()

    def make_socket(kind: int) -> Any:
        socket = context.socket(kind)
        socket.set_hwm(0)  # a sender keeps to its credit; ZeroMQ must not drop or block
        socket.heartbeat_ivl, socket.heartbeat_timeout = HEARTBEAT, SILENCE
        return socket

    try:
        yield zmq, make_socket
    finally:
        # libzmq 4.3.5 may wait for ever, whatever the linger, for a ROUTER that has written to a
        # peer in the moment of its leaving. Then its threads are left behind instead.
        closing = threading.Thread(target=context.destroy, args=(LINGER,), daemon=True)
        closing.start()
        closing.join(LINGER / 1000 + 1)


def bind(socket: Any, address: str, keys: Keys | None) -> None:
    """Accept senders at `address`; with keys, only those that know the public key."""
    if keys is not None:
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret
    socket.ipv6 = has_ipv6(address)
    try:
        socket.bind(address)
    except import_zmq().ZMQError as error:
        raise SourceError(f"cannot receive on {address}: {error}") from error


def connect(socket: Any, address: str, receiver_key: bytes | None) -> None:
    """Connect to a receiver, in the background if there is none yet."""
    zmq = import_zmq()
    if receiver_key is not None:
        check_key("receiver_key", receiver_key)
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_serverkey = receiver_key
    socket.ipv6 = has_ipv6(address)
    try:
        socket.connect(address)
    except zmq.ZMQError as error:
        raise SourceError(f"cannot send to {address}: {error}") from error


def check_addresses(verb: str, addresses: tuple[str, ...]) -> None:
    """Raise ValueError unless there are addresses, each tcp:// with a port or ipc://."""
    if not addresses:
        raise ValueError(f"{verb} needs at least one address, such as tcp://127.0.0.1:5555")
    for address in addresses:
        scheme, _, rest = str(address).partition("://")
        if scheme not in ("tcp", "ipc"):
            raise ValueError(
                f"an address begins with tcp:// or ipc://, as in tcp://127.0.0.1:5555, not {address!r}"
            )
        port = rest.rpartition(":")[2]
        if scheme == "tcp" and not (port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"{address} needs a port from 1 to 65535, as in tcp://127.0.0.1:5555")


def check_exposure(addresses: tuple[str, ...], keys: Keys | None, insecure: bool) -> None:
    """Raise ValueError if other machines could send without keys, unless `insecure`."""
    exposed = [address for address in addresses if not is_local(address)]
    if exposed and keys is None and not insecure:
        raise ValueError(
            f"receive on {exposed[0]} without keys: anyone who can reach this address could send items "
            "into this flow; pass keys=make_keys() (from headrace.flow) and give senders "
            "receiver_key=keys.public, or bind to 127.0.0.1, or pass insecure=True in a network that "
            "you trust"
        )


def check_name(name: str) -> None:
    """Raise ValueError if receivers would ignore this name."""
    length = len(name.encode())
    if not 0 < length <= MAX_NAME:
        raise ValueError(f"name must be of at most {MAX_NAME} bytes and not empty, not {length}")


def check_key(name: str, key: bytes) -> None:
    """Raise ValueError unless `key` has the form of a key from `make_keys`."""
    if not isinstance(key, bytes) or len(key) != 40:
        length = f" of {len(key)}" if isinstance(key, bytes) else ""
        raise ValueError(
            f"{name} must be a key of 40 bytes, as make_keys() makes them, not {type(key).__name__}{length}"
        )


def has_ipv6(address: str) -> bool:
    """Return whether an address is an IPv6 literal; host names are resolved in IPv4.

    intentional: ZeroMQ tries one address of a name, and who binds to 0.0.0.0 is not at its IPv6 one.
    """
    return address.startswith("tcp://[")


def is_local(address: str) -> bool:
    """Return whether only this machine can reach an address that is bound."""
    scheme, _, rest = address.partition("://")
    if scheme == "ipc":
        return True
    host = rest.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name or an interface; "*" is all of them
        return host in ("localhost", "lo")


def import_zmq() -> Any:
    """Import pyzmq, or raise MissingExtraError."""
    try:
        import zmq
    except ImportError as error:
        raise MissingExtraError("zmq", "zmq") from error
    return zmq
