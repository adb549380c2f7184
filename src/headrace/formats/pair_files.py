"""Samples whose fields are files of one stem in several folders, such as photos and their masks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import SourceChangedError, SourceError
from headrace.files.limits import check_size, current_limit
from headrace.formats.field_files import IMAGE, FieldFile
from headrace.formats.image_files import read_unchanged
from headrace.kinds import Kind
from headrace.sample import Sample, field_name
from headrace.store.keys import make_keys


@dataclass(frozen=True)
class PairFiles:
    """A `Source`: sample `i` has the files `files[name][stems[i]]`, the image first.

    A sample that lacks the file of a field is a SourceError when it is read, unless the field is `optional`. `faults`
    says by stem what is wrong with samples whose annotations cannot be read.
    """

    root: Path
    files: Mapping[str, Mapping[str, FieldFile]]
    stems: Sequence[str]
    optional: frozenset[str] = frozenset()
    classes: Sequence[str] | None = None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    rows: Sequence[Mapping[str, Any]] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    field_kinds: Mapping[str, Kind] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    max_file_size: int = field(default_factory=current_limit)
    keys: Sequence[str] = field(init=False)
    names: Sequence[str] = field(init=False)
    sizes: np.ndarray = field(init=False)
    mtimes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        samples = [self.list_files(i) for i in range(len(self.stems))]
        sizes = [sum(file.size for file in files) for files in samples]
        mtimes = [max(file.mtime for file in files) for files in samples]
        object.__setattr__(self, "keys", make_keys(self.stems))
        object.__setattr__(self, "names", [files[0].name for files in samples])
        object.__setattr__(self, "sizes", np.array(sizes, np.int64))
        object.__setattr__(self, "mtimes", np.array(mtimes, np.int64))

    def list_files(self, i: int) -> list[FieldFile]:
        """Return the files of a sample, at least one."""
        stem = self.stems[i]
        return [files[stem] for files in self.files.values() if stem in files]

    @cached_property
    def digest(self) -> str:
        """A digest of the names of all files."""
        digest = hashlib.sha256()
        for name, files in self.files.items():
            digest.update(f"{name}{'?' if name in self.optional else ''}\0".encode())
            for stem in self.stems:
                text = f"{files[stem].name if stem in files else ''}\0"
                digest.update(text.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def read(self, i: int) -> Sample:
        """Return the files of a sample together. SourceError if one of them is missing."""
        stem = self.stems[i]
        self._check(i)
        fields: dict[str, bytes] = {}
        suffixes: dict[str, str] = {}
        for name, files in self.files.items():
            if stem in files:
                spelled = name_member(name, files[stem].name)
                fields[field_name(spelled)] = self._read_file(name, files[stem])
                suffixes[field_name(spelled)] = spelled
        columns = self.rows[i] if self.rows else {}
        return Sample(self.keys[i], fields, None, columns, suffixes)

    def _check(self, i: int) -> None:
        stem = self.stems[i]
        for name, files in self.files.items():
            if stem not in files and name not in self.optional:
                raise SourceError(f"no {name} for {stem!r:.200}")
        check_size(int(self.sizes[i]), self.max_file_size)
        if stem in self.faults:
            raise SourceError(self.faults[stem])

    def _read_file(self, name: str, file: FieldFile) -> bytes:
        try:
            return read_unchanged(self.root / file.name, file.size, file.mtime)
        except SourceError as error:
            if name == IMAGE:
                raise
            kind = SourceChangedError if isinstance(error, SourceChangedError) else SourceError
            raise kind(f"{file.name}: {error}") from None


def name_member(name: str, file: str) -> str:
    """Return the suffix of a file in a shard: of the image its own, of others with the name of their field.

    XML files are annotations, of which a sample has one.
    """
    suffix = file.rpartition(".")[2]
    return suffix if name == IMAGE or suffix.lower() == "xml" else f"{name}.{suffix}"
