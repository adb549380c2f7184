"""`headrace show`: a contact sheet of samples, with masks, boxes and points over their images.

A video is a strip of its frames.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from PIL import Image, ImageDraw

from headrace.cli.draw_targets import choose_pictures, draw_targets
from headrace.cli.open_path import SourceView, open_samples
from headrace.cli.source_options import (
    Annotations,
    AnyPath,
    Fields,
    LayoutOption,
    parse_fields,
)
from headrace.cli.terminal import AsJson, print_json
from headrace.errors import SourceError
from headrace.formats.source import state_kinds
from headrace.formats.video_files import VideoFiles
from headrace.image_header import blame_image
from headrace.pack.describe_images import describe_sample
from headrace.read.dataset import Dataset
from headrace.sample import Sample, is_array_field, is_video_field, picture_fields
from headrace.store.durable import write_durable
from headrace.store.field_kinds import FoundKinds

_CAPTION = 14
_MOST_PIXELS = 100_000_000
_STRIP = 8  # frames of a video
_TRIED = 8


def show(
    path: AnyPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="Image file to write.")] = Path(
        "contact.png"
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    count: Annotated[
        int, typer.Option(min=1, help="Number of samples, spread over the dataset.")
    ] = 48,
    size: Annotated[int, typer.Option(min=16, help="Longer side of an image, in pixels.")] = 128,
    layout: LayoutOption = None,
    field: Fields = None,
    annotations: Annotations = None,
    as_json: AsJson = False,
) -> None:
    """Write a contact sheet of samples with their labels, masks, boxes and points."""
    _check_free(out, force)
    dataset = open_samples(
        path,
        layout.value if layout else None,
        fields=parse_fields(field),
        annotations=annotations,
    )
    count = min(count, len(dataset))
    rows = [i * len(dataset) // count for i in range(count)]
    encoded = io.BytesIO()
    draw_sheet(dataset, rows, size).save(
        encoded, Image.registered_extensions().get(out.suffix.lower(), "PNG")
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    _check_free(out, force)  # again: drawing may take long
    write_durable(out, encoded.getvalue())
    if as_json:
        print_json({"path": str(out), "samples": rows})
    else:
        print(f"{out}: {count} of {len(dataset)} samples")


def _check_free(out: Path, force: bool) -> None:
    if os.path.lexists(out) and not force:
        raise FileExistsError(
            f"{out}: exists already; choose another --out, or overwrite it with --force"
        )


def draw_sheet(dataset: Dataset | SourceView, rows: list[int], size: int) -> Image.Image:
    """Return the images, or strips of frames, in a grid with captions; a text replaces what cannot be decoded."""
    wide = size * _count_cells(dataset, rows)
    across = max(1, math.ceil(math.sqrt(len(rows) * 4 / 3 * size / wide)))
    down = math.ceil(len(rows) / across)
    if across * wide * down * (size + _CAPTION) > _MOST_PIXELS:
        raise ValueError(
            f"contact sheet too large: {across * wide} x {down * (size + _CAPTION)} pixels; "
            "choose a smaller --size or --count"
        )
    sheet = Image.new("RGB", (across * wide, down * (size + _CAPTION)), "white")
    pen = ImageDraw.Draw(sheet)
    for place, row in enumerate(rows):
        left, top = place % across * wide, place // across * (size + _CAPTION)
        sample, picture = _draw_row(dataset, row, size)
        sheet.paste(
            picture, (left + (wide - picture.width) // 2, top + (size - picture.height) // 2)
        )
        text = _caption(sample, dataset.classes)[: wide // 6]
        pen.text((left + 2, top + size + 1), text, fill="black")
    return sheet


def _count_cells(dataset: Dataset | SourceView, rows: list[int]) -> int:
    """Return how many pictures a sample has side by side, by the first one that can be read."""
    if _has_videos(dataset):
        return _STRIP
    for row in rows[:_TRIED]:
        try:
            sample = dataset[row]
            return max(1, len(choose_pictures(sample, _find_kinds(dataset, sample))))
        except SourceError:
            continue
    return 1


def _find_kinds(dataset: Dataset | SourceView, sample: Sample) -> FoundKinds:
    """Return the kinds of the fields of a dataset, or of a sample of a source."""
    if isinstance(dataset, Dataset):
        return dataset.manifest.field_kinds
    found = describe_sample(sample, keep_damaged=True).field_kinds
    return {**found, **state_kinds(dataset.source)}


def _has_videos(dataset: Dataset | SourceView) -> bool:
    """Return whether the samples are videos, of a source by the first one that can be read."""
    if isinstance(dataset, Dataset):
        return any(map(is_video_field, dataset.manifest.fields))
    if isinstance(dataset.source, VideoFiles):
        return True
    try:
        return any(map(is_video_field, dataset[0]))
    except SourceError:
        return False


def _draw_row(dataset: Dataset | SourceView, row: int, size: int) -> tuple[Sample, Image.Image]:
    try:
        sample = dataset[row]
    except SourceError:
        name = dataset.source.names[row] if isinstance(dataset, SourceView) else str(row)
        return Sample(name, {}), _draw_blank("unreadable", size)
    return sample, _draw_sample(dataset, sample, size)


def _draw_sample(dataset: Dataset | SourceView, sample: Sample, size: int) -> Image.Image:
    """Return the images of a sample side by side, a strip of frames of its video, or its array of pixels."""
    try:
        with blame_image("damaged"):
            if video := next((name for name in sample if name in sample.frames), None):
                return _draw_strip(sample.split_frames(video), size)
            found = _find_kinds(dataset, sample)
            names = choose_pictures(sample, found)
            classes = dataset.classes
            pictures = [_draw_picture(sample, n, found, classes, size) for n in names]
            if not pictures and (picture := _find_picture(sample)) is not None:
                picture.thumbnail((size - 4, size - 4))
                pictures = [picture]
    except SourceError:
        return _draw_blank("damaged", size)
    if not pictures:
        return _draw_blank("no image", size)
    return pictures[0] if len(pictures) == 1 else _join_pictures(pictures, size)


def _draw_picture(
    sample: Sample, name: str, found: FoundKinds, classes: Sequence[str] | None, size: int
) -> Image.Image:
    """Return an image of a sample with its targets over it."""
    picture = _decode_picture(sample, name)
    whole = picture.size
    picture.thumbnail((size - 4, size - 4))
    return draw_targets(picture, name, whole, sample, found, classes)


def _decode_picture(sample: Sample, name: str) -> Image.Image:
    if is_array_field(name):
        picture = _draw_array(np.load(io.BytesIO(sample[name]), allow_pickle=False))
        assert picture is not None, "an array is an image by its type and shape"
        return picture
    with Image.open(io.BytesIO(sample[name])) as image:
        return image.convert("RGB")


def _draw_strip(frames: list[bytes], size: int) -> Image.Image:
    """Return some frames side by side, evenly spaced from the first to the last."""
    count = min(_STRIP, len(frames))
    rows = [k * (len(frames) - 1) // max(1, count - 1) for k in range(count)]
    pictures = []
    for row in rows:
        with Image.open(io.BytesIO(frames[row])) as image:
            picture = image.convert("RGB")
        picture.thumbnail((size - 4, size - 4))
        pictures.append(picture)
    return _join_pictures(pictures, size)


def _join_pictures(pictures: Sequence[Image.Image], size: int) -> Image.Image:
    """Return pictures side by side, each in the middle of its cell."""
    strip = Image.new("RGB", (len(pictures) * size, size - 4), "white")
    for place, picture in enumerate(pictures):
        left = place * size + (size - picture.width) // 2
        strip.paste(picture, (left, (strip.height - picture.height) // 2))
    return strip


def _find_picture(sample: Sample) -> Image.Image | None:
    for name in picture_fields(sample):
        with Image.open(io.BytesIO(sample[name])) as image:
            return image.convert("RGB")
    for name, data in sample.items():
        if name.rpartition(".")[2] == "npy":
            array = np.load(io.BytesIO(data), allow_pickle=False)
            if (picture := _draw_array(array)) is not None:
                return picture
    return None


def _draw_array(array: np.ndarray) -> Image.Image | None:
    """Return an array as an image, assuming OpenCV's order: grey, or blue, green, red, alpha."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    is_colour = array.ndim == 3 and array.shape[2] in (3, 4)
    if array.dtype != np.uint8 or not array.size or not (is_colour or array.ndim == 2):
        return None
    pixels = array[..., 2::-1] if is_colour else array
    return Image.fromarray(np.ascontiguousarray(pixels)).convert("RGB")


def _draw_blank(reason: str, size: int) -> Image.Image:
    blank = Image.new("RGB", (size - 4, size - 4), "lightgrey")
    ImageDraw.Draw(blank).text((4, 4), reason, fill="black")
    return blank


def _caption(sample: Sample, classes: object) -> str:
    if sample.label is None:
        text = sample.key
    elif isinstance(classes, list) and 0 <= sample.label < len(classes):
        text = classes[sample.label]
    else:
        text = str(sample.label)
    return text.encode("latin-1", "replace").decode(
        "latin-1"
    )  # the built-in font has no other characters
