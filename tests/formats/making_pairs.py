"""Small sources of images with masks and annotations, for the tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from images import encode


def write_photo(path: Path, height: int = 20, width: int = 30, seed: int = 0) -> Path:
    """A JPEG, or a PNG by its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "PNG" if path.suffix.lower() == ".png" else "JPEG"
    path.write_bytes(encode(height, width, seed=seed, format=kind))
    return path


def write_mask(path: Path, height: int = 20, width: int = 30) -> Path:
    """A grey PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(height, width, format="PNG", mode="L"))
    return path


def write_pairs(
    root: Path, images: str = "images", masks: str = "masks", count: int = 5, tail: str = ""
) -> Path:
    """A folder of photos and a folder of masks, of different sizes."""
    for i in range(count):
        write_photo(root / images / f"p{i}.jpg", 20 + i, 30 + i, i)
        write_mask(root / masks / f"p{i}{tail}.png", 20 + i, 30 + i)
    return root


def voc_object(name: str, box: Sequence[float], extra: str = "") -> str:
    sides = zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    inside = "".join(f"<{side}>{value}</{side}>" for side, value in sides)
    return f"<object><name>{name}</name>{extra}<bndbox>{inside}</bndbox></object>"


def write_voc(root: Path, objects: dict[str, str]) -> Path:
    """Photos and annotations, by stem."""
    (root / "Annotations").mkdir(parents=True)
    for i, (stem, inside) in enumerate(objects.items()):
        write_photo(root / f"JPEGImages/{stem}.jpg", seed=i)
        text = f"<annotation><folder>VOC</folder>{inside}</annotation>"
        (root / f"Annotations/{stem}.xml").write_text(text)
    return root


VOC = {
    "a": voc_object("dog", (1, 2, 10, 12.5), "<difficult>1</difficult>")
    + voc_object("cat", (3, 3, 9, 9), "<truncated>1</truncated><part><name>head</name></part>"),
    "b": "",
    "c": voc_object("dog", (5, 6, 7, 8)),
}


def coco_content() -> dict[str, Any]:
    """Three images, one without annotations, and categories whose ids have gaps."""
    return {
        "images": [
            {"id": 9, "file_name": "b.jpg", "height": 20, "width": 30},
            {"id": 4, "file_name": "deep/a.jpg", "height": 20, "width": 30},
            {"id": 5, "file_name": "c.jpg", "height": 20, "width": 30},
        ],
        "annotations": [
            {"id": 1, "image_id": 4, "category_id": 90, "bbox": [1, 2, 10.5, 4], "area": 30.5,
             "iscrowd": 0, "segmentation": [[1, 2, 3, 4, 5, 6]]},
            {"id": 2, "image_id": 9, "category_id": 3, "bbox": [0, 0, 5, 5], "iscrowd": 1},
            {"id": 3, "image_id": 4, "category_id": 3, "bbox": [2, 2, 1, 1], "area": 1},
        ],
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 3, "name": "car"}],
    }  # fmt: skip


def write_coco(root: Path, content: Any) -> Path:
    """The images of `coco_content`, and `instances.json` beside their folder, which is returned."""
    for name in ("b.jpg", "deep/a.jpg", "c.jpg"):
        write_photo(root / "images" / name, seed=len(name))
    (root / "instances.json").write_text(json.dumps(content))
    return root / "images"
