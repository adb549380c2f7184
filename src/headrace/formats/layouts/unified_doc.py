"""unified_doc_dataset's LMDB: four records a document become one sample of several fields.

Keys are `<document>_<part>` with the parts d1 and d2 (two warps), w1 (the photo) and di (the flat
original); a value is a pickled {"image": HWC BGR array, "label": control points of a warp}. A
document has the fields `d1.npy`, `d1.label.npy`, `d2.npy`, ..., as many as it has records.
`__keys__` and `__len__` are ignored: they name keys that do not exist.

A path may be a database, a folder of them, or a pattern: their documents are one dataset, in the order of the databases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.errors import SourceError
from headrace.files.limits import check_size
from headrace.files.pread import open_regular
from headrace.formats.check_class_folders import check_no_images
from headrace.formats.check_splits import check_one_split
from headrace.formats.codecs.datapoint import encode_component, join_field
from headrace.formats.codecs.lmdb_pages import Entry, scan_lmdb
from headrace.formats.file_patterns import is_pattern, match_files
from headrace.formats.folder_contents import FolderContents, list_folder
from headrace.formats.layouts.lmdb import (
    DATA_FILE,
    Database,
    decode_value,
    find_lmdb,
    is_lmdb,
    list_databases,
    open_database,
)
from headrace.sample import Sample
from headrace.store.keys import make_keys, printable

_KEY = re.compile(rb"(.+)_(d1|d2|w1|di)", re.DOTALL)


def is_unified_doc(path: Path, head: bytes) -> bool:
    """Return whether a file is a database of documents."""
    return is_lmdb(path, head) and _holds_documents(path)


def find_unified_doc(folder: FolderContents) -> Path | None:
    """Return the database of documents that the folder is or that is in it; the folder itself if it has several."""
    names = [] if DATA_FILE in folder.files else list_databases(folder)
    if len(names) > 1 and all(_holds_documents(folder.path / name) for name in names):
        check_no_images(folder, names, "--format unified-doc")
        return folder.path
    path = find_lmdb(folder) if len(names) < 2 else None
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


class Document(NamedTuple):
    """The records of a document by their part, and the database that they are in."""

    database: Database
    records: dict[str, Entry]


@dataclass(frozen=True)
class DocumentSource:
    """A `Source`: sample `i` is the document `names[i]`."""

    documents: Mapping[str, Document]
    ignored: Sequence[str] = ()
    classes: Sequence[str] | None = None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    names: Sequence[str] = field(init=False)
    keys: Sequence[str] = field(init=False)
    sizes: np.ndarray = field(init=False)
    mtimes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        names, documents = list(self.documents), self.documents.values()
        sizes = [sum(entry.size for entry in found.records.values()) for found in documents]
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "keys", make_keys(names))
        object.__setattr__(self, "sizes", np.array(sizes, np.int64))
        mtimes = [found.database.mtime for found in documents]
        object.__setattr__(self, "mtimes", np.array(mtimes, np.int64))

    def read(self, i: int) -> Sample:
        """Return the parts of a document together."""
        database, records = self.documents[self.names[i]]
        check_size(int(self.sizes[i]), database.max_file_size)
        fields: dict[str, bytes] = {}
        for part, entry in records.items():
            record = decode_value(database.read(entry))
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
    """Open the documents of the databases that `path` stands for, in the order of their keys.

    Raises:
        SourceError: A database cannot be read, or two of them have a document of the same name.
    """
    documents: dict[str, Document] = {}
    ignored: dict[str, None] = {}
    for place in find_databases(Path(path)):
        database = open_database(place)
        ignored |= dict.fromkeys(key.decode() for key in database.contents)
        for name, document in _read_documents(database).items():
            if name in documents:
                raise SourceError(
                    f"{path}: the document {printable(name)} is in both {documents[name].database.path} and "
                    f"{database.path}; pack them one by one, or rename it in one of them"
                )
            documents[name] = document
    return DocumentSource(documents, list(ignored))


def find_databases(path: Path) -> list[Path]:
    """Return the databases of a path: itself, those in a folder, or those of a pattern."""
    if is_pattern(path):
        return match_files(path, os.path.exists)
    if not path.is_dir() or (path / DATA_FILE).exists():
        return [path]
    places = [path / name for name in list_databases(list_folder(path))]
    if not places:
        raise SourceError(f"{path}: no databases (.lmdb) in it")
    check_one_split(path, places)
    return places


def _read_documents(database: Database) -> dict[str, Document]:
    """Return the documents of a database, in the order of their keys."""
    if not len(database):
        raise SourceError(f"{database.path}: a database without samples")
    documents: dict[str, Document] = {}
    for entry in map(database.entry, range(len(database))):
        match = _KEY.fullmatch(entry.key)
        if match is None:
            raise SourceError(
                f"{database.path}: the key {entry.key!r:.80} does not end in _d1, _d2, _w1 or _di"
            )
        name = match[1].decode("utf-8", "surrogateescape")
        document = documents.setdefault(name, Document(database, {}))
        document.records[match[2].decode()] = entry
    return documents
