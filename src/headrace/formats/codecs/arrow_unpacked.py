"""What a compressed Arrow file unpacks to, as its buffers say: Arrow takes that memory without a limit.

A buffer of a compressed batch begins with the length of its content as int64, -1 where it is stored as it is.
Arrow takes no other length than that, so that the sum bounds the memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headrace.errors import SourceError
from headrace.formats.codecs.arrow_message import FlatTable

_MAGIC = b"ARROW1"
_DICTIONARY, _BATCH = 2, 3
_MAX_FOOTER = 64 << 20


def measure_unpacked(source: pa.NativeFile) -> int:
    """Return the bytes that all compressed buffers of an Arrow stream or file unpack to; 0 if there are none.

    Raises:
        SourceError: The messages are damaged.
    """
    source.seek(0)
    is_file = source.read(len(_MAGIC)) == _MAGIC
    messages = _read_blocks(source) if is_file else _read_stream(source)
    return sum(map(_measure_message, messages))


def _read_stream(source: pa.NativeFile) -> Iterator[pa.Message]:
    source.seek(0)
    reader = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _read_blocks(source: pa.NativeFile) -> Iterator[pa.Message]:
    """Yield the messages that the footer of a file points at."""
    end = source.size() - len(_MAGIC) - 4
    source.seek(max(0, end))
    size = int.from_bytes(source.read(4), "little")
    if not 8 <= size <= min(end, _MAX_FOOTER):
        raise SourceError(f"a damaged Arrow file: a footer of {size} bytes")
    source.seek(end - size)
    footer = source.read(size)
    table = FlatTable(footer, int.from_bytes(footer[:4], "little"))
    for field in (2, 3):  # dictionaries, batches
        for offset, _, _ in table.structs(field, "<qi4xq"):
            if not 0 <= offset < end:
                raise SourceError(f"a damaged Arrow file: a batch at {offset}")
            source.seek(offset)
            yield pa.ipc.read_message(source)


def _measure_message(message: pa.Message) -> int:
    metadata = message.metadata.to_pybytes()
    table = FlatTable(metadata, int.from_bytes(metadata[:4], "little"))
    kind = table.number(1, "<B")
    batch: FlatTable | None = FlatTable(metadata, table.position(2))
    if kind == _DICTIONARY and batch is not None:
        batch = batch.table(1)
    if kind not in (_DICTIONARY, _BATCH) or batch is None or batch.table(3) is None:
        return 0
    places = batch.structs(2, "<qq")
    return sum(_measure_buffer(message.body, offset) for offset, size in places if size >= 8)


def _measure_buffer(body: pa.Buffer, offset: int) -> int:
    if not 0 <= offset <= body.size - 8:
        raise SourceError(f"a damaged Arrow file: a buffer at {offset} of {body.size}")
    return max(0, int.from_bytes(body.slice(offset, 8).to_pybytes(), "little", signed=True))
