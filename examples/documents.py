"""Load warped documents with their control points (unified_doc_dataset, Triple-Mix-Doc), and draw them.

    python examples/documents.py                          # makes some documents, and draws documents.png
    python examples/documents.py warp24.lmdb              # packs the database into documents-shards first
    python examples/documents.py 'databases/*.lmdb'       # several databases are one dataset
    python examples/documents.py documents-shards --size 288 --seed 3

A document is four images: two warps, d1 and d2, each with 61 x 61 control points in pixels of its image;
the photo w1; and the flat original di. One transform crops, resizes and flips all of them, and the control
points follow their warps. The picture has a row per document, with every sixth line of the control points
drawn over d1 and d2.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import headrace
from headrace.transforms import ColorJitter, RandomHorizontalFlip, RandomResizedCrop

FIELDS = ("d1", "d1.label", "d2", "d2.label", "w1", "di")
POINTS = 61
DRAWN = 6  # of so many lines of control points, one is drawn


def main() -> None:
    args = parse_arguments()
    source = args.data or make_database(Path("documents.lmdb"), args.count)
    loader = make_loader(open_packed(source, args.shards), args.batch_size, args.size, args.seed)
    print(loader)
    batch = next(iter(loader))
    for name, value in zip(FIELDS, batch, strict=True):
        print(f"{name:9} {value.dtype}{list(value.shape)}")
    draw_batch(batch).save(args.out)
    print(f"drew {len(batch.rows)} documents into {args.out}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add(
        "data", nargs="?", metavar="DATA", help="LMDB, folder or pattern of them, or packed dataset"
    )
    add("--shards", type=Path, default=Path("documents-shards"), help="where DATA is packed to")
    add("--count", type=int, default=8, help="documents to make if there is no DATA")
    add("-b", "--batch-size", type=int, default=4, help="documents to load and draw")
    add("--size", type=int, default=224, help="side of the images of a batch in pixels")
    add("--seed", type=int, default=0)
    add("--out", type=Path, default=Path("documents.png"), help="picture to write")
    return parser.parse_args()


def open_packed(source: str | Path, shards: Path) -> headrace.Dataset:
    """Open a packed dataset; pack any other one into `shards` first, at once if it is there already."""
    if (Path(source) / "headrace.json").exists():
        return headrace.open_dataset(source)
    summary = headrace.pack_dataset(source, shards)
    print(f"packed {summary.samples} documents of {source} into {shards}")
    return headrace.open_dataset(shards)


def make_loader(
    dataset: headrace.Dataset, batch_size: int, size: int, seed: int = 0
) -> headrace.Loader:
    """Return a loader of all images and control points. `headrace.torch.Loader` gives tensors instead."""
    return headrace.Loader(
        dataset,
        batch_size,
        shuffle=True,
        seed=seed,
        fields=FIELDS,
        transform=[
            RandomResizedCrop(size, scale=(0.4, 1.0)),
            RandomHorizontalFlip(),
            ColorJitter(0.3, 0.3, 0.3),
        ],
    )


def draw_batch(batch: Any) -> Image.Image:
    """Return a picture with a row per document: both warps with their control points, the photo, the original."""
    rows = []
    for d1, first, d2, second, w1, di in zip(*batch, strict=True):
        rows.append(np.hstack([draw_grid(d1, first), draw_grid(d2, second), w1, di]))
    return Image.fromarray(np.vstack(rows))


def draw_grid(pixels: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return an image with every sixth row and column of its control points as lines."""
    image = Image.fromarray(pixels)
    pen = ImageDraw.Draw(image)
    for line in (*points[::DRAWN], *points[:, ::DRAWN].swapaxes(0, 1)):
        pen.line([tuple(point) for point in line.tolist()], fill=(220, 30, 30))
    return np.asarray(image)


def make_database(path: Path, count: int) -> Path:
    """Write documents in the layout of unified_doc_dataset; needs `pip install lmdb`."""
    records = (record for number in range(count) for record in make_document(number))
    return path if path.exists() else write_database(path, records)


def write_database(path: Path, records: Iterator[tuple[str, dict[str, np.ndarray]]]) -> Path:
    """Write pickled records under their keys, as unified_doc_dataset does."""
    import lmdb

    with lmdb.open(str(path), map_size=1 << 34) as database, database.begin(write=True) as writing:
        for key, record in records:
            writing.put(key.encode(), pickle.dumps(record, 4))
    return path


def make_document(number: int) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield the four records of a document, images in OpenCV's order of channels."""
    rng = np.random.default_rng(number)
    flat = make_page(rng)
    name = f"0_{number:04d}_{number}"
    for part in ("d1", "d2"):
        image, points = warp(flat, make_grid(flat), *rng.uniform(6, 20, 2), *rng.uniform(0, 6, 2))
        yield f"{name}_{part}", {"image": image[..., ::-1], "label": points}
    photo, _ = warp(flat, make_grid(flat), *rng.uniform(6, 20, 2), *rng.uniform(0, 6, 2))
    light = np.linspace(0.5, 1.0, photo.shape[1])[:, None]
    yield f"{name}_w1", {"image": (photo * light).astype(np.uint8)[..., ::-1]}
    yield f"{name}_di", {"image": flat[..., ::-1]}


def make_page(rng: np.random.Generator, height: int = 420, width: int = 320) -> np.ndarray:
    """Return a page with a coloured heading and lines of grey words, uint8[H, W, 3], on a dark table."""
    image = Image.new("RGB", (width, height), (60, 50, 45))
    pen = ImageDraw.Draw(image)
    pen.rectangle((30, 30, width - 31, height - 31), fill=(240, 238, 230))
    pen.rectangle((48, 46, 200, 60), fill=tuple(rng.integers(0, 180, 3).tolist()))
    for top in range(80, height - 60, 14):
        left = 48
        while (right := left + int(rng.integers(8, 40))) < width - 48:
            pen.rectangle((left, top, right, top + 6), fill=(90, 90, 95))
            left = right + 6
    return np.array(image)


def make_grid(flat: np.ndarray) -> np.ndarray:
    """Return the control points of a flat page, float64[61, 61, 2] as (x, y)."""
    height, width = flat.shape[:2]
    ys, xs = np.linspace(30, height - 31, POINTS), np.linspace(30, width - 31, POINTS)
    return np.stack(np.meshgrid(xs, ys), axis=2)


def warp(
    flat: np.ndarray, grid: np.ndarray, across: float, down: float, start: float, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """Move the rows of a page along a sine, then its columns; return the image, and where its points are."""
    height, width = flat.shape[:2]
    xs, ys = np.arange(width), np.arange(height)

    def shift_rows(y: np.ndarray) -> np.ndarray:
        return across * np.sin(start + 4 * y / height)

    def shift_columns(x: np.ndarray) -> np.ndarray:
        return down * np.sin(end + 4 * x / width)

    sources = (xs - shift_rows(ys)[:, None]).round().astype(int).clip(0, width - 1)
    image = flat[ys[:, None], sources]
    sources = (ys[:, None] - shift_columns(xs)).round().astype(int).clip(0, height - 1)
    image = image[sources, xs]
    x = grid[..., 0] + shift_rows(grid[..., 1])
    y = grid[..., 1] + shift_columns(x)
    return image, np.stack([x, y], axis=2)


if __name__ == "__main__":
    main()
