"""tensorpack's remote DataFlows, over Headrace's wire format: arrays as raw frames, never pickle."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import NoReturn

from headrace.compat.tensorpack.dataflow import DataFlow, Shell, as_flow
from headrace.errors import ReceiverLostError
from headrace.flow.flow import Flow
from headrace.flow.remote.protocol import Keys, is_local


def send_dataflow_zmq(
    df: DataFlow,
    addr: str,
    hwm: int = 50,
    format: str | None = None,
    bind: bool = False,
    *,
    receiver_key: bytes | None = None,
) -> NoReturn:
    """Send `df` over and over to the receiver at `addr`, encrypted with `receiver_key`. Never returns."""
    if format is not None:
        raise ValueError(f"format {format!r} was for TensorFlow operators; leave it out")
    if bind:
        raise ValueError("senders connect and receivers bind: use RemoteDataZMQ(addr) to bind")
    while True:  # when a receiver has left or died, the next one is waited for
        with suppress(ReceiverLostError):
            as_flow(df).repeat().send(addr, receiver_key=receiver_key)


class RemoteDataZMQ(Shell):
    """What arrives at one or two addresses from any number of senders. Does not end.

    intentional: it binds to any address without keys, as the original does, and only warns.
    """

    def __init__(
        self,
        addr1: str,
        addr2: str | None = None,
        hwm: int = 50,
        bind: bool = True,
        *,
        keys: Keys | None = None,
    ) -> None:
        if not bind:
            raise ValueError("receivers bind and senders connect: use send_dataflow_zmq(df, addr)")
        self._addr1, self._addr2, self._hwm, self._bind = addr1, addr2, hwm, bind
        addresses = [addr for addr in (addr1, addr2) if addr is not None]
        flow = Flow.receive(*addresses, senders=None, buffer=hwm, keys=keys, insecure=True)
        exposed = [addr for addr in addresses if not is_local(addr)]
        if exposed and keys is None:
            warnings.warn(
                f"receiving on {exposed[0]} without keys: anyone who can reach this address can send "
                "data into this training; pass keys=make_keys() from headrace.flow, and "
                "receiver_key=keys.public to send_dataflow_zmq",
                stacklevel=2,
            )
        super().__init__(flow)
