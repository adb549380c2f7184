"""Remote flows: order, ends, errors, back-pressure, restarts, keys, and hostile messages."""

from __future__ import annotations

import multiprocessing
import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flow.functions import fail_on_seven, make_image
from headrace.testing.flow_contract import plain

zmq = pytest.importorskip("zmq")

from flow.wire_peer import Peer
from headrace import Flow
from headrace.errors import ReceiverLostError, SourceError, WorkerError
from headrace.flow.remote import protocol as remote
from headrace.flow.remote.protocol import Keys, is_local, make_keys
from headrace.flow.remote.wire import decode_item, encode_item
from headrace.work.stop import Stop


@pytest.fixture
def address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Sender:
    """A flow that is sent by a thread; `join` gives what `send` returned or raised."""

    def __init__(self, flow: Flow, *addresses: str, **options: Any) -> None:
        self._result: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(flow, addresses, options))
        self._thread.start()

    def _run(self, flow: Flow, addresses: tuple[str, ...], options: dict[str, Any]) -> None:
        try:
            self._result.append(flow.send(*addresses, **options))
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self._result.append(error)

    def join(self) -> Any:
        self._thread.join(30)
        return self._result[0]


def test_items_arrive_once_and_in_order(address: str) -> None:
    sender = Sender(Flow.of(range(200)), address)
    assert list(Flow.receive(address)) == list(range(200))
    assert sender.join() == 200


def test_the_epoch_that_was_set_is_sent(address: str) -> None:
    flow = Flow.of(range(20)).shuffle(seed=1)
    flow.set_epoch(3)
    sender = Sender(flow, address)
    assert list(Flow.receive(address)) == list(flow)
    assert sender.join() == 20


def test_arrays_of_every_kind_arrive_unchanged(address: str) -> None:
    item = [np.arange(6, dtype=">i2").reshape(2, 3)[:, ::-1], {"a": (1, 2.5, None, True, "ä")}]
    item += [b"bytes", np.float64(0.1), np.zeros((0, 4)), np.array("text"), np.array(5)]
    Sender(Flow.of([item]), address)
    (received,) = Flow.receive(address)
    assert plain(received) == plain(item)
    assert received[0].dtype == item[0].dtype and isinstance(received[1]["a"], tuple)
    received[0][:] = 0  # the consumer's own, to write to


def test_a_buffer_that_the_source_uses_again_is_sent_as_it_was(address: str) -> None:
    buffer = np.zeros(300_000, np.int32)
    flow = Flow.of(range(20)).map(lambda n: (buffer.fill(n), buffer)[1])
    sender = Sender(flow, address)
    assert [np.unique(array).tolist() for array in Flow.receive(address)] == [
        [n] for n in range(20)
    ]
    assert sender.join() == 20


def test_several_senders_end_together(address: str) -> None:
    senders = [Sender(Flow.of(range(n, n + 50)), address) for n in (0, 100, 200)]
    received = list(Flow.receive(address, senders=3))
    assert sorted(received) == [*range(50), *range(100, 150), *range(200, 250)]
    assert [sender.join() for sender in senders] == [50, 50, 50]


def test_several_receivers_share_the_items(address: str, tmp_path: Any) -> None:
    addresses = (address, f"ipc://{tmp_path}/second")
    sender = Sender(Flow.of(range(300)), *addresses)
    passes = [iter(Flow.receive(where, buffer=2)) for where in addresses]
    got: list[int] = []
    readers = [threading.Thread(target=lambda p=p: got.extend(p)) for p in passes]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert sorted(got) == list(range(300)) and sender.join() == 300


def test_a_sender_is_no_further_ahead_than_the_buffer(address: str) -> None:
    taken: list[int] = []
    flow = Flow.of(lambda: (taken.append(n) or n for n in range(1000)))
    sender = Sender(flow, address)
    received = iter(Flow.receive(address, buffer=4))
    for _ in range(10):
        next(received)
    # ten were read, four are in flight, one is in the sender's hand
    assert len(taken) <= 15
    received.close()
    assert sender.join() < 1000


def test_an_error_of_the_sender_is_raised_at_both_ends(address: str) -> None:
    sender = Sender(Flow.of(range(20)).map(fail_on_seven), address)
    with pytest.raises(WorkerError, match=r"(?s)sender .* failed: .*LookupError: seven"):
        list(Flow.receive(address))
    assert isinstance(sender.join(), WorkerError)


def test_an_item_that_cannot_be_sent_is_an_error(address: str) -> None:
    sender = Sender(Flow.of([1, object()]), address)
    with pytest.raises(WorkerError, match="item 1 cannot be sent: it is of type object"):
        list(Flow.receive(address))
    assert isinstance(sender.join(), TypeError)


def test_a_sender_that_has_failed_is_not_written_to(address: str) -> None:
    with Peer(address, "reader-1", [b"F", b"out of film"]) as sender:
        with pytest.raises(WorkerError, match="sender reader-1 failed: out of film"):
            list(Flow.receive(address))
        assert sender.joined.wait(30) and sender.hear()[0] == b"C"
        assert not sender.socket.poll(0)


def test_a_failure_with_a_long_traceback_arrives(address: str) -> None:
    def fail(n: int) -> None:
        raise LookupError("x" * 200_000)

    sender = Sender(Flow.of(range(3)).map(fail), address)
    with pytest.raises(WorkerError, match="LookupError"):
        list(Flow.receive(address, max_message=1))
    assert isinstance(sender.join(), WorkerError)


def test_a_pass_ends_though_zeromq_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, destroy = threading.Event(), zmq.Context.destroy
    monkeypatch.setattr(zmq.Context, "destroy", lambda *args: let_go.wait() and destroy(*args))
    monkeypatch.setattr(remote, "LINGER", -900)
    with remote.open_sockets():
        pass
    let_go.set()


def test_a_restarted_sender_goes_on_where_the_receiver_is(address: str) -> None:
    received = iter(Flow.receive(address, buffer=4))
    items = [[b"I", *encode_item(n)] for n in range(5)]
    with Peer(address, "reader-1", *items):
        assert [next(received) for _ in range(3)] == [0, 1, 2]
    # killed, with two items in flight
    sender = Sender(Flow.of(range(10)), address, name="reader-1")
    assert list(received) == list(range(3, 10))
    assert 5 <= sender.join() <= 7


@contextmanager
def receive_first(address: str) -> Iterator[Iterator[Any]]:
    """A pass that has received item 0 of a sender called `reader-1`, which says no more."""
    received = iter(Flow.receive(address))
    with Peer(address, "reader-1", [b"I", *encode_item(0)]):
        assert next(received) == 0
        yield received


def test_a_restarted_sender_counts_from_where_it_went_on(address: str) -> None:
    with receive_first(address) as received:
        sender = Sender(Flow.of([0, 1, 2, object()]), address, name="reader-1")
        with pytest.raises(WorkerError, match="item 3 cannot be sent"):
            list(received)
        assert isinstance(sender.join(), TypeError)


def test_a_named_sender_of_several_receivers_begins_again(address: str, tmp_path: Any) -> None:
    other = f"ipc://{tmp_path}/second"
    with receive_first(address) as received:
        sender = Sender(Flow.of(range(5)), address, other, name="reader-1")
        got = [list(received), list(Flow.receive(other))]
        assert (got, sender.join()) == ([[0, 1, 2, 3, 4], []], 5)


def test_a_named_sender_needs_a_flow_that_can_be_resumed() -> None:
    flow = Flow.of(range(5)).map(fail_on_seven, 2, kind="threads", ordered=False)
    with pytest.raises(ValueError, match="cannot be resumed: map"):
        flow.send("ipc://nowhere", name="reader-1")


def test_a_sender_that_ends_twice_under_its_name_has_ended_once(address: str) -> None:
    received = iter(Flow.receive(address, senders=2))
    with Peer(address, "reader-1", [b"I", *encode_item(0)], [b"E", b"1"]):
        assert next(received) == 0  # killed before it has heard that its end was read
    welcomed = threading.Event()  # when a sender begins to read its items
    again = Sender(Flow.of(lambda: welcomed.set() or iter([0])), address, name="reader-1")
    other = Sender(Flow.of(range(100, 110)).map(lambda n: welcomed.wait(30) and n), address)
    assert list(received) == list(range(100, 110))
    assert [again.join(), other.join()] == [0, 10]


def send_epochs(address: str, epochs: list[list[int]], name: str | None, may_go_on: Any) -> None:
    """Each epoch in turn; after its first item when the receiver lets it go on."""

    def hold(n: int) -> int:
        if may_go_on is not None and n % 1000 == 1:
            may_go_on.recv()
        return n

    for epoch in epochs:
        Flow.of(epoch).map(hold).send(address, name=name)


@pytest.mark.parametrize("names", [("quick", "slow"), (None, None)])
def test_senders_of_several_epochs_wait_for_the_slowest(address: str, names: Any) -> None:
    context = multiprocessing.get_context("spawn")
    let_go, may_go_on = context.Pipe()
    quick = [[low + n for n in range(5)] for low in (0, 1000, 2000)]
    slow = [[low + n for n in range(500)] for low in (10_000, 11_000, 12_000)]
    sent = [(quick, names[0], None), (slow, names[1], may_go_on)]
    nodes = [context.Process(target=send_epochs, args=(address, *args)) for args in sent]
    for node in nodes:
        node.start()
    try:
        for early, late in zip(quick, slow):
            got = []
            for n in Flow.receive(address, senders=2, buffer=1):
                got.append(n)
                if n == early[-1]:
                    let_go.send(None)  # the quick one has given all that it has
            assert sorted(got) == early + late
    finally:
        for node in nodes:
            node.kill()
            node.join()


def test_a_named_sender_of_an_endless_receiver_sends_every_epoch(address: str) -> None:
    def send_twice() -> None:
        for epoch in ([0, 1, 2], [3, 4, 5]):
            Flow.of(epoch).send(address, name="reader-1")

    node = threading.Thread(target=send_twice, daemon=True)
    node.start()
    received = iter(Flow.receive(address, senders=None))
    assert [next(received) for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    received.close()
    node.join()


def test_a_sender_whose_name_is_taken_over_is_told(address: str) -> None:
    taken_over = threading.Event()
    flow = Flow.of(range(20)).map(lambda n: n if n < 3 else (taken_over.wait(30), n)[1])
    first = Sender(flow, address, name="reader-1")
    received = iter(Flow.receive(address, buffer=4))
    assert [next(received) for _ in range(3)] == [0, 1, 2]
    second = Sender(Flow.of(range(20)), address, name="reader-1")
    assert next(received) == 3
    taken_over.set()
    error = first.join()
    assert isinstance(error, ReceiverLostError) and "another one came under the same name" in str(
        error
    )
    assert list(received) == list(range(4, 20))
    assert second.join() == 17


def receive_endlessly(address: str, reached: Any) -> None:
    for n in Flow.receive(address, senders=None):
        if n == 20:
            reached.send(n)


@pytest.mark.parametrize("name", [None, "reader-1"])
def test_a_receiver_that_is_killed_is_an_error_at_the_sender(address: str, name: Any) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    receiver = context.Process(target=receive_endlessly, args=(address, there))
    receiver.start()
    flow = Flow.of(range(21)).concat(Flow.of([0]).repeat()) if name is None else Flow.of(range(21))
    sender = Sender(flow.repeat(), address, name=name)
    assert here.recv() == 20
    receiver.kill()
    receiver.join()
    error = sender.join()
    assert isinstance(error, ReceiverLostError) and address in str(error)


def test_a_sender_waits_through_a_receiver_that_dies_before_it_speaks(address: str) -> None:
    context = zmq.Context()
    deaf = context.socket(zmq.ROUTER)
    deaf.bind(address)
    sender = Sender(Flow.of(range(5)), address)
    assert deaf.recv_multipart()[1] == b"H"
    context.destroy(0)
    assert list(Flow.receive(address)) == list(range(5))
    assert sender.join() == 5


def test_a_receiver_that_is_prefetched_can_be_left(address: str) -> None:
    sender = Sender(Flow.of(range(3)).concat(Flow.of([9]).repeat()), address)
    for item in Flow.receive(address, senders=None).prefetch(2).prefetch(2):
        if item == 9:
            break
    assert isinstance(sender.join(), int)


def test_a_prefetched_receiver_without_senders_can_be_left(address: str) -> None:
    thread_count = threading.active_count()
    flow = Flow.of([1]).concat(Flow.receive(address)).prefetch(2).prefetch(2)
    assert next(iter(flow)) == 1
    assert threading.active_count() == thread_count


def test_a_stop_that_a_forked_process_sets_is_not_its_parents() -> None:
    stop = Stop()
    pid = os.fork()
    if not pid:
        stop.set()
        os._exit(0)
    os.waitpid(pid, 0)
    poll = select.poll()
    poll.register(stop.fd, select.POLLIN)
    assert not stop.is_set() and not poll.poll(0)
    stop.close()


def send_endlessly(address: str) -> None:
    Flow.of([-1]).repeat().send(address)


def test_keys_encrypt_and_a_sender_without_them_is_not_heard(address: str) -> None:
    keys = make_keys()
    stranger = multiprocessing.get_context("spawn").Process(target=send_endlessly, args=(address,))
    stranger.start()
    friend = Sender(Flow.of(range(5)), address, receiver_key=keys.public)
    try:
        assert list(Flow.receive(address, keys=keys)) == list(range(5))
    finally:
        stranger.kill()  # it would wait to be let in for ever
        stranger.join()
    assert friend.join() == 5
    assert "secret" not in repr(keys)


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("tcp://127.0.0.1:1", True),
        ("tcp://[::1]:1", True),
        ("ipc://x", True),
        ("tcp://*:1", False),
        ("tcp://10.0.0.1:1", False),
        ("tcp://eth0:1", False),
    ],
)
def test_what_is_local(address: str, local: bool) -> None:
    assert is_local(address) is local


def test_an_address_in_use_is_a_clear_error(address: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(address.rpartition(":")[2])))
        taken.listen()
        with pytest.raises(SourceError, match="cannot receive on"):
            list(Flow.receive(address))


def use_address(verb: str, *addresses: Any) -> None:
    if verb == "send":
        Flow.of([1]).send(*addresses)
    else:
        Flow.receive(*addresses)


both_ends = pytest.mark.parametrize("verb", ["send", "receive"])


@both_ends
@pytest.mark.parametrize("port", [":0", ":99999", ":-1", ":*", ":", ""])
def test_an_address_without_a_port_of_its_own_is_refused(verb: str, port: str) -> None:
    with pytest.raises(ValueError, match="needs a port from 1 to 65535"):
        use_address(verb, f"tcp://127.0.0.1{port}")


@both_ends
@pytest.mark.parametrize("address", ["inproc://x", 5555, "127.0.0.1:5555", "", None])
def test_an_address_that_no_other_process_can_reach_is_refused(verb: str, address: Any) -> None:
    with pytest.raises(ValueError, match=f"begins with tcp:// or ipc://.*, not {address!r}"):
        use_address(verb, address)


@both_ends
def test_there_must_be_an_address(verb: str) -> None:
    with pytest.raises(ValueError, match=f"{verb} needs at least one address"):
        use_address(verb)


def test_ipv6_addresses_are_heard() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            address = f"tcp://[::1]:{probe.getsockname()[1]}"
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    sender = Sender(Flow.of(range(5)), address)
    assert list(Flow.receive(address)) == list(range(5)) and sender.join() == 5


@pytest.mark.parametrize("key", [b"short", "a" * 40])
def test_a_key_that_is_none_is_refused(address: str, key: Any) -> None:
    with pytest.raises(ValueError, match="receiver_key must be a key of 40 bytes"):
        Flow.of([1]).send(address, receiver_key=key)
    with pytest.raises(ValueError, match="secret must be a key of 40 bytes"):
        Keys(make_keys().public, key)


def test_a_remote_flow_cannot_be_resumed(address: str) -> None:
    with pytest.raises(ValueError, match="cannot be resumed: receive"):
        Flow.receive(address).batch(2).state_dict()


@pytest.mark.parametrize(
    "frames",
    [
        [b"not json"],
        [b'["a","|u1",[3]]'],
        [b'["a","|u1",[3]]', b"1234"],
        [b'["a","|u1",[3]]', b""],
        [b'["a","|O",[1]]', b"12345678"],
        [b'["a","|u1",[-1]]', b"1"],
        [b'["a","|u1","x"]', b"1"],
        [b'["z"]'],
        [b"[]"],
        [b"1", b"left over"],
        [b"[" * 100_000],
        [b'["d",[["l"],1]]'],
        [b'["a","|u1",[0,1000000000000000000000000000000]]', b""],
        [],
    ],
)
def test_what_is_not_an_item_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_item(frames)


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=50)
@given(plain_values)
def test_the_wire_keeps_every_plain_value(value: Any) -> None:
    assert decode_item(encode_item(value)) == value


def test_empty_text_goes_over_the_wire_as_it_is() -> None:
    for value in (np.str_(""), np.bytes_(b"")):
        received = decode_item(encode_item(value))
        assert received == value and type(received) is type(value)
    assert decode_item([b'["a","<U0",[2]]', b""]).tolist() == ["", ""]
    with pytest.raises(ValueError, match="of nothing"):
        decode_item([b'["a","<U0",[1000000,1000000]]', b""])
    with pytest.raises(ValueError, match="<U0 in 4 bytes"):
        decode_item([b'["s","<U0","61000000"]'])


def test_images_go_through_a_whole_pipeline(address: str) -> None:
    sender = Sender(Flow.of(range(10)).map(make_image, 2, start="fork"), address)
    batches = list(Flow.receive(address).batch(4))
    assert [batch[:, 0, 0, 0].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert sender.join() == 10


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in (
        set(threading.enumerate()) - before
    ):  # some end a moment after what they worked for
        thread.join(30)
        assert not thread.is_alive(), f"{thread} is left"
