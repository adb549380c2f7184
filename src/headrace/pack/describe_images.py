"""The notes that an index keeps about images, videos and arrays: headers, seek tables, frame sizes, shapes."""

from __future__ import annotations

import io
from contextlib import nullcontext, suppress

from PIL import Image

from headrace import _core
from headrace.errors import SourceError
from headrace.formats.codecs.arrays import read_npy_header
from headrace.image_header import blame_image, read_header, read_orientation
from headrace.pack.recognise_kinds import recognise_kinds
from headrace.sample import Sample, is_array_field, is_image_field, is_video_field
from headrace.store.index_schema import ArrayNote, Described, ImageNote, Note, VideoNote

_NATIVE = frozenset({"baseline", "grey", "non-interleaved", "progressive"})
_MAX_AXIS = 2**31 - 1  # heights and widths are int32


def describe_sample(sample: Sample, *, keep_damaged: bool = False) -> Described:
    """Return the sample with notes on its images, videos and arrays, and with the kinds of its fields.

    SourceError if an image or a video is damaged.

    Args:
        sample: The sample.
        keep_damaged: Whether a damaged field has no note instead of being an error.
    """
    notes: dict[str, Note] = {}
    for name, data in sample.items():
        with suppress(SourceError) if keep_damaged else nullcontext():
            if is_image_field(name):
                notes[name] = describe_image(data)._replace(recoded=sample.recoded.get(name))
            elif is_video_field(name):
                notes[name] = describe_video(sample, name)
            elif is_array_field(name) and (note := describe_array(data)) is not None:
                notes[name] = note
    return Described(sample, notes, recognise_kinds(sample, notes))


def describe_image(data: bytes) -> ImageNote:
    """Return the header and the seek table of an image. JPEGs for the core are read to their end."""
    header, orientation = read_header(data), read_orientation(data)
    if header.kind not in _NATIVE:
        return ImageNote(header, b"", orientation)
    status, seek = _core.build_seek(data)
    if status == 0 and not seek:  # too small for a table, truncated or progressive: it was not read
        status = _core.decode_jpeg(data)[0]
    if status != 0:
        _check_with_pillow(data)
    return ImageNote(header, seek, orientation)


def describe_array(data: bytes) -> ArrayNote | None:
    """Return type and shape of a `.npy` array; None if it is damaged or does not hold numbers."""
    try:
        shape, _, dtype, _ = read_npy_header(data)
    except SourceError:
        return None
    if dtype.kind not in "biuf" or max(shape, default=0) > _MAX_AXIS:
        return None
    return ArrayNote(dtype.name, shape)


def check_pixels(described: Described) -> Described:
    """Return its argument. SourceError if an image does not decode of which only the header was read."""
    for name, note in described.notes.items():
        if isinstance(note, ImageNote) and note.header.kind not in _NATIVE:
            _check_with_pillow(described.sample[name])
    return described


def describe_video(sample: Sample, name: str) -> VideoNote:
    """Return the note of a video. SourceError if its frames do not fill the field exactly.

    A frame that the core does not decode has no seek table; whoever renders it says what is wrong with it.
    """
    size, frames = len(sample[name]), sample.frames.get(name, ())
    if not frames or min(frames) <= 0 or sum(frames) != size:
        raise SourceError(f"a video of {size} bytes whose {len(frames)} frames do not add up")
    times = sample.times.get(name)
    if times is not None and len(times) != len(frames):
        raise SourceError(f"a video of {len(frames)} frames with {len(times)} times")
    pictures = sample.split_frames(name)
    seeks = [_core.build_seek(picture)[1] for picture in pictures]
    return VideoNote(read_header(pictures[0]), frames, seeks, sample.fps.get(name), times)


def _check_with_pillow(data: bytes) -> None:
    """Raise SourceError if Pillow, which tolerates more than the native decoder, fails too."""
    with blame_image("does not decode"), Image.open(io.BytesIO(data)) as image:
        image.load()
