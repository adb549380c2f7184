"""Samples from datapoints, as tensorpack calls them: a list or dict of components.

  encoded image    bytes or a 1-D uint8 array that begin like an image: a field `jpg`, `png`, ...
  other array      a field `npy`
  other bytes      a field `bin`; but as the first of an [image, label] pair an error
  label            the second component of a list, or else its last; the component `label` of a dict
  everything else  numbers and text, together in a field `json`

Where there is one array or byte string its field is bare (`jpg`); where there are several each has
the name or number of its component before it (`image.npy`, `0.jpg`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.errors import SourceError
from headrace.formats.codecs.arrays import encode_npy
from headrace.formats.codecs.image_signature import sniff_image
from headrace.sample import Sample, field_name

_NOT_A_NAME = re.compile(r"[^a-z0-9_.-]")
_FILE_SUFFIXES = frozenset({"json", "npy", "txt"})
_LIMIT = 1 << 63


def make_sample(key: str, value: object) -> Sample:
    """Return the sample that a decoded value stands for. Raise SourceError if it is not a datapoint."""
    if isinstance(value, bytes):
        return Sample(key, {_image_kind(value): value})
    if isinstance(value, (list, tuple)):
        components = {str(i): component for i, component in enumerate(value)}
        label = _take_list_label(components)
    elif isinstance(value, dict):
        components = {_text(name): component for name, component in value.items()}
        label = _take_dict_label(components)
    else:
        raise SourceError(f"the value is {_describe(value)}, not a list or dict of components")
    if not components:
        raise SourceError("the value has no components")
    return Sample(key, make_fields(components), label)


def make_fields(components: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the fields of named components, in their order; numbers and text in `json` at the end."""
    data = {n: c for n, c in components.items() if isinstance(c, (bytes, np.ndarray))}
    fields: dict[str, bytes] = {}
    for name, component in data.items():
        kind, encoded = encode_component(component)
        field = kind if len(data) == 1 else join_field(name, kind)
        if field in fields:
            raise SourceError(f"two components are both called {field!r}")
        fields[field] = encoded
    plain = {name: c for name, c in components.items() if name not in data}
    if plain:
        name = "json" if "json" not in fields else "plain.json"
        fields[name] = _encode_plain(plain)
    return fields


def encode_component(component: bytes | np.ndarray) -> tuple[str, bytes]:
    """Return (kind, bytes of the file) of an array or a byte string."""
    if isinstance(component, bytes):
        return sniff_image(component) or "bin", component
    if component.dtype == np.uint8 and component.ndim == 1:
        raw = component.tobytes()
        kind = sniff_image(raw)
        if kind is not None:
            return kind, raw
    return "npy", encode_npy(component)


def join_field(name: str, kind: str) -> str:
    """Return the field of a component: `mask` and `png` are `mask.png`, and so are `mask.png` and `png`."""
    field = field_name(_NOT_A_NAME.sub("_", name.lower()).strip(".") or "_")
    last = field.rpartition(".")[2]
    if last == kind or (kind == "bin" and last in _FILE_SUFFIXES):
        return field
    return f"{field}.{kind}"


def _take_list_label(components: dict[str, Any]) -> int | None:
    """Return the label of a list, and remove it from its components."""
    names = list(components)
    if len(names) == 2 and not _is_data(components["1"]):
        pair_image = components["0"]
        if isinstance(pair_image, bytes):
            _image_kind(pair_image)
        return parse_label(components.pop("1"))
    for name in (names[1:2] + names[-1:]) if len(names) > 1 else []:
        if _is_whole_number(components[name]):
            return parse_label(components.pop(name))
    return None


def _take_dict_label(components: dict[str, Any]) -> int | None:
    """Return the label of a dict, and remove it from its components. Several labels of one sample stay data."""
    label = components.get("label")
    if _is_data(label) or isinstance(label, (list, tuple, dict)):
        return None
    return parse_label(components.pop("label", None))


def parse_label(value: object) -> int | None:
    """Return a label: an integer of at most 64 bits, or None."""
    if value is None:
        return None
    if not _is_whole_number(value):
        raise SourceError(f"the label is {_describe(value)}, not an integer")
    label = int(np.asarray(value).item()) if isinstance(value, np.ndarray) else int(value)  # type: ignore[call-overload]
    if not -_LIMIT <= label < _LIMIT:
        raise SourceError("the label does not fit into 64 bits")
    return label


def _is_whole_number(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.size == 1 and value.dtype.kind in "iu"
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_data(value: object) -> bool:
    return isinstance(value, (bytes, np.ndarray)) and not _is_whole_number(value)


def _image_kind(data: bytes) -> str:
    kind = sniff_image(data)
    if kind is None:
        raise SourceError(
            f"not an image: no known format begins with {data[:8]!r}" if data else "no image bytes"
        )
    return kind


def _encode_plain(components: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(dict(components), default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SourceError(f"a component cannot be stored as JSON: {error!s:.100}") from None


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"it holds {_describe(value)}")


def _text(name: object) -> str:
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)


def _describe(value: object) -> str:
    if isinstance(value, (bytes, np.ndarray, list, tuple, dict)):
        return f"of type {type(value).__name__}"
    if isinstance(value, int) and abs(value) >= _LIMIT:
        return "a number beyond 64 bits"
    return f"{value!r:.40} ({type(value).__name__})"
