"""Samples that are one video file each, or a part of one, decoded to JPEG frames when they are read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import SourceChangedError, SourceError
from headrace.files.limits import current_limit
from headrace.files.pread import open_regular
from headrace.formats.codecs.video_file import (
    VideoHeader,
    import_av,
    list_versions,
    read_video_header,
)
from headrace.formats.codecs.video_frames import Span, read_video
from headrace.formats.image_files import MISSING
from headrace.formats.video_options import VideoOptions
from headrace.sample import Sample
from headrace.store.keys import unique_keys
from headrace.work.cancellable import run_cancellable

_UNKNOWN = VideoHeader("", 0, 0, 0.0, None, False)
_MISSING_RATE = 25.0


@dataclass(frozen=True)
class VideoFiles:
    """An `EncodingSource` of video files below `root`: sample `i` is `spans[i]` of the file `files[i]`.

    Opening a source reads no file; PyAV is imported by the first that does.
    """

    root: Path
    files: Sequence[str]
    file_sizes: np.ndarray
    mtimes: np.ndarray
    labels: Sequence[int | None]
    classes: Sequence[str] | None = None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    rows: Sequence[Mapping[str, Any]] = ()
    spans: Sequence[Span] = ()
    """The part of each file; empty if all samples are whole files."""
    left_out: Sequence[str] = ()
    options: VideoOptions = field(default_factory=VideoOptions)
    max_file_size: int = field(default_factory=current_limit)
    names: Sequence[str] = field(init=False)
    keys: Sequence[str] = field(init=False)
    sizes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        import_av()  # a source that cannot be read is an error now
        spans = self.spans or [Span()] * len(self.files)
        names = [name_part(file, span) for file, span in zip(self.files, spans, strict=True)]
        paths = [_path_of_part(file, span) for file, span in zip(self.files, spans, strict=True)]
        if twice := [path for path, count in Counter(paths).items() if count > 1]:
            name = names[paths.index(twice[0])]
            raise SourceError(f"{self.root}: {name!r:.200} is listed twice")
        shared = Counter(self.files)
        counts = np.array([shared[file] for file in self.files], np.int64)
        object.__setattr__(self, "spans", spans)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "keys", unique_keys(paths))
        object.__setattr__(self, "sizes", self.file_sizes // counts)

    @property
    def recipe(self) -> dict[str, Any]:
        """How frames are made: the options, and the versions of what decodes them."""
        return {**asdict(self.options), **list_versions()}

    @property
    def ignored(self) -> Sequence[str]:
        """Files that are not part of the source and, once headers were read, the audio of videos."""
        headers = self.__dict__.get("headers")
        count = len({f for f, h in zip(self.files, headers or ()) if h.has_audio})
        return [*self.left_out, *([f"the audio of {count} videos"] if count else [])]

    @cached_property
    def headers(self) -> list[VideoHeader]:
        """What the headers of the files say, row by row; empty ones for files that cannot be opened."""
        rows = list({file: row for row, file in reversed(list(enumerate(self.files)))}.values())
        found = dict(zip((self.files[r] for r in rows), run_cancellable(self.read_header, rows)))
        return [found[file] for file in self.files]

    def with_options(self, options: VideoOptions) -> VideoFiles:
        """Return the same source with other options; headers that were read are not read again."""
        other = replace(self, options=options)
        if "headers" in self.__dict__:
            other.__dict__["headers"] = self.headers
        return other

    def estimate_sizes(self) -> np.ndarray:
        """Return about how many bytes each sample will have, from the headers of the files."""
        sizes = [self._estimate(row, header) for row, header in enumerate(self.headers)]
        return np.array(sizes, np.int64)

    def count_frames(self, row: int) -> float:
        """Return about how many frames a sample will have."""
        header, span = self.headers[row], self.spans[row]
        end = header.seconds if span.end is None else min(span.end, header.seconds)
        rate = self.options.fps or header.fps or _MISSING_RATE
        return max(1.0, (end - span.start) * rate)

    def _estimate(self, row: int, header: VideoHeader) -> int:
        if header is _UNKNOWN:
            return int(self.file_sizes[row])
        frame = self.options.estimate_frame(max(1, header.width), max(1, header.height))
        return int(self.count_frames(row) * frame)

    def read_header(self, row: int) -> VideoHeader:
        """Return what the header of a file says; an empty one if it cannot be opened."""
        try:
            with self.open_file(row) as fd:
                return read_video_header(fd)
        except SourceError:
            return _UNKNOWN

    def read(self, i: int) -> Sample:
        """Return the frames of a video, one after the other."""
        with self.open_file(i) as fd:
            video = read_video(fd, self.options, self.spans[i], self.max_file_size)
            if _state(fd) != (self.file_sizes[i], self.mtimes[i]):
                raise SourceChangedError("the file changed while it was read")
        return Sample(
            key=self.keys[i],
            fields={"mjpg": b"".join(video.frames)},
            label=self.labels[i],
            columns=self.rows[i] if self.rows else {},
            frames={"mjpg": [len(frame) for frame in video.frames]},
            fps={} if video.fps is None else {"mjpg": video.fps},
            times={} if video.times is None else {"mjpg": video.times},
        )

    @contextmanager
    def open_file(self, i: int) -> Iterator[int]:
        """Yield a descriptor of a file that is still what it was when the source was listed."""
        if self.mtimes[i] == MISSING:
            raise SourceError(f"no such file below {self.root}")
        try:
            fd = open_regular(self.root / self.files[i])
        except FileNotFoundError:
            if self.mtimes[i] < 0:
                raise SourceError("cannot be read: a link to nowhere") from None
            raise SourceChangedError("the file vanished after the source was listed") from None
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror}") from None
        try:
            if _state(fd) != (self.file_sizes[i], self.mtimes[i]):
                raise SourceChangedError("the file changed after the source was listed")
            yield fd
        finally:
            os.close(fd)


def _state(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_size, info.st_mtime_ns


def name_part(file: str, span: Span) -> str:
    """Return what messages call a part of a file: `a.mp4`, or `a.mp4 (2.5 to 4 s)`."""
    if span == Span():
        return file
    end = "the end" if span.end is None else f"{span.end:g} s"
    return f"{file} ({span.start:g} to {end})"


def _path_of_part(file: str, span: Span) -> str:
    """Return the path that the key of a part is made from: `a_2500_4000.mp4`, in milliseconds."""
    if span == Span():
        return file
    stem, dot, suffix = file.rpartition(".")
    end = "end" if span.end is None else f"{round(span.end * 1000)}"
    return f"{stem}_{round(span.start * 1000)}_{end}{dot}{suffix}"
