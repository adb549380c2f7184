"""Draws masks, boxes and points over the image that they belong to, for `headrace show`."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from colorsys import hsv_to_rgb
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from headrace import kinds
from headrace.formats.codecs.arrays import decode_npy
from headrace.sample import Sample, is_array_field, picture_fields
from headrace.store.field_kinds import FoundKinds

MOST_PICTURES = 4
_OPAQUE = 0.5
_GOLDEN = 0.618034  # of a turn: hues that follow one another are far apart
_DOT = "#ff00c8"
_DOTS = 6  # pixels between dots, at least
_LINE = 12  # height of a text
_COLOURS = (
    "#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#800000", "#808000", "#000075",
)  # fmt: skip


def choose_pictures(sample: Sample, found: FoundKinds) -> list[str]:
    """Return the images of a sample to draw: its picture and those that have targets; all if it has no one picture."""
    images = [n for n, kind in found.items() if isinstance(kind, kinds.Image) and n in sample]
    first = picture_fields(images)
    if len(first) == 1:
        owners = {_get_owner(kind) for kind in found.values()} - {None}
        others = [n for n in images if n not in first and _drop_suffix(n) in owners]
        return [*first, *others][:MOST_PICTURES]
    return images[:MOST_PICTURES]


def draw_targets(
    picture: Image.Image,
    name: str,
    size: tuple[int, int],
    sample: Sample,
    found: FoundKinds,
    classes: Sequence[str] | None,
) -> Image.Image:
    """Return the picture with the targets of its field over it, masks first.

    Args:
        picture: The image, shrunk.
        name: Its field.
        size: Width and height that it has in the sample.
        sample: The sample.
        found: The kinds of its fields and columns.
        classes: The names of classes.
    """
    own = {n: kind for n, kind in found.items() if kind is not None and _belongs(kind, name, sample, found)}  # fmt: skip
    scale = np.array([picture.width / size[0], picture.height / size[1]])
    for target, kind in own.items():
        if isinstance(kind, kinds.Mask) and target in sample:
            picture = _lay_mask(picture, _read_mask(sample[target]), kind.fill)
    pen = ImageDraw.Draw(picture)
    for target, kind in own.items():
        if isinstance(kind, kinds.Boxes):
            boxes = _read_numbers(sample, target, 4)
            labels = _name_labels(sample, kind, len(boxes), classes)
            _draw_boxes(pen, _as_corners(boxes, kind.format) * np.tile(scale, 2), labels)
        elif isinstance(kind, kinds.Points):
            _draw_points(pen, _read_grid(sample, target, scale, picture.size), picture.size)
    return picture


def _get_owner(kind: kinds.Kind | None) -> str | None:
    of = getattr(kind, "of", None)
    return None if of is None else _drop_suffix(of)


def _drop_suffix(name: str) -> str:
    return name.rpartition(".")[0] or name


def _belongs(kind: kinds.Kind, image: str, sample: Sample, found: FoundKinds) -> bool:
    """Return whether a target belongs to an image: the one that it names, or the first of the sample."""
    of = getattr(kind, "of", None)
    if of is not None:
        return of in (image, image.rpartition(".")[0])
    return [image] == choose_pictures(sample, found)[:1]


def _read_mask(data: bytes) -> NDArray[Any]:
    """Return labels [H, W], or colours [H, W, 3]."""
    if data[:6] == b"\x93NUMPY":
        return decode_npy(data)
    with Image.open(io.BytesIO(data)) as image:
        is_labels = image.mode in ("1", "L", "P", "I") or image.mode.startswith("I;16")
        array: NDArray[Any] = np.asarray(image if is_labels else image.convert("RGB"))
    return array.astype(np.uint8) if array.dtype == bool else array


def _lay_mask(picture: Image.Image, mask: NDArray[Any], fill: int) -> Image.Image:
    """Return the picture with the colours of labels over it, but for those of the label `fill`."""
    rows = np.arange(picture.height) * mask.shape[0] // picture.height
    columns = np.arange(picture.width) * mask.shape[1] // picture.width
    labels = mask[rows[:, None], columns]
    if labels.ndim == 2:
        shown = (labels != fill)[..., None]
        colours = make_palette()[labels.astype(np.int64) % 256]
    else:
        shown, colours = np.ones((*labels.shape[:2], 1), bool), labels
    mixed = np.asarray(picture) * (1 - _OPAQUE) + colours * _OPAQUE
    return Image.fromarray(np.where(shown, mixed, np.asarray(picture)).astype(np.uint8))


def make_palette() -> NDArray[np.uint8]:
    """Return colours for the labels 0 to 255, [256, 3]: 0 is black, and neighbours have unlike hues."""
    shades = ((1.0, 1.0), (0.6, 1.0), (1.0, 0.6))  # saturation and value
    colours = [hsv_to_rgb(k * _GOLDEN % 1, *shades[k % 3]) for k in range(255)]
    palette = np.array([(0, 0, 0), *colours]) * 255
    return palette.round().astype(np.uint8)


def _read_numbers(sample: Sample, name: str, width: int) -> NDArray[np.float64]:
    """Return the numbers of a field or a column as float64[N, width]; nothing if they are something else."""
    try:
        value = decode_npy(sample[name]) if is_array_field(name) else sample.columns.get(name)
        numbers = np.array(value if value is not None else [], np.float64)
    except ValueError:
        numbers = np.zeros(0)
    return numbers.reshape(-1, width) if numbers.shape[-1:] == (width,) else np.zeros((0, width))


def _as_corners(boxes: NDArray[np.float64], format: kinds.BoxFormat) -> NDArray[np.float64]:
    first, second = boxes[:, :2], boxes[:, 2:]
    if format == "xywh":
        second = first + second
    elif format == "cxcywh":
        first, second = first - second / 2, first + second / 2
    return np.concatenate([first, second], 1)


def _name_labels(
    sample: Sample, kind: kinds.Boxes, count: int, classes: Sequence[str] | None
) -> list[tuple[int, str]]:
    """Return the label of each box as a number and in words."""
    columns: Mapping[str, Any] = sample.columns
    name = next((n for n in ("labels", *kind.columns) if n in columns), None)
    values = columns[name] if name in kind.columns else None
    if not isinstance(values, list) or len(values) != count:
        return [(0, "")] * count
    numbers = [value if isinstance(value, int) else 0 for value in values]
    if classes is None:
        return [(number, str(number)) for number in numbers]
    return [(n, classes[n] if 0 <= n < len(classes) else str(n)) for n in numbers]


def _draw_boxes(
    pen: ImageDraw.ImageDraw, boxes: NDArray[np.float64], labels: Sequence[tuple[int, str]]
) -> None:
    """Draw the outlines of boxes, with their names in those that have the room."""
    corners = np.sort(np.nan_to_num(boxes).reshape(-1, 2, 2), axis=1).reshape(-1, 4)
    for box, (number, text) in zip(corners.round().tolist(), labels, strict=True):
        left, top, right, bottom = box
        colour = _COLOURS[number % len(_COLOURS)]
        pen.rectangle((left, top, right, bottom), outline=colour)
        text = text.encode("latin-1", "replace").decode("latin-1")
        width = pen.textlength(text) + 2
        if text and width <= right - left and bottom - top > _LINE:
            pen.rectangle((left, top, left + width, top + _LINE), fill=colour)
            pen.text((left + 2, top), text, fill="white")


def _read_grid(
    sample: Sample, name: str, scale: NDArray[np.float64], size: tuple[int, int]
) -> NDArray[np.float64]:
    """Return points as float64[N, 2] in pixels of the picture; of a dense grid, some of its rows and columns."""
    points = _read_numbers(sample, name, 2) * scale
    if is_array_field(name):
        shape = decode_npy(sample[name]).shape
        if len(shape) == 3:
            steps = [
                max(1, -(-n * _DOTS // side)) for n, side in zip(shape, size[::-1], strict=False)
            ]
            points = points.reshape(shape)[:: steps[0], :: steps[1]].reshape(-1, 2)
    return points


def _draw_points(
    pen: ImageDraw.ImageDraw, points: NDArray[np.float64], size: tuple[int, int]
) -> None:
    """Draw a dot for each point, with a dark rim if the picture is large."""
    radius = 1 if max(size) < 300 else 2
    for x, y in points[np.isfinite(points).all(1)].tolist():
        around = (x - radius, y - radius, x + radius, y + radius)
        pen.ellipse(around, fill=_DOT, outline="black" if radius > 1 else None)
