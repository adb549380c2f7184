"""Combinations of fields, kinds, views and Python that must not be silently wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace
from formats.making import write_tar
from headrace.kinds import Boxes, Map, Mask
from headrace.kinds import Image as ImageKind
from headrace.transforms import (
    Clip,
    Normalize,
    OnArray,
    RandomHorizontalFlip,
    RandomResize,
    Resize,
    Sanitize,
    Views,
)
from serve.test_masks import save

torch = pytest.importorskip("torch")


def encode(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    if array.dtype == np.uint8 and array.ndim == 3:
        Image.fromarray(array).save(out, "PNG")
    else:
        np.save(out, array)
    return out.getvalue()


def photo(height: int = 20, width: int = 30, level: int = 9) -> bytes:
    return encode(np.full((height, width, 3), level, np.uint8))


def write(folder: Path, samples: Mapping[str, Mapping[str, bytes]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        f"{key}.{name}": data for key, sample in samples.items() for name, data in sample.items()
    }
    write_tar(folder / "a.tar", dict(sorted(files.items())))
    return folder / "a.tar"


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    """Six photos with as many boxes as their number, each with a label, an area and a flag."""
    (tmp_path / "photos").mkdir()
    images, annotations = [], []
    for number in range(6):
        (tmp_path / f"photos/{number}.png").write_bytes(photo(20, 30, number))
        images.append({"id": number, "file_name": f"{number}.png", "width": 30, "height": 20})
        for box in range(number):
            annotation = {"id": len(annotations), "image_id": number, "category_id": 1 + box % 2}
            annotation |= {"bbox": [box, box, 0.5 + 3 * box, 8], "area": 100_000_007, "iscrowd": 0}
            annotations.append(annotation)
    categories = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (tmp_path / "a.json").write_text(json.dumps(content))
    headrace.pack_dataset(tmp_path / "photos", tmp_path / "packed", annotations=tmp_path / "a.json")
    return tmp_path / "packed"


def test_a_fill_is_for_the_class_that_it_names(torchvision: ModuleType, tmp_path: Path) -> None:
    """PIL's class and torchvision's have the same name, and images are PIL images here."""
    V, tv = torchvision.transforms.v2, torchvision.tv_tensors
    path = write(tmp_path, {"0": {"png": photo(), "mask.png": save(np.ones((20, 30), np.uint8))}})
    for fill, image, mask in (
        ({tv.Image: 9, "others": 0}, 0, 0),
        ({Image.Image: 7, tv.Mask: 5, "others": 0}, 7, 5),
        ({Image.Image: 7}, 7, 0),
    ):
        loader = headrace.Loader(path, 1, fields=("image", "mask"), transform=V.Pad(3, fill=fill))
        ((images, masks),) = loader
        assert "Python" not in str(loader)
        assert (images[0, 0, 0] == image).all() and masks[0, 0, 0] == mask
        wrapped = tv.Mask(torch.ones(20, 30, dtype=torch.uint8))
        assert V.Pad(3, fill=fill)(wrapped)[0, 0] == mask
    later = V.Compose([V.ToImage(), V.Pad(3, fill={tv.Image: 9, "others": 0})])
    assert "Python" in str(headrace.Loader(path, 1, fields=("image",), transform=later))


def lengths(texts: list[str]) -> tuple[np.ndarray, list[int]]:
    return np.array([len(text) for text in texts]), [0] * len(texts)


def test_tokenize_gets_the_texts_of_good_samples_alone(tmp_path: Path) -> None:
    samples = {str(n): {"png": photo(), "txt": b"x" * n} for n in range(4)}
    samples["1"] = {"png": b"\x89PNG no", "txt": b"y"}
    samples["3"] = {"png": photo()}
    headrace.index_dataset(write(tmp_path, samples), out=tmp_path / "index", on_error="skip")
    shrink = [lambda image: image.resize((4, 4))]
    for steps in ([Resize((4, 4))], shrink):
        ((images, (counts, zeros)),) = headrace.Loader(
            tmp_path / "index",
            4,
            fields=("image", "txt"),
            transform=steps,
            tokenize=lengths,
            on_error="skip",
            num_workers=0,
        )
        assert len(images) == len(counts) == len(zeros) == 3
        assert sorted(counts.tolist()) == [0, 0, 2]  # a sample without text has an empty one
    with pytest.raises(ValueError, match="tokenize them there"):
        headrace.Loader(
            tmp_path / "index", 4, fields=("image", "txt"), tokenize=lengths, collate_fn=list
        )


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, {"key": {"png": photo(), "txt": b"\xff\xfe"}})
    with pytest.raises(headrace.DecodeError, match="txt of 'key' is not UTF-8"):
        list(headrace.Loader(path, 1, fields=("image", "txt")))
    loader = headrace.Loader(path, 1, fields=("image", "txt"), kinds={"txt": None})
    assert next(iter(loader))[1] == [b"\xff\xfe"]


def test_columns_of_boxes_without_their_boxes_are_ordinary(coco: Path) -> None:
    views = Views([Resize((8, 8)), OnArray(np.array)], count=2)
    loader = headrace.Loader(coco, 3, fields=("image", "area"), transform=views, num_workers=0)
    for batch in loader:
        assert isinstance(batch[0], tuple)
        stored = [headrace.open_dataset(coco)[int(row)].columns["area"] for row in batch.rows]
        assert batch[1] == stored
    together = headrace.Loader(
        coco, 3, fields=("image", "boxes", "area"), transform=[Resize((8, 8))]
    )
    for _, boxes, areas in together:
        for box, area in zip(boxes, areas, strict=True):
            assert len(box) == len(area) and area.dtype == np.float64
            assert not len(area) or area[0] == 100_000_007


def test_a_kind_of_boxes_keeps_their_columns(coco: Path) -> None:
    loader = headrace.Loader(
        coco,
        6,
        fields=("image", "boxes", "labels"),
        kinds={"boxes": Boxes()},
        transform=[Resize((20, 30)), Sanitize(2)],
    )
    ((_, boxes, labels),) = loader
    assert [len(box) for box in boxes] == [len(label) for label in labels]
    assert sum(map(len, boxes)) < 15


def test_steps_in_python_must_drop_boxes_with_all_their_columns(
    coco: Path, torchvision: ModuleType
) -> None:
    V = torchvision.transforms.v2
    compose = V.Compose([V.Resize((20, 30)), V.RandomRotation(1), V.SanitizeBoundingBoxes(2)])
    fields = ("image", "boxes", "labels", "iscrowd")
    loader = headrace.Loader(coco, 6, fields=fields, transform=compose, num_workers=0)
    with pytest.raises(headrace.WorkerError, match="it must drop both alike"):
        next(iter(loader))
    both = V.SanitizeBoundingBoxes(2, labels_getter=lambda s: (s["labels"], s["iscrowd"]))
    compose = V.Compose([V.Resize((20, 30)), V.RandomRotation(1), both])
    loader = headrace.Loader(coco, 6, fields=fields, transform=compose, num_workers=0)
    ((_, boxes, labels, flags),) = loader
    assert [len(b) for b in boxes] == [len(v) for v in labels] == [len(f) for f in flags]
    assert all(isinstance(box, np.ndarray) for box in boxes)  # whatever they were in between


def test_lists_of_views_are_normalised_after_python_on_a_device(tmp_path: Path) -> None:
    from headrace.torch import Loader

    path = write(tmp_path, {str(n): {"png": photo(20 + n, 30)} for n in range(3)})
    steps = [RandomResize(0.5, 1.0), OnArray(np.array), Normalize()]
    options: dict[str, Any] = {"fields": ("image",), "collate": "list", "num_workers": 0}
    loader = Loader(path, 3, transform=Views(steps, steps), device="meta", **options)
    ((views,),) = loader
    assert {image.dtype for view in views for image in view} == {torch.float32}


def test_views_may_differ_in_their_floats(tmp_path: Path) -> None:
    from headrace.torch import Loader

    path = write(tmp_path, {"0": {"png": photo()}})
    views = Views([Resize((8, 8)), Normalize()], [Resize((8, 8)), Normalize(dtype="bfloat16")])
    ((images,),) = Loader(path, 1, fields=("image",), transform=views)
    assert [view.dtype for view in images] == [torch.float32, torch.bfloat16]


def test_rules_that_python_would_not_follow_are_refused(tmp_path: Path) -> None:
    flow = encode(np.ones((20, 30, 2), np.float32))
    mask = save(np.ones((20, 30), np.uint8))
    path = write(tmp_path, {"0": {"png": photo(), "flow.npy": flow, "mask.png": mask}})
    steps = [Resize((8, 8)), OnArray(dict)]
    for name, kinds in (("flow", {}), ("mask", {"mask": Mask(interpolation="nearest-exact")})):
        with pytest.raises(ValueError, match="would not follow its rule"):
            headrace.Loader(path, 1, fields=("image", name), kinds=kinds, transform=steps)
    loader = headrace.Loader(
        path, 1, fields=("image", "flow"), kinds={"flow": Map()}, transform=steps, num_workers=0
    )
    assert next(iter(loader))[1].shape == (1, 8, 8, 2)


def test_python_does_not_change_the_types_of_fields(
    tmp_path: Path, torchvision: ModuleType
) -> None:
    mask = save(np.full((20, 30), 300, np.uint16), "I;16")
    depth = encode(np.ones((20, 30, 3), np.float32))
    samples = {str(n): {"png": photo(), "mask.png": mask, "depth.npy": depth} for n in range(2)}
    path = write(tmp_path, samples)
    V = torchvision.transforms.v2
    fields = ("image", "mask", "depth")
    flip = V.RandomHorizontalFlip(1.0)
    for transform in (
        [RandomHorizontalFlip(1.0)],
        V.Compose([V.RandomPhotometricDistort(p=0.0), flip]),
    ):
        loader = headrace.Loader(path, 2, fields=fields, transform=transform, num_workers=0)
        ((images, masks, depths),) = loader
        assert isinstance(images, np.ndarray) and isinstance(masks, np.ndarray)
        assert masks.shape == (2, 20, 30) and (masks == 300).all()
        assert depths.shape == (2, 20, 30, 3) and depths.dtype == np.float32


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32", "uint64"])
def test_masks_of_any_integers_load(tmp_path: Path, dtype: str) -> None:
    labels = np.arange(600).reshape(20, 30).astype(dtype)
    path = write(tmp_path, {"0": {"png": photo(), "mask.npy": encode(labels)}})
    ((_, masks),) = headrace.Loader(path, 1, fields=("image", "mask"))
    np.testing.assert_array_equal(masks[0], labels)


def test_values_in_images_are_not_taken_for_colours(tmp_path: Path) -> None:
    grey = io.BytesIO()
    Image.fromarray(np.full((20, 30), 7, np.uint8)).save(grey, "PNG")
    path = write(tmp_path, {"0": {"png": photo(), "depth.png": grey.getvalue()}})
    with pytest.raises(ValueError, match="has no \\['depth'\\]"):
        headrace.Loader(path, 1, fields=("image", "depth"))
    ((_, depths),) = headrace.Loader(path, 1, fields=("image", "depth"), kinds={"depth": Map()})
    assert depths.dtype == np.float32 and (depths == 7).all()


def test_missing_fields_are_named(tmp_path: Path) -> None:
    both = {"a.png": photo(), "b.png": photo()}
    path = write(tmp_path, {"0": both, "1": {"a.png": photo()}})
    loader = headrace.Loader(path, 2, fields=("a", "b"), on_error="skip")
    ((first, second),) = loader
    assert len(first) == len(second) == 1
    assert loader.stats().errors == (("1", "it has no b"),)


@pytest.mark.parametrize("text", ["[" * 100_000, "[[1, 2, 3, " + "9" * 400 + "]]"])
def test_hostile_json_is_a_bad_sample(tmp_path: Path, text: str) -> None:
    path = write(
        tmp_path,
        {"0": {"png": photo(), "json": b"[]"}, "1": {"png": photo(), "json": text.encode()}},
    )
    options: dict[str, Any] = {"fields": ("image", "json"), "kinds": {"json": Boxes()}}
    loader = headrace.Loader(path, 2, on_error="skip", **options)
    ((images, boxes),) = loader
    assert len(images) == len(boxes) == 1 and loader.stats().error_count == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": {"image": Mask()}}, "whose kind is fixed"),
        (
            {"fields": ("image", "area"), "kinds": {"area": Mask()}},
            "the column 'area', which cannot",
        ),
        ({"fields": ("image", "area"), "kinds": {"area": ImageKind()}}, "cannot be image"),
        ({"transform": Views([RandomResize(0.5, 1.0)], stack=True), "batch_size": 1}, "stacked"),
    ],
)
def test_kinds_that_do_not_fit_are_refused_at_once(
    coco: Path, options: dict[str, Any], message: str
) -> None:
    batch_size = options.pop("batch_size", 2)
    with pytest.raises(ValueError, match=message):
        headrace.Loader(coco, batch_size, **{"fields": ("image",), **options})


def test_clips_do_not_make_lists(tmp_path: Path) -> None:
    from videos import make_video, save_videos

    path = save_videos(tmp_path / "packed", [make_video(0, 4, (40, 50))])
    with pytest.raises(ValueError, match="leave collate='list' out"):
        headrace.Loader(path, 1, transform=[Clip(2), Resize((8, 8))], collate="list")


def test_a_batch_without_a_good_sample_goes_on_in_python(tmp_path: Path) -> None:
    points = encode(np.ones((4, 2), np.float32))
    broken = {
        "png": b"\x89PNG no",
        "points.npy": points,
        "mask.png": save(np.ones((20, 30), np.uint8)),
    }
    good = {**broken, "png": photo()}
    path = write(tmp_path, {"0": good, "1": broken, "2": broken})
    headrace.index_dataset(path, out=tmp_path / "index", on_error="skip")

    def shrink(sample: dict[str, Any]) -> dict[str, Any]:
        image = np.asarray(sample["image"])[:8, :8]
        return {
            "image": image,
            "points": sample["points"],
            "mask": np.asarray(sample["mask"])[:8, :8],
        }

    loader = headrace.Loader(
        tmp_path / "index",
        1,
        fields=("image", "points", "mask"),
        transform=[shrink],
        on_error="skip",
        num_workers=0,
    )
    batches = list(loader)
    assert [bool(batch.valid[0]) for batch in batches] == [True, False, False]
    assert {batch[2].shape for batch in batches} == {(1, 8, 8)}
