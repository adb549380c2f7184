"""`penstock show`: a contact sheet, so that one sees what is in a data set."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Annotated

import typer
from PIL import Image, ImageDraw

from penstock.cli.terminal import print_json
from penstock.read.dataset import Dataset, open_dataset
from penstock.sample import Sample, is_image_field

_CAPTION = 14


def show(
    dst: Annotated[Path, typer.Argument(help="A packed or indexed data set.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The PNG to write.")] = Path(
        "contact.png"
    ),
    count: Annotated[
        int, typer.Option(min=1, help="How many samples, spread over the data set.")
    ] = 48,
    size: Annotated[int, typer.Option(min=16, help="Pixels of a picture's longer side.")] = 128,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what is on the sheet as JSON.")
    ] = False,
) -> None:
    """Write a contact sheet of samples with their labels."""
    dataset = open_dataset(dst)
    count = min(count, len(dataset))
    rows = [i * len(dataset) // count for i in range(count)]
    draw_sheet(dataset, rows, size).save(out)
    if as_json:
        print_json({"path": str(out), "samples": rows})
    else:
        print(f"{out}: {count} of {len(dataset)} samples")


def draw_sheet(dataset: Dataset, rows: list[int], size: int) -> Image.Image:
    """Pictures of the samples in a grid, captions below; what does not decode is said in its place."""
    across = max(1, math.ceil(math.sqrt(len(rows) * 4 / 3)))
    down = math.ceil(len(rows) / across)
    sheet = Image.new("RGB", (across * size, down * (size + _CAPTION)), "white")
    pen = ImageDraw.Draw(sheet)
    for place, row in enumerate(rows):
        left, top = place % across * size, place // across * (size + _CAPTION)
        sample = dataset[row]
        picture = _draw_sample(sample, size)
        sheet.paste(
            picture, (left + (size - picture.width) // 2, top + (size - picture.height) // 2)
        )
        text = _caption(sample, dataset.classes)[: size // 6]
        pen.text((left + 2, top + size + 1), text, fill="black")
    return sheet


def _draw_sample(sample: Sample, size: int) -> Image.Image:
    name = next((name for name in sample if is_image_field(name)), None)
    reason = "no image"
    if name is not None:
        try:
            with Image.open(io.BytesIO(sample[name])) as image:
                picture = image.convert("RGB")
                picture.thumbnail((size - 4, size - 4))
                return picture
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            reason = "damaged"
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
    return text.encode("latin-1", "replace").decode("latin-1")  # what the built-in font can draw
