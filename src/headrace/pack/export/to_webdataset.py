"""Writes plain WebDataset tars, without an index. A key that a tar cannot hold is escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from headrace.pack.export.fields import Classes
from headrace.pack.shard_plan import DEFAULT_SHARD_SIZE
from headrace.sample import Sample
from headrace.store.keys import keep_key
from headrace.store.tar import END, member_header, padding
from headrace.store.tar_members import shard_fields
from headrace.store.write_shard import shard_name


def write_webdataset(samples: Iterable[Sample], place: Path, classes: Classes) -> int:
    place.mkdir()
    rest, total = iter(samples), 0
    for number, first in enumerate(rest):
        total += _write_tar(chain([first], rest), place / shard_name(number))
    return total


def _write_tar(samples: Iterable[Sample], path: Path) -> int:
    """Write samples until the tar is full; return their number."""
    count = 0
    with open(path, "xb") as file:
        for count, sample in enumerate(samples, 1):
            for name, data in shard_fields(sample).items():
                header = member_header(f"{keep_key(sample.key)}.{name}", len(data))
                file.write(header + data + padding(len(data)))
            if file.tell() >= DEFAULT_SHARD_SIZE:
                break
        file.write(END)
        file.flush()
        os.fsync(file.fileno())
    return count
