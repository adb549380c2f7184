"""Strangers at a receiver without keys: whatever they send, the pass is unharmed and memory stays flat."""

from __future__ import annotations

import logging
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

zmq = pytest.importorskip("zmq")

from flow.test_remote import Sender, address, no_thread_is_left
from flow.wire_peer import Peer
from headrace import Flow
from headrace.errors import SourceError
from headrace.flow.remote import send
from headrace.flow.remote.wire import encode_item

MB = 1 << 20
ITEM = [b"I", b"99"]
__all__ = ["address", "no_thread_is_left"]  # fixtures


def measure_memory() -> int:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@contextmanager
def open_peer(address: str) -> Iterator[Any]:
    """A raw socket that is connected and keeps nothing when it is closed."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.connect(address)
        yield peer


def receive_beside(address: str, messages: list[list[bytes]], strangers: int = 1) -> list[Any]:
    """What arrives of a true sender that goes on when all messages of the strangers were heard."""
    heard = threading.Event()
    sender = Sender(Flow.of(range(5)).map(lambda n: heard.wait(30) and n), address)
    with zmq.Context() as context:
        peers = [context.socket(zmq.DEALER) for _ in range(strangers)]
        talk = threading.Thread(target=talk_until_heard, args=(peers, address, messages, heard))
        talk.start()
        items = list(Flow.receive(address))
        talk.join()
        for peer in peers:
            peer.close(0)
    assert sender.join() == 5
    return items


def talk_until_heard(
    peers: list[Any], address: str, messages: list[list[bytes]], heard: threading.Event
) -> None:
    """Send the messages and one more hello each; all were heard when all hellos are answered."""
    messages = [*messages, [b"H", b"the last word"]]
    hellos = sum(
        message[0] == b"H" and len(message) == 2 and len(message[1]) <= 256 for message in messages
    )
    for peer in peers:
        peer.connect(address)
        for message in messages:
            peer.send_multipart(message)
    for peer in peers:
        for _ in range(hellos):
            if peer.poll(20_000):
                peer.recv_multipart()
    heard.set()


@pytest.mark.parametrize(
    "messages",
    [
        [[b"H", b"stranger"], [b"E", b""]],
        [[b"H", b"stranger"], [b"E", b"0"]],
        [[b"E", b""]],
        [[b"H", b"stranger"], [b"F", b"boo"]],
        [[b"H", b"stranger"], [b"I", b"not json"]],
        [[b"H", b"stranger"], [b"I"]],
        [[b"H", b"stranger"], ITEM],
        [[b"J"], [b"J", b"token"], [b"J", b"\xff" * 32, b"stranger", b"1"], ITEM, [b"E", b"1"]],
        [[b"H"], [b"H", b"", b"", b""], [b""], [b"", b""], [b"\xff" * 1000] * 50, [b"?"]],
        [[b"H", b"x" * 100_000], [b"H", b"\xff\xfe"], ITEM, [b"E", b""]],
    ],
)
def test_a_stranger_does_not_harm_the_pass(address: str, messages: list[list[bytes]]) -> None:
    assert receive_beside(address, messages) == [0, 1, 2, 3, 4]


def test_a_stranger_is_mentioned_once(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headrace"):
        receive_beside(address, [[b"I", b"not json"]] * 20)
    (record,) = caplog.records
    assert "a peer that is not one of its senders" in record.getMessage()
    assert "127.0.0.1" in record.getMessage()


def item(value: Any) -> list[bytes]:
    return [b"I", *map(bytes, encode_item(value))]


def test_one_sender_too_many_does_not_end_the_pass(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()
    first = Sender(Flow.of(range(9)).map(lambda n: n if n < 5 else ended.wait(30) and n), address)
    received = iter(Flow.receive(address, buffer=4))
    assert next(received) == 0
    with caplog.at_level(logging.WARNING, "headrace"), open_peer(address) as second:
        answers = threading.Thread(target=join_and_end, args=(second, ended))
        answers.start()
        assert list(received) == list(range(1, 9))
        answers.join()
    assert first.join() == 9
    assert "'second' wants to send" in caplog.text and "senders=1" in caplog.text


def join_and_end(peer: Any, ended: threading.Event) -> None:
    peer.send_multipart([b"H", b"second"])
    _, token, *_ = peer.recv_multipart()
    peer.send_multipart([b"J", token, b"second", b"1"])
    peer.send_multipart([b"E", b"0"])
    peer.send_multipart([b"H", b"second"])  # its answer says that what was sent before was heard
    peer.recv_multipart()
    ended.set()


def test_an_end_that_does_not_fit_what_arrived_is_an_error(address: str) -> None:
    error = pytest.raises(SourceError, match="sender first: ended after 5 items, but 1 arrived")
    with Peer(address, "first", item(0), [b"E", b"5"]), error:
        list(Flow.receive(address))


@pytest.mark.parametrize("message", [[b"I", b"not json"], [b"I"], [b"E", b"x"], [b"E"]])
def test_a_malformed_message_of_a_sender_is_an_error(address: str, message: list[bytes]) -> None:
    with Peer(address, "first", message), pytest.raises(SourceError, match="sender first: "):
        list(Flow.receive(address))


def test_a_sender_that_is_gone_gives_way_to_another(address: str) -> None:
    received = iter(Flow.receive(address))
    with Peer(address, "first", item(9), named=False):
        assert next(received) == 9
    again = Sender(Flow.of(range(3)), address)
    assert list(received) == [0, 1, 2]
    assert again.join() == 3


class WhenLogged(logging.Handler):
    """Does something when anything is logged."""

    def __init__(self, action: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._action = action

    def emit(self, record: logging.LogRecord) -> None:
        self._action()


def test_a_sender_that_had_to_wait_asks_again(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send, "SILENCE", 50)
    received = iter(Flow.receive(address))
    first = Peer(address, "first", item(9), named=False)
    with first, listening(WhenLogged(first.leave)):  # it goes when the second has to wait
        assert next(received) == 9
        second = Sender(Flow.of(range(3)), address)
        assert list(received) == [0, 1, 2]
    assert second.join() == 3


@contextmanager
def listening(handler: logging.Handler) -> Iterator[None]:
    log = logging.getLogger("headrace")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def test_a_named_sender_that_is_gone_keeps_its_place(address: str) -> None:
    received = iter(Flow.receive(address))
    with Peer(address, "reader-1", item(0)):
        assert next(received) == 0
    joined = threading.Event()
    flow = Flow.of(range(3)).map(lambda n: joined.wait(30) and n)
    again = Sender(flow, address, name="reader-1")
    with open_peer(address) as other:
        answers = threading.Thread(target=join_and_end, args=(other, joined))
        answers.start()
        assert list(received) == [1, 2]
        answers.join()
    assert again.join() == 2


def flood(address: str, ready: Any, messages: list[list[bytes]], times: int, join: bool) -> None:
    """Say hello and send, whatever the credit, until all is sent or nobody reads on."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger, peer.sndhwm, peer.sndtimeo = 0, 2, 500
        peer.connect(address)
        peer.send_multipart([b"H", b"flood"])
        if join:
            _, token, *_ = peer.recv_multipart()
            peer.send_multipart([b"J", token, b"flood", b"1"])
        try:
            for _ in range(times):
                for message in messages:
                    peer.send_multipart(message)
        except zmq.Again:
            pass
        ready.send(None)
        ready.recv()


@contextmanager
def flooding(address: str, *args: Any) -> Iterator[Any]:
    """A process that floods a receiver; its pipe says when nothing more goes."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    stranger = context.Process(target=flood, args=(address, there, *args))
    stranger.start()
    try:
        yield here
    finally:
        stranger.kill()
        stranger.join()


def grow_beside(address: str, messages: list[list[bytes]], times: int, **options: Any) -> int:
    """By how much memory grows while a stranger floods a receiver whose consumer is slow."""
    sender = Sender(Flow.of(range(100)), address)
    received = iter(Flow.receive(address, buffer=4, **options))
    assert next(received) == 0
    before = measure_memory()
    with flooding(address, messages, times, False) as pipe:
        pipe.recv()
        grown = measure_memory() - before
        assert list(received) == list(range(1, 100))
        assert sender.join() == 100
    return max(grown, measure_memory() - before)


@pytest.mark.parametrize(
    ("message", "times"), [([b"I", bytes(MB)], 400), ([b"H", bytes(MB)], 400), ([b"H", b"x"], 9999)]
)
def test_memory_stays_flat_under_a_flood(address: str, message: list[bytes], times: int) -> None:
    assert grow_beside(address, [message], times) < 50 * MB


def test_a_sender_that_ignores_its_credit_fills_no_memory(address: str) -> None:
    received = iter(Flow.receive(address, buffer=4))
    with flooding(address, [item(bytes(MB))], 400, True) as pipe:
        assert next(received) == bytes(MB)
        before = measure_memory()
        pipe.recv()
        assert measure_memory() - before < 50 * MB
        received.close()


def test_a_message_beyond_the_largest_is_not_taken_in(address: str) -> None:
    grown = grow_beside(address, [[b"H", bytes(300 * MB)]], 3, max_message=MB)
    assert grown < 50 * MB


def test_thousands_of_hellos_are_not_remembered(address: str) -> None:
    messages = [[b"H", b"stranger-%d" % n + b"." * 200] for n in range(5000)]
    assert grow_beside(address, messages, 4) < 20 * MB


def test_many_connections_do_not_take_a_senders_place(address: str) -> None:
    messages = [[b"H", b"stranger"], [b"E", b"0"]]
    assert receive_beside(address, messages, strangers=200) == [0, 1, 2, 3, 4]


def test_an_item_that_the_receiver_would_not_take_is_an_error_at_both_ends(address: str) -> None:
    sender = Sender(Flow.of([b"small", bytes(2 * MB)]), address)
    received = iter(Flow.receive(address, max_message=MB))
    assert next(received) == b"small"
    with pytest.raises(Exception, match=r"item 1 has 2.* bytes.*max_message"):
        next(received)
    assert isinstance(sender.join(), ValueError)


def test_a_message_of_many_parts_is_no_larger_than_the_largest(address: str) -> None:
    message = [b"I", b"1", *[bytes(MB // 2)] * 3]
    with (
        Peer(address, "first", message),
        pytest.raises(SourceError, match="sender first: an item of 1572865 bytes.*max_message"),
    ):
        list(Flow.receive(address, max_message=MB))


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "10.0.0.1", "[::]"])
def test_without_keys_only_this_machine_is_bound_to(host: str) -> None:
    with pytest.raises(ValueError, match=r"(?s)without keys.*make_keys.*insecure=True"):
        Flow.receive(f"tcp://{host}:5555")
    Flow.receive(f"tcp://{host}:5555", insecure=True)


@pytest.mark.parametrize("value", [0, -1, "1", 1.5, None])
def test_the_largest_message_is_a_number_of_bytes(address: str, value: Any) -> None:
    with pytest.raises(ValueError, match="max_message must be an integer"):
        Flow.receive(address, max_message=value)


def test_a_receiver_that_speaks_another_protocol_is_a_clear_error(address: str) -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as other:
        other.linger = 0
        other.bind(address)
        sender = Sender(Flow.of(range(5)), address)
        peer = other.recv_multipart()[0]
        other.send_multipart([peer, b"C", b"many"])
        error = sender.join()
    assert isinstance(error, SourceError) and address in str(error)


def test_a_name_that_is_too_long_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="name must be of at most 256 bytes"):
        Flow.of([1]).send(address, name="x" * 257)
