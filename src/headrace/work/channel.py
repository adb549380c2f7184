"""Sends Python objects between a process and its child process.

Guaranteed: large arrays travel through shared memory, copied once by the sender and not at all by
the receiver; an array that the receiver holds is never overwritten; messages are short, and all
that have arrived are taken in by one system call.

Pickle is used between a process and its own children only, never on bytes from elsewhere.
"""

from __future__ import annotations

import io
import marshal
import pickle
import socket
import sys
import weakref
from collections import deque
from contextlib import ExitStack, closing
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.work.shared_memory import Blocks, Segment

INLINE = 512  # bytes: what is smaller goes with the message itself
ALIGN = 64
KEEP = 64 << 20  # bytes of shared memory that one end may hold before it is given copies;
KEEP_MESSAGES = 3  # but always room for so many messages, as large as they may be
# The longest message is about 1.2 KB; so many of them are below what a socket's buffer holds, so
# that an end which never has more in flight never blocks.
MAX_IN_FLIGHT = 64
MAX_PARTS = 64  # buffers and releases that one message lists, which bounds its size
SEND_BUFFER = 1 << 18
RECEIVE_BUFFER = 1 << 16
Number: TypeAlias = "int | tuple[int, ...]"
Arrived: TypeAlias = "tuple[Any, Any, int, list[int], list[int]]"  # number, body, place, released
_DISMISSAL = bytes(4)  # a message without content
_ATOMS = frozenset({type(None), bool, int, float, str, bytes})  # without buffers apart
_PLAIN = frozenset("biufcSUmM")  # dtypes whose `str` says everything about them


class _Lease(weakref.ref):  # type: ignore[type-arg]
    """Called when the last array over a block is dropped."""

    __slots__ = ("offset", "size")
    offset: int
    size: int


class Channel:
    """A connected socket with a segment for each direction. One thread at a time."""

    def __init__(self, connection: socket.socket, outgoing: Segment, incoming: Segment) -> None:
        self.connection = connection
        self._outgoing = outgoing
        self._incoming = incoming
        self._blocks = Blocks(outgoing)
        self._leases: dict[int, _Lease] = {}
        self._on_release = self._release
        self._kept = 0
        self._released: deque[tuple[int, int]] = deque()
        self._outbox: list[bytes] = []
        self._inbox: deque[Arrived] = deque()
        self._partial = b""
        self.dismissed = False  # the other end has closed on purpose, rather than died

    def __reduce__(self) -> Any:  # only before first use: what was received stays here
        return Channel, (self.connection, self._outgoing, self._incoming)

    def send(self, number: Number, value: Any) -> None:
        """Send `value` under a number of the caller's choice. Raises what pickling it raises."""
        self.connection.sendall(self.pack(number, value))

    def post(self, message: bytes) -> None:
        """Keep what `pack` made for the next `flush`."""
        self._outbox.append(message)

    def flush(self) -> bool:
        """Send what was posted, without waiting; return whether all of it was sent."""
        if not self._outbox:
            return True
        data = b"".join(self._outbox)
        try:
            sent = self.connection.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        self._outbox = [data[sent:]] if sent < len(data) else []
        return not self._outbox

    def pack(self, number: Number, value: Any) -> bytes:
        """Return the message for `value`: its large parts are in shared memory, so it is short."""
        body: Any
        if _is_large_array(value):  # what most items are, in a third of the time
            body, sizes = (value.dtype.str, value.shape), [value.nbytes]
            offset = self._blocks.take(value.nbytes)
            block = self._outgoing.view(offset, value.nbytes).view(value.dtype)
            block.reshape(value.shape)[...] = value
        else:
            is_atom = type(value) in _ATOMS
            body, buffers = (pickle.dumps(value, 5), []) if is_atom else dump(value)
            frames = [buffer.raw() for buffer in buffers]
            if len(body) > INLINE:
                frames.append(memoryview(body))
                body = b""
            offset, sizes = self._write(frames) if frames else (-1, [])
        released = self._collect_released() if self._released else []
        message = marshal.dumps((number, body, offset, sizes, released))
        return len(message).to_bytes(4, "little") + message

    def receive(self) -> tuple[Any, Any] | None:
        """Return the next (number, value), or None when the other end has closed."""
        while not self._inbox:
            arrived = self.drain()
            if arrived is None:
                return None
            self._inbox.extend(arrived)
        return self.open(self._inbox.popleft())

    def has_message(self) -> bool:
        """Return whether `receive` has a message without reading the socket."""
        return bool(self._inbox)

    def drain(self) -> list[Arrived] | None:
        """Wait for messages and return all of them, to be opened; None when the other end has closed."""
        try:
            data = self.connection.recv(RECEIVE_BUFFER)
        except ConnectionResetError:  # it died with messages of ours unread
            return None
        if not data:
            return None
        data, begin, arrived = self._partial + data, 0, []
        while begin + 4 <= len(data):
            end = begin + 4 + int.from_bytes(data[begin : begin + 4], "little")
            if end > len(data):
                break
            if end == begin + 4:
                self.dismissed = True
                begin = end
                continue
            message: Arrived = marshal.loads(data[begin + 4 : end])
            arrived.append(message)
            for block in message[-1]:
                self._blocks.give_back(block)
            begin = end
        self._partial = data[begin:]
        return arrived

    def open(self, message: Arrived) -> tuple[Any, Any]:
        """Return the (number, value) of a message."""
        number, body, offset, sizes, _ = message
        if not sizes:
            return number, pickle.loads(body)
        if type(body) is tuple:
            dtype, shape = body
            # `.data`: of an array that looks at another one NumPy keeps the other, not the lease.
            block = self._lease(offset, sizes[0]).data
            return number, np.frombuffer(block, dtype).reshape(shape)
        frames = self._read(offset, sizes)
        return number, pickle.loads(body or frames.pop(), buffers=frames)

    def close(self) -> None:
        """End the conversation: the other end receives None, whoever else inherited the socket."""
        try:
            if not self._outbox:
                self.connection.send(_DISMISSAL, socket.MSG_DONTWAIT)
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
        whole = self._lease(offset, sum(map(_align, sizes))).data
        frames, begin = [], 0
        for size in sizes:
            frames.append(whole[begin : begin + size])
            begin += _align(size)
        return frames

    def _lease(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """Return a block that its owner gets back when no array here uses it any more."""
        block = self._incoming.view(offset, size)
        if self._kept + size > max(KEEP, KEEP_MESSAGES * size):
            self._released.append((offset, 0))
            return block.copy()
        self._kept += size
        lease = _Lease(block, self._on_release)
        lease.offset, lease.size = offset, size
        self._leases[offset] = lease
        return block

    def _release(self, lease: Any) -> None:
        # Called in any thread when the last array over the block is dropped: it may only append.
        del self._leases[lease.offset]
        self._released.append((lease.offset, lease.size))

    def _collect_released(self) -> list[int]:
        offsets = []
        for _ in range(min(len(self._released), MAX_PARTS)):
            offset, size = self._released.popleft()
            self._kept -= size
            offsets.append(offset)
        return offsets


def open_channel() -> tuple[Channel, Channel]:
    """Return two connected ends: keep one, give the other to the child process."""
    with ExitStack() as undo:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for end in (here, there):
            undo.enter_context(end)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        first = undo.enter_context(closing(Segment()))
        second = undo.enter_context(closing(Segment()))
        undo.pop_all()
    return Channel(here, first, second), Channel(there, second, first)


def dump(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Return the pickle of `value` and, separately, its large buffers."""
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


def _is_large_array(value: Any) -> bool:
    return (
        type(value) is np.ndarray
        and value.nbytes >= INLINE
        and value.flags.c_contiguous
        and value.dtype.kind in _PLAIN
    )


def _reduce_array(array: npt.NDArray[Any]) -> Any:
    """Reduce an array in a third of NumPy's time, with a separate buffer for strided arrays too."""
    order = "F" if array.flags.fnc else "C"
    whole: Any = array if array.flags.forc else np.ascontiguousarray(array)
    if array.dtype.kind in "mM":  # times have no buffer of their own
        whole = whole.view(np.int64)
    return _make_array, (pickle.PickleBuffer(whole), array.dtype.str, array.shape, order)


def _make_array(buffer: Any, dtype: str, shape: tuple[int, ...], order: Any) -> npt.NDArray[Any]:
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


def _make_tensor(array: npt.NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(array)


def _align(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
