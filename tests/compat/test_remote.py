"""tensorpack's remote DataFlows: what they bind to, and with which keys."""

from __future__ import annotations

import multiprocessing
import socket
import warnings

import pytest

pytest.importorskip("zmq")

from headrace.compat.tensorpack import DataFromList, RemoteDataZMQ, send_dataflow_zmq
from headrace.flow.remote.protocol import make_keys


def test_a_receiver_for_other_machines_warns_unless_it_has_keys() -> None:
    with pytest.warns(UserWarning, match="anyone who can reach this address"):
        RemoteDataZMQ("tcp://0.0.0.0:5555")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RemoteDataZMQ("tcp://0.0.0.0:5555", keys=make_keys())
        RemoteDataZMQ("tcp://127.0.0.1:5555", "ipc://second")


def send_numbers(address: str, key: bytes) -> None:
    send_dataflow_zmq(DataFromList([[1], [2]], shuffle=False), address, receiver_key=key)


def test_a_dataflow_is_received_with_keys() -> None:
    keys = make_keys()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    context = multiprocessing.get_context("spawn")
    sender = context.Process(target=send_numbers, args=(address, keys.public))
    sender.start()
    try:
        received = iter(RemoteDataZMQ(address, keys=keys))
        assert [next(received) for _ in range(3)] == [[1], [2], [1]]
        received.close()
    finally:
        sender.kill()
        sender.join()
