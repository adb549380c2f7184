"""Writing WebDataset tars: plain, without an index. A key that they would not give back is escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from headrace.formats.keys import keep_key
from headrace.pack.cut import DEFAULT_SHARD_SIZE
from headrace.pack.describe import shard_fields
from headrace.pack.outgoing import Classes
from headrace.pack.shard import shard_name
from headrace.pack.tar import END, member_header, padding
from headrace.sample import Sample


def write_webdataset(samples: Iterable[Sample], place: Path, classes: Classes) -> int:
    place.mkdir()
    count, number = 0, 0
    file: IO[bytes] | None = None
    try:
        for sample in samples:
            if file is None or file.tell() >= DEFAULT_SHARD_SIZE:
                if file is not None:
                    _end_tar(file)
                file = open(place / shard_name(number), "xb")  # noqa: SIM115
                number += 1
            for name, data in shard_fields(sample).items():
                header = member_header(f"{keep_key(sample.key)}.{name}", len(data))
                file.write(header + data + padding(len(data)))
            count += 1
        if file is not None:
            _end_tar(file)
    finally:
        if file is not None:
            file.close()
    return count


def _end_tar(file: IO[bytes]) -> None:
    file.write(END)
    file.flush()
    os.fsync(file.fileno())
    file.close()
