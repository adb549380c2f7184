"""Small sources of every layout, made by hand or by the layout's own writer, for the tests."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace._core import crc32c
from images import encode


def photos(count: int) -> list[bytes]:
    """JPEGs of different sizes and contents."""
    return [encode(24 + i, 32 + i, seed=i) for i in range(count)]


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    """A tar as Python writes it; gzipped if its name says so."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    data = buffer.getvalue()
    path.write_bytes(gzip.compress(data) if path.name.endswith("gz") else data)
    return path


def write_gulp(root: Path, videos: dict[str, list[bytes]], labels: dict[str, str]) -> Path:
    """A gulp directory of one chunk, by GulpIO's rules."""
    root.mkdir(parents=True, exist_ok=True)
    data, meta = b"", {}
    for name, frames in videos.items():
        places = []
        for frame in frames:
            pad = -len(frame) % 4
            places.append([len(data), pad, len(frame) + pad])
            data += frame + bytes(pad)
        meta[name] = {"frame_info": places, "meta_data": [{"id": name, "label": labels[name]}]}
    (root / "data_0.gulp").write_bytes(data)
    (root / "meta_0.gmeta").write_text(json.dumps(meta))
    numbers = {label: k for k, label in enumerate(sorted(set(labels.values())))}
    (root / "label2idx.json").write_text(json.dumps(numbers))
    return root


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def _sized(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def make_example(features: dict[str, object]) -> bytes:
    """A tf.train.Example: bytes, float or int values, or lists of them."""
    entries = b""
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], bytes):
            feature = _sized(1, b"".join(_sized(1, v) for v in values))
        elif isinstance(values[0], float):
            feature = _sized(2, _sized(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            feature = _sized(3, _sized(1, b"".join(_varint(v) for v in values)))
        entries += _sized(1, _sized(1, name.encode()) + _sized(2, feature))
    return _sized(1, entries)


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def write_tfrecord(path: Path, records: list[bytes]) -> Path:
    """A TFRecord file, by TensorFlow's framing."""
    with open(path, "wb") as file:
        for record in records:
            length = struct.pack("<Q", len(record))
            file.write(length + _masked(length) + record + _masked(record))
    return path


def make_table(images: list[bytes], *, struct_column: bool = True) -> pa.Table:
    """A table as Hugging Face has it, with the features in the metadata of its schema."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    values = [{"bytes": data, "path": f"{i}.jpg"} for i, data in enumerate(images)]
    features = {
        "image": {"_type": "Image"},
        "label": {"_type": "ClassLabel", "names": ["cat", "dog", "owl"]},
    }
    columns = {
        "image": pa.array(values, kind) if struct_column else pa.array(images, pa.binary()),
        "label": pa.array([i % 3 for i in range(len(images))], pa.int64()),
        "score": pa.array([i / 2 for i in range(len(images))], pa.float64()),
        "boxes": pa.array([[i, i] for i in range(len(images))], pa.list_(pa.int32())),
    }
    info = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    return pa.table(columns).replace_schema_metadata(info if struct_column else None)


def write_parquet(path: Path, images: list[bytes], **options: bool) -> Path:
    """A Parquet file of several row groups."""
    pq.write_table(make_table(images, **options), path, row_group_size=3)
    return path


def write_arrow(path: Path, images: list[bytes]) -> Path:
    """An Arrow stream of several batches, as `save_to_disk` writes it."""
    table = make_table(images)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=4):
            writer.write_batch(batch)
    return path
