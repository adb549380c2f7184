"""The options of a pack, and the fingerprints by which a later pack knows what it finds.

Equal options and equal sources have equal fingerprints, whatever the number of workers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from headrace.arguments import check_choice, check_count, keep_integers
from headrace.formats.source import EncodingSource, Source
from headrace.pack.class_map import check_classes
from headrace.pack.encode_arrays import Encode
from headrace.pack.shard_plan import DEFAULT_SHARD_SIZE
from headrace.pack.shrink_images import Shrink
from headrace.store.manifest import VERSION
from headrace.work.seeding import check_seed

_OPTIONAL = ("encode", "classes", "max_file_size", "recode")
"""Options that a recipe has only if they are used."""


@dataclass(frozen=True)
class PackOptions:
    """The options that decide the bytes of a dataset, and what to do with bad files."""

    shard_size: int = DEFAULT_SHARD_SIZE
    order: Literal["shuffled", "source"] = "shuffled"
    seed: int = 0
    shrink: Shrink | None = None
    on_error: Literal["raise", "skip"] = "raise"
    encode: Encode | None = None
    classes: tuple[str, ...] | None = None
    max_file_size: int | None = None
    recode: bool | None = None

    def __post_init__(self) -> None:
        keep_integers(self, "shard_size", "seed")
        if self.classes is not None:
            check_classes(self.classes)
        check_count("shard_size", self.shard_size, 1)
        check_choice("order", self.order, ("shuffled", "source"))
        check_seed(self.seed)
        check_choice("on_error", self.on_error, ("raise", "skip"))


def describe_pack(source: Source, options: PackOptions) -> dict[str, Any]:
    """Return the recipe in the manifest: the options, and a digest of the names and sizes in the source."""
    digest = hashlib.sha256(json.dumps(_describe_source(source)).encode())
    for row, (name, size) in enumerate(zip(source.names, source.sizes, strict=True)):
        digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
        digest.update(json.dumps(_read_listed(source, row), default=str).encode())
    return {
        **_describe_options(options),
        **_describe_encoding(source),
        "source": digest.hexdigest(),
    }


def digest_shard(source: Source, options: PackOptions, rows: np.ndarray) -> str:
    """Return a digest that changes with anything that the shard of these rows is made from."""
    content = [[source.names[row], int(source.sizes[row]), int(source.mtimes[row])] for row in rows]
    listed = [_read_listed(source, int(row)) for row in rows]
    how = {"version": VERSION, **_describe_options(options), **_describe_encoding(source)}
    plan = [how, *_describe_source(source), content, listed]
    return hashlib.sha256(json.dumps(plan, default=str).encode()).hexdigest()


def _describe_options(options: PackOptions) -> dict[str, Any]:
    entries = asdict(options)
    del entries["on_error"]
    return {n: value for n, value in entries.items() if n not in _OPTIONAL or value is not None}


def _describe_encoding(source: Source) -> dict[str, Any]:
    """Return how a source encodes its samples, if it does."""
    return {"video": dict(source.recipe)} if isinstance(source, EncodingSource) else {}


def _describe_source(source: Source) -> list[Any]:
    """Return the columns and classes of a source, and its digest if it has one."""
    digest = getattr(source, "digest", None)
    return [str(source.columns), list(source.classes or ()), *([digest] if digest else [])]


def _read_listed(source: Source, row: int) -> list[Any]:
    """Return the label and columns of a sample if a listing has them; elsewhere they lie in its bytes."""
    labels, columns = getattr(source, "labels", None), getattr(source, "rows", None)
    return [labels[row] if labels else None, dict(columns[row]) if columns else None]
