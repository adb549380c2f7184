"""GulpIO's `GulpDirectory` and `GulpChunk`, for reading."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from headrace.compat.gulpio.decode_frames import decode_frames
from headrace.compat.gulpio.frame_table import FrameTable, MetaDict
from headrace.compat.gulpio.gulp_table import read_gulp_table
from headrace.compat.gulpio.index_table import Ids, number_labels, read_index_tables
from headrace.compat.gulpio.open_files import OpenFiles, read_places
from headrace.errors import SourceError
from headrace.formats.layouts.gulp import find_chunk, find_chunks, read_labels
from headrace.open import open_dataset
from headrace.store.keys import printable

JpegDecoder: TypeAlias = Callable[[bytes], Any]
Frames: TypeAlias = tuple[list[Any], dict[str, Any]]


class GulpChunk:
    """Videos of one data file, by id: `chunk[id]` and `chunk[id, frames]`, as of a `GulpDirectory`.

    Iterating gives (frames, meta) of every video. Thread-safe; works after a fork and under spawn.

    Args:
        data_file_path: The `.gulp` file.
        meta_file_path: The `.gmeta` file.
        jpeg_decoder: See `GulpDirectory`.
        threads: See `GulpDirectory`.
    """

    def __init__(
        self,
        data_file_path: str | os.PathLike[str],
        meta_file_path: str | os.PathLike[str],
        jpeg_decoder: JpegDecoder | None = None,
        threads: int | None = None,
    ) -> None:
        chunk = find_chunk(Path(data_file_path), Path(meta_file_path))
        paths = os.fspath(data_file_path), os.fspath(meta_file_path)
        self._set(*paths, read_gulp_table(chunk), OpenFiles(), jpeg_decoder, threads)

    @classmethod
    def _over(cls, *parts: Any) -> GulpChunk:
        """Return a chunk over a table that was read before."""
        chunk = cls.__new__(cls)
        chunk._set(*parts)
        return chunk

    def _set(
        self,
        data_file_path: str,
        meta_file_path: str,
        table: FrameTable,
        files: OpenFiles,
        jpeg_decoder: JpegDecoder | None,
        threads: int | None,
    ) -> None:
        self.data_file_path, self.meta_file_path = data_file_path, meta_file_path
        self.jpeg_decoder, self.threads = jpeg_decoder, threads
        self.meta_dict: Mapping[str, dict[str, Any]] = MetaDict(table)
        self._table, self._files = table, files

    def __contains__(self, id_: object) -> bool:
        return str(id_) in self.meta_dict

    def __getitem__(self, element: Any) -> Frames:
        return self.read_frames(*split_element(element))

    def __iter__(self) -> Iterator[Frames]:
        return self.iter_all()

    @contextmanager
    def open(self, flag: str = "rb") -> Iterator[None]:
        """Do nothing: the file is opened when it is needed. For programs that call it before they read."""
        if flag != "rb":
            raise NotImplementedError(
                f"the mode {flag!r}: chunks are read here, not written; "
                "`headrace export PATH OUT --to gulp` writes a gulp"
            )
        yield

    def iter_all(
        self, accepted_ids: Collection[Any] | None = None, shuffle: bool = False
    ) -> Iterator[Frames]:
        """Yield (frames, meta) of every video.

        Args:
            accepted_ids: The ids to read. Default: all.
            shuffle: Whether the order is random, by `np.random`. Default: the order in the file.
        """
        ids = list(self.meta_dict)
        if accepted_ids is not None:
            accepted = set(map(str, accepted_ids))
            ids = [id_ for id_ in ids if id_ in accepted]
        if shuffle:
            np.random.shuffle(ids)
        return (self.read_frames(id_) for id_ in ids)

    def read_frames(self, id_: Any, slice_: Any = None) -> Frames:
        """Return the frames of a video and a copy of its metadata; see `GulpDirectory`."""
        id_ = str(id_)
        row = self._table.rows[id_]
        if row in self._table.problems:
            raise self._table.error(
                f"{self.data_file_path}: {printable(id_)}: {self._table.problems[row]}"
            )
        start, stop = self._table.starts[row : row + 2].tolist()
        chosen = choose_frames(stop - start, slice_)
        frames = self._read(row, [start + k for k in chosen], id_)
        if self.jpeg_decoder is not None:
            decoded = [self.jpeg_decoder(bytes(frame)) for frame in frames]
        else:
            sums = self._table.checksums
            sums = None if sums is None else sums[[start + k for k in chosen]]
            name = f"{self.data_file_path}: {printable(id_)}"
            decoded = decode_frames(
                frames, sums, self.threads, lambda k: f"{name}, frame {chosen[k]}"
            )
        return decoded, dict(next(iter(self._table.metas[row]), {}))

    def _read(self, row: int, numbers: Sequence[int], id_: str) -> list[memoryview]:
        """Return the encoded frames with these rows of the table, without their padding."""
        table = self._table
        places = [(o, length - pad) for o, pad, length in table.frames[numbers].tolist()]
        path = table.files[table.file[row]]
        try:
            file = self._files.open(path, table.state)
            frames = read_places(file.fd, places)
        except OSError as error:
            raise table.error(f"{path}: {error.strerror}, for {printable(id_)}") from None
        for (offset, size), frame in zip(places, frames, strict=True):
            if len(frame) < size:
                raise table.error(
                    f"{path}: ends inside {size} bytes at {offset}, for {printable(id_)}"
                )
        return frames


class GulpDirectory:
    """Videos of a gulp folder or of a packed dataset, by id.

        directory = GulpDirectory("jester-gulp/validation")
        frames, meta = directory["34870", 0:36:2]

    `directory[id]` returns all frames, `directory[id, frames]` some: a slice, or a list or array of numbers.
    Frames are a list of uint8[H, W, 3] in RGB, [H, W] if they are grey, with the pixels of Pillow and OpenCV;
    `meta` is a dict. An unknown id is a KeyError, a number outside the video an IndexError.

    Thread-safe; works after a fork and under spawn. Data files stay open between accesses. The frames of an
    access are decoded together, on several threads.

    Args:
        output_dir: A folder of `.gulp` and `.gmeta` files, or any path that `headrace.open_dataset` takes. An
            image is a video of one frame. The ids of a gulp find its videos after packing too.
        jpeg_decoder: Called with the bytes of each frame; its results take the place of the arrays.
        threads: The most threads that decode one access. Default: all CPUs of the process, divided among
            the workers of a DataLoader.

    Attributes:
        merged_meta_dict: For each id, `frame_info` with [offset, padding, length] of each frame, and `meta_data`.
        all_meta_dicts: The same, chunk by chunk.
        chunk_lookup: The number of the chunk that has an id.
        chunk_objs_lookup: The chunk with a number.
        num_chunks: The number of chunks.
        label2idx: The number of each label.

    Raises:
        SourceError: There are no videos, or the metadata cannot be read, or two chunks share an id.
        CorruptError: The dataset is damaged.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str],
        jpeg_decoder: JpegDecoder | None = None,
        threads: int | None = None,
    ) -> None:
        self.output_dir, self.jpeg_decoder, self.threads = output_dir, jpeg_decoder, threads
        self._files = OpenFiles()
        open_chunks = self._open_gulp if _is_gulp(Path(output_dir)) else self._open_dataset
        self.chunk_objs_lookup: dict[int, GulpChunk] = open_chunks(Path(output_dir))
        self.all_meta_dicts = [chunk.meta_dict for chunk in self]
        self.num_chunks = len(self.chunk_objs_lookup)
        self.merged_meta_dict: Mapping[str, dict[str, Any]] = MergedMeta(
            self.chunk_lookup, self.chunk_objs_lookup
        )

    def __iter__(self) -> Iterator[GulpChunk]:
        return iter(self.chunk_objs_lookup.values())

    def chunks(self) -> Iterator[GulpChunk]:
        """Iterate over the chunks."""
        return iter(self)

    def __getitem__(self, element: Any) -> Frames:
        id_, slice_ = split_element(element)
        return self.chunk_objs_lookup[self.chunk_lookup[id_]].read_frames(id_, slice_)

    def _open_gulp(self, root: Path) -> dict[int, GulpChunk]:
        found = find_chunks(root)
        tables = [read_gulp_table(chunk) for chunk in found]
        names = [(str(chunk.data), str(chunk.meta)) for chunk in found]
        numbers = number_chunks([chunk.data.name for chunk in found])
        self.chunk_lookup = _merge_ids(root, tables, numbers, {})
        labels = {str(m["label"]) for t in tables for ms in t.metas for m in ms[:1] if "label" in m}
        self.label2idx = read_labels(root, labels)[0]
        return self._make_chunks(numbers, names, tables)

    def _open_dataset(self, path: Path) -> dict[int, GulpChunk]:
        dataset = open_dataset(path)
        tables = read_index_tables(dataset)
        names = [
            (str(dataset.root / shard.data.file if shard.data else dataset.root), index)
            for shard in dataset.manifest.shards
            for index in [str(dataset.path / shard.index.file)]
        ]
        numbers = list(range(len(tables)))
        self.chunk_lookup = _merge_ids(path, tables, numbers, Ids())
        self.label2idx = number_labels(dataset, tables)
        return self._make_chunks(numbers, names, tables)

    def _make_chunks(
        self, numbers: list[int], names: list[tuple[str, str]], tables: list[FrameTable]
    ) -> dict[int, GulpChunk]:
        return {
            number: GulpChunk._over(*paths, table, self._files, self.jpeg_decoder, self.threads)
            for number, paths, table in zip(numbers, names, tables, strict=True)
        }


class MergedMeta(Mapping[str, dict[str, Any]]):
    """The metadata of all chunks as one mapping."""

    def __init__(self, lookup: Mapping[str, int], chunks: Mapping[int, GulpChunk]) -> None:
        self._lookup, self._chunks = lookup, chunks

    def __getitem__(self, id_: str) -> dict[str, Any]:
        return self._chunks[self._lookup[id_]].meta_dict[id_]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lookup)

    def __len__(self) -> int:
        return len(self._lookup)


def split_element(element: Any) -> tuple[str, Any]:
    """Return the id as text and the frames, None for all, of `[id]` or `[id, frames]`."""
    if isinstance(element, tuple) and len(element) == 2:
        return str(element[0]), element[1]
    if isinstance(element, (int, str)):
        return str(element), None
    raise TypeError(f"{element!r:.80}: give an id, or an id and the frames: [id] or [id, 0:36:2]")


def choose_frames(count: int, slice_: Any) -> Sequence[int]:
    """Return the numbers of the frames that a slice, list or array chooses of `count` frames."""
    if slice_ is None:
        return range(count)
    if isinstance(slice_, slice):
        return range(count)[slice_]
    if not isinstance(slice_, (list, np.ndarray)):
        raise TypeError(
            f"{slice_!r:.80}: choose frames by a slice, or by a list or array of numbers"
        )
    numbers = list(map(operator.index, slice_))
    for number in numbers:
        if not -count <= number < count:
            raise IndexError(f"frame {number} of {count}")
    return [number % count for number in numbers]


def number_chunks(names: list[str]) -> list[int]:
    """Return the first number in each name; positions, if a name has none or two have the same."""
    found = [re.search(r"\d+", name) for name in names]
    numbers = [int(match[0]) for match in found if match]
    return numbers if len(set(numbers)) == len(names) else list(range(len(names)))


def _is_gulp(path: Path) -> bool:
    names = os.listdir(path) if path.is_dir() else []
    return any(name.endswith((".gulp", ".gmeta")) for name in names)


def _merge_ids(
    root: Path, tables: Sequence[FrameTable], numbers: Sequence[int], lookup: dict[str, int]
) -> dict[str, int]:
    """Add the number of the chunk of every id to `lookup`. SourceError if there are none, or one is there twice."""
    for table, number in zip(tables, numbers, strict=True):
        if shared := next((id_ for id_ in table.rows if id_ in lookup), None):
            raise SourceError(
                f"{root}: the id {printable(shared)} is in the chunks {lookup[shared]} and {number}"
            )
        lookup.update(dict.fromkeys(table.rows, number))
    if not lookup:
        raise SourceError(f"{root}: no videos in it")
    return lookup
