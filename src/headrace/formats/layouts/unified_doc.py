"""unified_doc_dataset's LMDB: four records a document become one sample of several fields.

Keys are `<document>_<part>` with the parts d1 and d2 (two warps), w1 (the photo) and di (the flat
original); a value is a pickled {"image": HWC BGR array, "label": control points of a warp}. A
document has the fields `d1.npy`, `d1.label.npy`, `d2.npy`, ..., as many as it has records.
`__keys__` and `__len__` are ignored: they name keys that do not exist.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.errors import SourceError
from headrace.files.limits import check_size
from headrace.files.pread import open_regular
from headrace.formats.codecs.datapoint import encode_component, join_field
from headrace.formats.codecs.lmdb_pages import Entry, scan_lmdb
from headrace.formats.folder_contents import FolderContents
from headrace.formats.layouts.lmdb import (
    DATA_FILE,
    Database,
    decode_value,
    find_lmdb,
    is_lmdb,
    open_database,
)
from headrace.sample import Sample
from headrace.store.keys import make_keys

_KEY = re.compile(rb"(.+)_(d1|d2|w1|di)", re.DOTALL)


def is_unified_doc(path: Path, head: bytes) -> bool:
    """Return whether a file is a database of documents."""
    return is_lmdb(path, head) and _holds_documents(path)


def find_unified_doc(folder: FolderContents) -> Path | None:
    """Return the database of documents that the folder is, or that is in it."""
    path = find_lmdb(folder)
    return path if path is not None and _holds_documents(path) else None


def _holds_documents(path: Path) -> bool:
    """Return whether the first keys are all of documents; False for a database that cannot be read."""
    try:
        with open(open_regular(path / DATA_FILE if path.is_dir() else path), "rb") as file:
            keys = [entry.key for entry in islice(scan_lmdb(file.fileno()), 64)]
    except (OSError, SourceError):
        return False
    keys = [key for key in keys if not key.startswith(b"__")]
    return bool(keys) and all(_KEY.fullmatch(key) for key in keys)


@dataclass(frozen=True)
class DocumentSource:
    """A `Source`: sample `i` is the document `names[i]`."""

    database: Database
    documents: Mapping[str, Mapping[str, Entry]]
    ignored: Sequence[str] = ()
    classes: Sequence[str] | None = None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    names: Sequence[str] = field(init=False)
    keys: Sequence[str] = field(init=False)
    sizes: np.ndarray = field(init=False)
    mtimes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        names = list(self.documents)
        sizes = [sum(entry.size for entry in parts.values()) for parts in self.documents.values()]
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "keys", make_keys(names))
        object.__setattr__(self, "sizes", np.array(sizes, np.int64))
        object.__setattr__(self, "mtimes", np.full(len(names), self.database.mtime))

    def read(self, i: int) -> Sample:
        """Return the parts of a document together."""
        check_size(int(self.sizes[i]), self.database.max_file_size)
        fields: dict[str, bytes] = {}
        for part, entry in self.documents[self.names[i]].items():
            record = decode_value(self.database.read(entry))
            if not isinstance(record, dict) or not isinstance(record.get("image"), np.ndarray):
                raise SourceError(f"the record {entry.key!r:.80} is not {{'image': array}}")
            for name, component in record.items():
                if not isinstance(component, (bytes, np.ndarray)):
                    raise SourceError(
                        f"{name!r:.40} of the record {entry.key!r:.80} is not an array"
                    )
                kind, data = encode_component(component)
                fields[join_field(part if name == "image" else f"{part}.{name}", kind)] = data
        return Sample(self.keys[i], fields)


def open_unified_doc(path: str | os.PathLike[str]) -> DocumentSource:
    """Open the documents of the database at `path`, in the order of their keys."""
    database = open_database(path)
    if not len(database):
        raise SourceError(f"{database.path}: a database without samples")
    documents: dict[str, dict[str, Entry]] = {}
    for entry in map(database.entry, range(len(database))):
        match = _KEY.fullmatch(entry.key)
        if match is None:
            raise SourceError(
                f"{database.path}: the key {entry.key!r:.80} does not end in _d1, _d2, _w1 or _di"
            )
        name = match[1].decode("utf-8", "surrogateescape")
        documents.setdefault(name, {})[match[2].decode()] = entry
    return DocumentSource(database, documents, [key.decode() for key in database.contents])
