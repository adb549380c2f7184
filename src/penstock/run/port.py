"""One end of a conversation between two processes of ours: Python objects in, the same out.

Guaranteed: large arrays travel through shared memory, copied once by the sender and not at all by
the receiver; an array that the receiver holds is never overwritten; a message is sent whole or
not at all, and is never larger than the socket takes.

Pickle is used between a process and its own children only, never on bytes from elsewhere.
"""

from __future__ import annotations

import io
import pickle
import socket
import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.run.segment import Blocks, Segment

INLINE = 512  # bytes: what is smaller goes with the message itself
ALIGN = 64
KEEP = 64 << 20  # bytes of shared memory that one end may hold before it is given copies
# The longest message is about 1.2 KB; so many of them are below what a socket's buffer holds, so
# that an end which never has more under way never blocks.
MAX_IN_FLIGHT = 64
MAX_PARTS = 64  # buffers and releases that one message lists, which bounds its size
SEND_BUFFER = 1 << 18
_MESSAGE = 1 << 14  # bytes: more than any message is long
_PLAIN = frozenset("biufcSUmM")  # dtypes whose `str` says everything about them


class Port:
    """A connected socket with a segment for each direction. One thread at a time."""

    def __init__(self, connection: socket.socket, outgoing: Segment, incoming: Segment) -> None:
        self.connection = connection
        self._outgoing = outgoing
        self._incoming = incoming
        self._blocks = Blocks(outgoing)
        self._leases: dict[int, weakref.ref[npt.NDArray[np.uint8]]] = {}
        self._kept = 0
        self._released: deque[tuple[int, int]] = deque()

    def __reduce__(self) -> Any:  # only before first use: what was received stays here
        return Port, (self.connection, self._outgoing, self._incoming)

    def send(self, number: int, value: Any) -> None:
        """Send `value` under a number of the caller's choice. Raises what pickling it raises."""
        self.connection.sendall(self.pack(number, value))

    def try_send(self, message: bytes) -> bool:
        """Send what `pack` made, or say False where that would have to wait."""
        try:
            self.connection.send(message, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return True

    def pack(self, number: int, value: Any) -> bytes:
        """The message for `value`: its large parts are in shared memory, so it is short."""
        body, buffers = dump(value)
        frames = [buffer.raw() for buffer in buffers]
        if len(body) > INLINE:
            frames.append(memoryview(body))
            body = b""
        offset, sizes = self._write(frames) if frames else (-1, [])
        message = (number, body, offset, sizes, self._collect_released())
        return pickle.dumps(message, 5)

    def receive(self) -> tuple[int, Any] | None:
        """The next (number, value), or None when the other end has closed."""
        try:
            message = self.connection.recv(_MESSAGE)
        except ConnectionResetError:  # it died with messages of ours unread
            return None
        if not message:
            return None
        number, body, offset, sizes, released = pickle.loads(message)
        for block in released:
            self._blocks.give_back(block)
        if not sizes:
            return number, pickle.loads(body)
        frames = self._read(offset, sizes)
        return number, pickle.loads(body or frames.pop(), buffers=frames)

    def close(self) -> None:
        """End the conversation: the other end receives None, whoever else inherited the socket."""
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other end went first
            pass
        self.connection.close()
        self._outgoing.close()
        self._incoming.close()

    def close_here(self) -> None:
        """Let go of an end that a child process has taken over; the conversation goes on."""
        self.connection.close()

    def _write(self, frames: list[memoryview]) -> tuple[int, list[int]]:
        sizes = [frame.nbytes for frame in frames]
        offset = self._blocks.take(sum(map(_align, sizes)))
        begin = offset
        for frame, size in zip(frames, sizes):
            self._outgoing.view(begin, size)[:] = np.frombuffer(frame, np.uint8)
            begin += _align(size)
        return offset, sizes

    def _read(self, offset: int, sizes: list[int]) -> list[memoryview]:
        size = sum(map(_align, sizes))
        block = self._incoming.view(offset, size)
        if self._kept + size > KEEP:
            block = block.copy()
            self._released.append((offset, 0))
        else:
            self._kept += size
            self._leases[offset] = weakref.ref(block, self._make_release(offset, size))
        whole, frames, begin = block.data, [], 0
        for frame_size in sizes:
            frames.append(whole[begin : begin + frame_size])
            begin += _align(frame_size)
        return frames

    def _make_release(self, offset: int, size: int) -> Callable[[object], None]:
        # Called in any thread when the last array over the block is dropped: appends, no more.
        def release(_: object) -> None:
            del self._leases[offset]
            self._released.append((offset, size))

        return release

    def _collect_released(self) -> list[int]:
        offsets = []
        for _ in range(min(len(self._released), MAX_PARTS)):
            offset, size = self._released.popleft()
            self._kept -= size
            offsets.append(offset)
        return offsets


def make_ports() -> tuple[Port, Port]:
    """Two connected ports: keep one, give the other to the child process."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (here, there):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    first, second = Segment(), Segment()
    return Port(here, first, second), Port(there, second, first)


def dump(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """The pickle of `value` and, apart from it, its large buffers."""
    out = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < INLINE or len(buffers) == MAX_PARTS:
            return True
        buffers.append(buffer)
        return False

    _Pickler(out, 5, buffer_callback=keep_inside).dump(value)
    return out.getvalue(), buffers


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray and value.size and value.dtype.kind in _PLAIN:
            return _reduce_array(value)
        torch = sys.modules.get("torch")
        if torch is not None and type(value) is torch.Tensor:
            try:
                return _make_tensor, (value.numpy(),)
            except (RuntimeError, TypeError):  # on a device, with a gradient, bfloat16, …
                pass
        return NotImplemented


def _reduce_array(array: npt.NDArray[Any]) -> Any:
    """A third of the time of NumPy's own, and apart from the pickle for strided arrays too."""
    order = "F" if array.flags.fnc else "C"
    whole: Any = array if array.flags.forc else np.ascontiguousarray(array)
    return _make_array, (pickle.PickleBuffer(whole), array.dtype.str, array.shape, order)


def _make_array(buffer: Any, dtype: str, shape: tuple[int, ...], order: Any) -> npt.NDArray[Any]:
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


def _make_tensor(array: npt.NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(array)


def _align(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
