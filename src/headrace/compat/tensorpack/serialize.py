"""tensorpack's LMDB files, speed test and printing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, cast

import numpy as np

from headrace.compat.tensorpack.dataflow import (
    DataFlow,
    ProxyDataFlow,
    RNGDataFlow,
    Shell,
    as_flow,
)
from headrace.compat.tensorpack.seed import make_source_seed
from headrace.compat.tensorpack.transforms import MapData
from headrace.errors import SourceError
from headrace.flow.flow import Flow
from headrace.flow.flow_source import Pick
from headrace.flow.lmdb_items import LmdbRecords, make_writable, save_lmdb
from headrace.flow.measure import Speed
from headrace.flow.stage import Items
from headrace.formats.layouts.lmdb import DATA_FILE, decode_value, open_database


class LMDBSerializer:
    """Save a DataFlow to an LMDB file and load it back."""

    @staticmethod
    def save(df: DataFlow, path: str, write_frequency: int = 5000) -> None:
        """Write one pass of `df` to the file `path`, or into it if it is a folder.

        The file appears when it is complete.
        """
        target = os.path.join(path, DATA_FILE) if os.path.isdir(path) else path
        with closing(cast(Items, iter(as_flow(df)))) as items:
            save_lmdb(items, target)

    @staticmethod
    def load(path: str, shuffle: bool = True) -> Shell:
        """Return the datapoints, in their order or in a new one each pass. Code in the file never runs."""
        return Shell(Flow.load(path, shuffle=shuffle, seed=make_source_seed()))


class LMDBData(Shell, RNGDataFlow):
    """[key, value] of an LMDB file as bytes, undecoded.

    keys: bytes or text, or a format such as `{:0>8d}` that is given the numbers of the values from 0;
    None for all that there are.
    """

    def __init__(
        self,
        lmdb_path: str,
        shuffle: bool = True,
        keys: str | Sequence[bytes | str] | None = None,
    ) -> None:
        self._lmdb_path, self._shuffle = lmdb_path, shuffle
        if isinstance(keys, str):
            keys = [keys.format(number) for number in range(len(open_database(lmdb_path)))]
        records = LmdbRecords(lmdb_path, None if keys is None else _encode_keys(keys))
        order = Flow.of(range(len(records)))
        order = order.shuffle(seed=self._source_seed) if shuffle else order
        super().__init__(Flow(Pick(records), (order,)))


class LMDBDataDecoder(MapData):
    """`decoder(key, value)` for each entry of an LMDBData; None drops it."""

    def __init__(self, lmdb_data: DataFlow, decoder: Callable[[bytes, bytes], Any]) -> None:
        super().__init__(lmdb_data, partial(_decode_entry, decoder))


class LMDBDataPoint(LMDBDataDecoder):
    """The datapoints of a file, given as to LMDBData, or of a DataFlow that has read it undecoded.

    Never runs code of the file.
    """

    def __init__(self, lmdb_data: DataFlow | str, *args: Any, **options: Any) -> None:
        if not isinstance(lmdb_data, DataFlow):
            lmdb_data = LMDBData(lmdb_data, *args, **options)
        super().__init__(lmdb_data, _load_datapoint)


def _decode_entry(decoder: Callable[[bytes, bytes], Any], entry: list[bytes]) -> Any:
    return decoder(*entry)


def _load_datapoint(key: bytes, value: bytes) -> Any:
    try:
        return make_writable(decode_value(value))
    except SourceError as error:
        raise SourceError(f"the value of {key!r}: {error}") from error


def _encode_keys(keys: Sequence[bytes | str]) -> list[bytes]:
    """Return the keys as bytes, as an LMDB holds them."""
    return [key.encode() if isinstance(key, str) else key for key in keys]


class TestDataSpeed(ProxyDataFlow):
    """Measure a DataFlow; iterating it measures first and then gives the data."""

    __test__ = False  # not a test class, whatever its name says to pytest

    def __init__(self, ds: DataFlow, size: int = 5000, warmup: int = 0) -> None:
        super().__init__(ds)
        self.test_size, self.warmup = size, warmup

    def start(self) -> Speed:
        """Print the rates, warm-up excluded, and return them."""
        speed = as_flow(self.ds).speed(self.test_size, self.warmup, stages=False)
        print(speed)  # its purpose
        return speed

    start_test = start

    def __iter__(self) -> Iterator[Any]:
        self.start()
        return super().__iter__()


class PrintData(ProxyDataFlow):
    """Print the structure of the first `num` datapoints once, and pass all datapoints on."""

    def __init__(
        self,
        ds: DataFlow,
        num: int = 1,
        name: str | None = None,
        max_depth: int = 3,
        max_list: int = 3,
    ) -> None:
        super().__init__(ds)
        self.num, self.name, self.max_depth, self.max_list = num, name, max_depth, max_list
        self._printed = False

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(super().__iter__()):
            if not self._printed and number < self.num:
                title = f"datapoint {number} of {self.name or type(self.ds).__name__}"
                shown = describe_value(item, self.max_depth, self.max_list)
                print(f"{title}:\n{shown}")  # its purpose
            yield item
        self._printed = True


def describe_value(value: Any, depth: int, width: int, indent: str = "  ") -> str:
    """Return one line per component: its type, shape, dtype and range."""
    if isinstance(value, np.ndarray):
        ends = f" from {value.min()} to {value.max()}" if value.size else ""
        return f"{indent}array {value.dtype}{list(value.shape)}{ends}"
    if isinstance(value, (list, tuple, dict)) and depth:
        entries = list(value.items() if isinstance(value, dict) else enumerate(value))
        lines = [f"{indent}{type(value).__name__} of {len(value)}"]
        for key, entry in entries[:width]:
            shown = describe_value(entry, depth - 1, width, "").strip()
            lines.append(f"{indent}  {key}: {shown}".replace("\n", "\n  " + indent))
        if len(entries) > width:
            lines.append(f"{indent}  …")
        return "\n".join(lines)
    return f"{indent}{type(value).__name__} {value!r:.80}"
