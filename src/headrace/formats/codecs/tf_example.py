"""A tf.train.Example with encoded images: a protobuf message, a map of names to lists of bytes, floats or integers.

A byte string that begins like an image is a field (`jpg`, ...; with its name before it where there are
several), one that is not UTF-8 a field `<name>.bin`; of a list of them each has its number too
(`views.0.jpg`). The label is `image/class/label`, `label` or `image/label`; all else goes into the field `json`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.errors import SourceError
from headrace.formats.codecs.datapoint import join_field, make_fields, parse_label
from headrace.formats.codecs.image_signature import sniff_image
from headrace.sample import Sample

_LABELS = ("image/class/label", "label", "image/label")
_MAX_FEATURES = 10_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def parse_example(data: bytes) -> dict[str, list[Any]]:
    """Return the features of a tf.train.Example by name. Raise SourceError if it is not one."""
    features: dict[str, list[Any]] = {}
    for number, message in _read_message(data):
        if number != 1 or not isinstance(message, bytes):
            continue
        for entry_number, entry in _read_message(message):
            if entry_number != 1 or not isinstance(entry, bytes):
                continue
            parts = dict(_read_message(entry))
            name, value = parts.get(1), parts.get(2, b"")
            if not isinstance(name, bytes) or not isinstance(value, bytes):
                raise SourceError("not a tf.train.Example: a feature without a name")
            features[name.decode("utf-8", "backslashreplace")] = _parse_feature(value)
            if len(features) > _MAX_FEATURES:
                raise SourceError(f"a tf.train.Example with more than {_MAX_FEATURES} features")
    return features


def _read_message(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a protobuf message; sub-messages and packed lists are bytes."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _read_varint(data, position)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, position = _read_varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise SourceError(f"not a protobuf message: wire type {kind}")
        if size > len(data) - position:
            raise SourceError(f"a protobuf message that claims {size} bytes, which are not there")
        yield tag >> 3, data[position : position + size]
        position += size


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise SourceError("a protobuf message cut off inside a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position
    raise SourceError("a protobuf message with a number of more than 64 bits")


def _parse_feature(data: bytes) -> list[Any]:
    """Return the values of a Feature: oneof bytes_list = 1, float_list = 2, int64_list = 3."""
    values: list[Any] = []
    for number, listed in _read_message(data):
        if not isinstance(listed, bytes) or number not in (1, 2, 3):
            raise SourceError(f"not a tf.train.Feature: it has a field {number}")
        for _, value in _read_message(listed):
            if number == 1:
                values.append(value)
            elif number == 2 and isinstance(value, bytes) and len(value) % 4 == 0:
                values.extend(struct.unpack(f"<{len(value) // 4}f", value))
            elif number == 3:
                values.extend(n - (1 << 64) if n >> 63 else n for n in _integers(value))
            else:
                raise SourceError("a damaged tf.train.Feature")
    return values


def _integers(value: int | bytes) -> Iterator[int]:
    if isinstance(value, int):
        yield value
        return
    position = 0
    while position < len(value):
        number, position = _read_varint(value, position)
        yield number


def make_example_sample(key: str, features: Mapping[str, list[Any]]) -> Sample:
    """Return the sample that an Example stands for."""
    binary: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for name, values in features.items():
        if any(map(_is_binary, values)):
            several = {f"{name}.{k}": value for k, value in enumerate(values)}
            binary |= {name: values[0]} if len(values) == 1 else several
        else:
            plain[name] = [_as_text(v) for v in values] if len(values) != 1 else _as_text(values[0])
    images = {name: data for name, data in binary.items() if sniff_image(data)}
    if not images:
        raise SourceError(f"no encoded image among its features {sorted(features)!s:.200}")
    other = {name: data for name, data in binary.items() if name not in images}
    single = {n: v for n, v in {**plain, **other}.items() if not isinstance(v, list)}
    labels = [name for name in _LABELS if name in single]
    whole = [name for name in labels if isinstance(single[name], int)]
    label = next(iter(whole or labels), None)  # an error if none is an integer
    number = None if label is None else parse_label(single[label])
    plain.pop(label or "", None)
    return Sample(key, _join_fields(make_fields({**images, **plain}), other), number)


def _join_fields(fields: dict[str, bytes], other: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the fields with the byte strings that are neither images nor text."""
    for name, data in other.items():
        field = join_field(f"{name}.bin", "bin")
        if field in fields:
            raise SourceError(f"two features are both called {field!r}")
        fields[field] = data
    return fields


def _is_binary(value: Any) -> bool:
    """Return whether it is an image, or bytes that are not text."""
    if not isinstance(value, bytes) or sniff_image(value):
        return isinstance(value, bytes)
    try:
        value.decode()
    except UnicodeDecodeError:
        return True
    return False


def _as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
