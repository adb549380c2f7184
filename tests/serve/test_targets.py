"""Images, masks, points and boxes under one transform: torchvision's values, on real data and on coordinates."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace
from formats.making import write_tar
from headrace.kinds import Boxes, Mask, Points
from headrace.recipe.randomness import Randomness
from headrace.transforms import (
    CenterCrop,
    ColorJitter,
    Normalize,
    OnArray,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    Sanitize,
    Views,
)
from stored import FIXTURES, SHARED

torch = pytest.importorskip("torch")

FLIPS = [RandomHorizontalFlip(), RandomVerticalFlip()]
GEOMETRIES: dict[str, list[Any]] = {
    "crop": [RandomResizedCrop((96, 131))],
    "resize": [Resize((117, 90))],
    "random crop": [RandomCrop((150, 170), pad_if_needed=True)],
    "flips": [Resize((60, 80)), *FLIPS],
    "segmentation": [RandomResize(0.3, 1.5), RandomCrop(160, pad_if_needed=True), *FLIPS],
    "cifar": [RandomCrop(120, padding=(3, 4, 5, 6), pad_if_needed=True), RandomHorizontalFlip()],
    "test": [Resize(130), CenterCrop((150, 110), mask_fill=0)],
    "padded": [Resize(100), Pad((7, 3, 5, 2)), RandomCrop(104, pad_if_needed=True), *FLIPS],
}
DRAWS = 130
"""Samples per geometry: with eight geometries, more than a thousand draws of each kind."""


def unpack(archive: Path, folder: Path) -> Path:
    if not archive.exists():
        pytest.skip(f"needs {archive.name} in ../shared/data")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.stem


@pytest.fixture(scope="module")
def camvid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("camvid")
    headrace.pack_dataset(unpack(SHARED / "data/camvid.tar", folder), folder / "packed")
    return folder / "packed"


@pytest.fixture(scope="module")
def bccd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bccd")
    headrace.pack_dataset(unpack(SHARED / "data/bccd.tar", folder), folder / "packed")
    return folder / "packed"


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    headrace.pack_dataset(FIXTURES / "webdataset-dense", folder / "packed")
    return folder / "packed"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    headrace.pack_dataset(FIXTURES / "unified-doc/warp24.lmdb", folder / "packed")
    return folder / "packed"


class Replay:
    """Does with torchvision what was drawn for one sample, step by step."""

    def __init__(self, torchvision: ModuleType, steps: list[Any], draws: Any, size: Any) -> None:
        self.F, self.steps, self.draws, self.size = (
            torchvision.transforms.v2.functional,
            steps,
            draws,
            size,
        )

    def __call__(self, value: Any, fill: int = 0) -> Any:
        F, draws = self.F, self.draws
        left, top, width, height = draws.boxes[0].tolist()
        if isinstance(self.steps[0], RandomResizedCrop):
            value = F.resized_crop(value, top, left, height, width, list(self.size))
        elif draws.viewport is None:
            value = F.resize(value, list(self.size))
        else:
            value = self._resize_and_crop(value, fill)
        if draws.flips is not None and draws.flips[0]:
            value = F.horizontal_flip(value)
        if draws.vertical_flips is not None and draws.vertical_flips[0]:
            value = F.vertical_flip(value)
        return value

    def _resize_and_crop(self, value: Any, fill: int) -> Any:
        F, view = self.F, self.draws.viewport
        if isinstance(self.steps[0], (Resize, RandomResize)):
            value = F.resize(value, view.sizes[0].tolist())
        left, top = view.offsets[0].tolist()
        for step in self.steps:
            if isinstance(step, (Pad, RandomCrop)):
                sides = list(step.sides)
                if any(sides):
                    value = F.pad(value, sides, fill=fill)
                    left, top = left + sides[0], top + sides[1]
            if isinstance(step, RandomCrop):
                height, width = F.get_size(value)
                more = [max(self.size[1] - width, 0), max(self.size[0] - height, 0)]
                if any(more):
                    value = F.pad(value, more, fill=fill)
                    left, top = left + more[0], top + more[1]
                return F.crop(value, top, left, *self.size)
            if isinstance(step, CenterCrop):
                return F.center_crop(value, list(self.size))
        return value


def check(
    path: Path,
    steps: list[Any],
    torchvision: ModuleType,
    wrap: Callable[[headrace.Sample, Any], dict[str, Any]],
    fields: tuple[str, ...],
    **options: Any,
) -> int:
    """Compare the batches of a loader with torchvision; return how many samples were compared.

    `wrap` returns the values of a sample as torchvision takes them, and what they are filled with.
    """
    dataset = headrace.open_dataset(path)
    compared, epoch = 0, 0
    while compared < DRAWS:
        loader = headrace.Loader(
            path, 16, shuffle=True, seed=7, transform=steps, fields=fields, **options
        )
        loader.set_epoch(epoch)
        for batch in loader:
            for place, row in enumerate(batch.rows.tolist()):
                sample = dataset[row]
                values = wrap(sample, torchvision.tv_tensors)
                picture = values[fields[0]]
                sides = (np.array([picture.height]), np.array([picture.width]))
                recipe = loader._contents.pictures[0].recipes[0]
                draws = recipe.draw(Randomness(7, epoch, batch.draws[place : place + 1]), *sides)
                replay = Replay(torchvision, steps, draws, recipe.geometry.find_size(draws))
                for name, value in zip(fields, batch, strict=True):
                    fill = 255 if name == "mask" else 0
                    expected = np.asarray(replay(values[name], fill))
                    np.testing.assert_array_equal(value[place], expected, f"{name} of {sample.key}")
                compared += 1
        epoch += 1
    return compared


def read_mask(data: bytes, tv: Any) -> Any:
    return tv.Mask(torch.from_numpy(np.array(Image.open(io.BytesIO(data)))))


@pytest.mark.parametrize("name", GEOMETRIES)
def test_images_and_masks_of_camvid_equal_torchvision(
    camvid: Path, torchvision: ModuleType, name: str
) -> None:
    def wrap(sample: headrace.Sample, tv: Any) -> dict[str, Any]:
        image = Image.open(io.BytesIO(sample["png"])).convert("RGB")
        return {"image": image, "mask": read_mask(sample["mask.png"], tv)}

    fields = ("image", "mask")
    assert check(camvid, GEOMETRIES[name], torchvision, wrap, fields) >= DRAWS


@pytest.mark.parametrize("name", GEOMETRIES)
def test_images_and_boxes_of_bccd_equal_torchvision(
    bccd: Path, torchvision: ModuleType, name: str
) -> None:
    def wrap(sample: headrace.Sample, tv: Any) -> dict[str, Any]:
        image = Image.open(io.BytesIO(sample["jpg"])).convert("RGB")
        boxes = torch.tensor(sample.columns["boxes"], dtype=torch.float32).reshape(-1, 4)
        size = (image.height, image.width)
        return {
            "image": image,
            "boxes": tv.BoundingBoxes(boxes, format="XYXY", canvas_size=size),
        }

    fields = ("image", "boxes")
    assert check(bccd, GEOMETRIES[name], torchvision, wrap, fields) >= DRAWS


@pytest.mark.parametrize("name", GEOMETRIES)
def test_all_fields_of_dense_samples_equal_torchvision(
    dense: Path, torchvision: ModuleType, name: str
) -> None:
    def wrap(sample: headrace.Sample, tv: Any) -> dict[str, Any]:
        image = Image.open(io.BytesIO(sample["jpg"])).convert("RGB")
        size = (image.height, image.width)
        points = torch.from_numpy(np.load(io.BytesIO(sample["npy"])))
        boxes = torch.tensor(json.loads(sample["json"])["boxes"], dtype=torch.float32)
        return {
            "image": image,
            "mask": read_mask(sample["mask.png"], tv),
            "points": tv.KeyPoints(points, canvas_size=size),
            "json": tv.BoundingBoxes(boxes.reshape(-1, 4), format="XYXY", canvas_size=size),
        }

    fields = ("image", "mask", "points", "json")
    kinds = {"json": Boxes()}
    assert check(dense, GEOMETRIES[name], torchvision, wrap, fields, kinds=kinds) >= DRAWS


@pytest.mark.parametrize("name", ["crop", "segmentation", "padded"])
def test_documents_with_their_control_points_equal_torchvision(
    documents: Path, torchvision: ModuleType, name: str
) -> None:
    def wrap(sample: headrace.Sample, tv: Any) -> dict[str, Any]:
        pixels = np.load(io.BytesIO(sample["d1.npy"]))
        points = np.load(io.BytesIO(sample["d1.label.npy"])).astype(np.float32)
        return {
            "d1": Image.fromarray(np.ascontiguousarray(pixels[..., ::-1])),
            "d1.label": tv.KeyPoints(torch.from_numpy(points), canvas_size=pixels.shape[:2]),
        }

    fields = ("d1", "d1.label")
    assert check(documents, GEOMETRIES[name], torchvision, wrap, fields) >= DRAWS


def test_a_document_is_one_batch_of_four_images_and_two_grids(documents: Path) -> None:
    fields = ("d1", "d1.label", "d2", "d2.label", "w1", "di")
    steps = [Resize((48, 64)), RandomHorizontalFlip()]
    loader = headrace.Loader(documents, 3, shuffle=True, fields=fields, transform=steps)
    (batch,) = loader
    assert [value.shape for value in batch] == [
        (3, 48, 64, 3),
        (3, 61, 61, 2),
        (3, 48, 64, 3),
        (3, 61, 61, 2),
        (3, 48, 64, 3),
        (3, 48, 64, 3),
    ]
    assert batch[1].dtype == np.float32
    named = {"d2.label": Points(of="d1")}
    with pytest.raises(ValueError, match="'d2.label' belongs to 'd1': add 'd1' to fields"):
        headrace.Loader(documents, 3, fields=("d2", "d2.label"), kinds=named, transform=steps)


def make_coordinates(folder: Path, count: int = 24) -> Path:
    """Pack pictures whose colours say where a pixel is, with masks, points and boxes that say the same."""
    files: dict[str, bytes] = {}
    random = np.random.default_rng(0)
    for number in range(count):
        height, width = random.integers(120, 200, 2).tolist()
        y, x = np.mgrid[:height, :width]
        pixels = np.stack([x, y, np.zeros_like(x)], axis=2).astype(np.uint8)
        points = random.integers([5, 5], [width - 5, height - 5], (6, 2)).astype(np.float32)
        boxes = np.concatenate([points[:3], points[:3] + 4], axis=1)
        for name, array in (("png", pixels), ("x.mask.png", x), ("y.mask.png", y)):
            out = io.BytesIO()
            Image.fromarray(array.astype(np.uint8)).save(out, "PNG")
            files[f"{number:03d}.{name}"] = out.getvalue()
        for name, array in (("points.npy", points), ("boxes.npy", boxes)):
            out = io.BytesIO()
            np.save(out, array)
            files[f"{number:03d}.{name}"] = out.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    write_tar(folder / "a.tar", dict(sorted(files.items())))
    headrace.pack_dataset(folder / "a.tar", folder / "packed")
    return folder / "packed"


@pytest.mark.parametrize("name", GEOMETRIES)
def test_everything_agrees_with_the_colours_of_a_picture_of_coordinates(
    tmp_path: Path, name: str
) -> None:
    """What a colour says of a place is what mask, points and boxes say, to the pixel that resizing may shift."""
    path, original = make_coordinates(tmp_path), {}
    for number, sample in enumerate(headrace.open_dataset(path)):
        original[number] = (
            np.load(io.BytesIO(sample["points.npy"])),
            np.load(io.BytesIO(sample["boxes.npy"])),
        )
    fields = ("image", "x.mask", "y.mask", "points", "boxes")
    kinds = {name: Mask(interpolation="nearest-exact") for name in ("x.mask", "y.mask")}
    steps = [*GEOMETRIES[name], ColorJitter()]
    loader = headrace.Loader(path, 6, shuffle=True, fields=fields, kinds=kinds, transform=steps)
    seen = 0
    for batch in loader:
        for image, xs, ys, points, boxes, row in zip(*batch, batch.rows, strict=True):
            inside = xs != 255
            scale = max(1.0, _find_scale(xs))
            np.testing.assert_allclose(image[..., 0][inside], xs[inside], atol=scale + 1)
            np.testing.assert_allclose(image[..., 1][inside], ys[inside], atol=scale + 1)
            places, corners = original[int(row)]
            for (x, y), true in zip(points, places, strict=True):
                seen += _agrees(xs, ys, x, y, true, scale)
            for box, true in zip(boxes, corners, strict=True):
                if box.min() > 0 and max(box) < min(xs.shape) - 1:  # else it was cut off
                    centres = [(corner[:2] + corner[2:]) / 2 for corner in (box, true)]
                    seen += _agrees(xs, ys, *centres[0], centres[1], scale)
    assert seen > 20


def _find_scale(xs: np.ndarray) -> float:
    """Return how many pixels of the original lie between two neighbours of a result."""
    steps = np.abs(np.diff(xs.astype(int), axis=1))[(xs[:, 1:] != 255) & (xs[:, :-1] != 255)]
    return float(steps.max(initial=1))


def _agrees(
    xs: np.ndarray, ys: np.ndarray, x: float, y: float, true: np.ndarray, scale: float
) -> bool:
    """Check a point inside a result against the masks; return whether it was inside."""
    column, row = round(float(x)), round(float(y))
    if not (1 <= row < len(xs) - 1 and 1 <= column < xs.shape[1] - 1) or xs[row, column] == 255:
        return False
    if column in (0, xs.shape[1] - 1) or row in (0, len(xs) - 1):
        return False
    assert abs(int(xs[row, column]) - true[0]) <= scale + 1
    assert abs(int(ys[row, column]) - true[1]) <= scale + 1
    return True


def test_small_boxes_are_dropped_with_all_that_belongs_to_them(
    bccd: Path, torchvision: ModuleType
) -> None:
    steps: list[Any] = [RandomResizedCrop(64, scale=(0.02, 0.1))]
    fields = ("image", "boxes", "labels", "truncated")
    options: dict[str, Any] = {"fields": fields, "shuffle": True}
    plain = headrace.Loader(bccd, 16, transform=steps, **options)
    clean = headrace.Loader(bccd, 16, transform=[*steps, Sanitize(3)], **options)
    F, tv = torchvision.transforms.v2.functional, torchvision.tv_tensors
    empty = dropped = 0
    for (_, boxes, labels, _), (_, kept, names, truncated) in zip(plain, clean, strict=True):
        for every, classes, few, left, flags in zip(boxes, labels, kept, names, truncated):
            wrapped = tv.BoundingBoxes(torch.from_numpy(every), format="XYXY", canvas_size=(64, 64))
            _, valid = F.sanitize_bounding_boxes(wrapped, min_size=3, min_area=1)
            np.testing.assert_array_equal(few, every[valid.numpy()])
            np.testing.assert_array_equal(left, classes[valid.numpy()])
            assert len(few) == len(left) == len(flags)
            dropped += len(every) - len(few)
            empty += not len(few)
    assert dropped > 100 and empty > 0  # a sample without boxes is a sample


def test_per_box_columns_need_their_boxes_to_be_sanitized(bccd: Path) -> None:
    steps = [RandomResizedCrop(64), Sanitize()]
    with pytest.raises(ValueError, match="'labels' has a value per box of 'boxes'"):
        headrace.Loader(bccd, 4, fields=("image", "labels"), transform=steps)


def test_keypoints_of_coco_stay_with_their_boxes(tmp_path: Path, torchvision: ModuleType) -> None:
    """Keypoints belong to a box, and move as points."""
    folder, random = tmp_path / "photos", np.random.default_rng(1)
    folder.mkdir()
    images, annotations = [], []
    for number in range(12):
        Image.new("RGB", (90, 60)).save(folder / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "width": 90, "height": 60})
        for _ in range(number % 4):
            x, y = random.integers(0, 50, 2).tolist()
            spots = random.integers(0, 60, (3, 2)).tolist()
            annotations.append(
                {
                    "id": len(annotations),
                    "image_id": number,
                    "category_id": 1,
                    "bbox": [x, y, 9, 9],
                    "area": 81,
                    "iscrowd": 0,
                    "keypoints": [v for spot in spots for v in (*spot, 2)],
                    "num_keypoints": 3,
                }
            )
    content = {"images": images, "annotations": annotations}
    content["categories"] = [{"id": 1, "name": "person"}]
    (tmp_path / "people.json").write_text(json.dumps(content))
    headrace.pack_dataset(folder, tmp_path / "packed", annotations=tmp_path / "people.json")
    fields = ("image", "boxes", "keypoints", "labels")
    steps: list[Any] = [RandomResizedCrop((40, 40), scale=(0.1, 0.3)), RandomHorizontalFlip()]
    options: dict[str, Any] = {"shuffle": True, "fields": fields}
    plain = headrace.Loader(tmp_path / "packed", 4, transform=steps, **options)
    clean = headrace.Loader(tmp_path / "packed", 4, transform=[*steps, Sanitize()], **options)
    dataset, tv = headrace.open_dataset(tmp_path / "packed"), torchvision.tv_tensors
    recipe, kept = plain._contents.pictures[0].recipes[0], 0
    for batch, cleaned in zip(plain, clean, strict=True):
        for place, row in enumerate(batch.rows.tolist()):
            draws = recipe.draw(
                Randomness(0, 0, batch.draws[place : place + 1]), np.array([60]), np.array([90])
            )
            stored = np.array(dataset[row].columns["keypoints"], np.float32).reshape(-1, 3, 2)
            points = tv.KeyPoints(torch.from_numpy(stored), canvas_size=(60, 90))
            expected = np.asarray(Replay(torchvision, steps, draws, (40, 40))(points))
            np.testing.assert_array_equal(batch[2][place].reshape(-1, 3, 2), expected)
            boxes = batch[1][place]
            large = ((boxes[:, 2:] - boxes[:, :2]) >= 1).all(axis=1)
            np.testing.assert_array_equal(cleaned[2][place], batch[2][place][large])
            assert len(cleaned[3][place]) == large.sum()
            kept += int(large.sum())
    assert 0 < kept < len(annotations)


@pytest.mark.parametrize(
    ("format", "box"),
    [("xyxy", [10, 20, 40, 60]), ("xywh", [10, 20, 30, 40]), ("cxcywh", [25, 40, 30, 40])],
)
def test_boxes_of_all_formats_become_corners(tmp_path: Path, format: Any, box: list[int]) -> None:
    out = io.BytesIO()
    Image.new("RGB", (100, 100)).save(out, "PNG")
    write_tar(tmp_path / "a.tar", {"0.png": out.getvalue(), "0.json": json.dumps([box]).encode()})
    loader = headrace.Loader(
        tmp_path / "a.tar",
        1,
        fields=("image", "json"),
        kinds={"json": Boxes(format=format)},
        transform=[Resize((50, 200))],
    )
    ((_, (boxes,)),) = loader
    np.testing.assert_array_equal(boxes, [[20, 10, 80, 30]])


def test_damaged_targets_are_bad_samples(tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("RGB", (20, 20)).save(out, "PNG")
    files = {}
    for number, text in enumerate([b"[[1, 2, 3, 4]]", b"[[1, 2, 3]]", b"nonsense", b"{}"]):
        files |= {f"{number}.png": out.getvalue(), f"{number}.json": text}
    write_tar(tmp_path / "a.tar", files)
    options: dict[str, Any] = {"fields": ("image", "json"), "kinds": {"json": Boxes()}}
    loader = headrace.Loader(tmp_path / "a.tar", 4, on_error="skip", **options)
    ((images, boxes),) = loader
    assert len(images) == len(boxes) == 1
    reasons = dict(loader.stats().errors)
    assert "boxes have the shape [1, 3]; they must be [N, 4]" in reasons["1"]
    assert "json: Expecting value" in reasons["2"] and "without an entry boxes" in reasons["3"]
    with pytest.raises(headrace.DecodeError, match="'1' .*json: boxes have the shape"):
        list(headrace.Loader(tmp_path / "a.tar", 4, **options))


def test_v2_composes_are_compiled_for_all_fields(
    camvid: Path, bccd: Path, torchvision: ModuleType
) -> None:
    V, tv = torchvision.transforms.v2, torchvision.tv_tensors
    compose = V.Compose(
        [
            V.RandomResize(100, 200),
            V.RandomCrop(128, pad_if_needed=True, fill={tv.Mask: 17, "others": 0}),
            V.RandomHorizontalFlip(),
            V.ToImage(),
            V.ToDtype({tv.Image: torch.float32, tv.Mask: torch.int64, "others": None}, scale=True),
            V.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )
    from headrace.torch import Loader

    loader = Loader(camvid, 8, shuffle=True, fields=("image", "mask"), transform=compose)
    assert "Python" not in str(loader)
    own = [
        RandomResize(100, 200),
        RandomCrop(128, pad_if_needed=True),
        RandomHorizontalFlip(),
        Normalize((0.5,) * 3, (0.5,) * 3),
    ]
    same = headrace.Loader(
        camvid,
        8,
        shuffle=True,
        fields=("image", "mask"),
        kinds={"mask": Mask(fill=17)},
        transform=own,
    )
    for (images, masks), (pixels, labels) in zip(loader, same, strict=True):
        assert (images.dtype, masks.dtype) == (torch.float32, torch.int64)
        np.testing.assert_array_equal(masks.numpy(), labels)
        np.testing.assert_allclose(images.permute(0, 2, 3, 1).numpy(), pixels, atol=1e-6)
    boxes = V.Compose([V.RandomResizedCrop(64, scale=(0.02, 0.1)), V.SanitizeBoundingBoxes(3)])
    fields = ("image", "boxes", "labels")
    compiled = headrace.Loader(bccd, 8, shuffle=True, fields=fields, transform=boxes)
    assert "Python" not in str(compiled)
    mine = headrace.Loader(
        bccd,
        8,
        shuffle=True,
        fields=fields,
        transform=[RandomResizedCrop((64, 64), scale=(0.02, 0.1)), Sanitize(3)],
    )
    for first, second in zip(compiled, mine, strict=True):
        for a, b in zip(first[1] + first[2], second[1] + second[2], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("workers", [0, 1])
def test_unknown_steps_get_all_fields_as_tv_tensors(
    bccd: Path, torchvision: ModuleType, workers: int
) -> None:
    V = torchvision.transforms.v2
    compose = V.Compose(
        [
            V.RandomIoUCrop(),
            V.Resize((80, 80)),
            V.RandomRotation(20),
            V.SanitizeBoundingBoxes(2),
            V.ToImage(),
        ]
    )
    from headrace.torch import Loader

    loader = Loader(
        bccd, 8, fields=("image", "boxes", "labels", "key"), transform=compose, num_workers=workers
    )
    assert "Python" in str(loader)
    counts = []
    for images, boxes, labels, keys in loader:
        assert images.shape[1:] == (3, 80, 80) and len(keys) == len(images)
        for few, classes in zip(boxes, labels, strict=True):
            assert few.shape == (len(classes), 4)
            assert float(few.min(initial=0) if isinstance(few, np.ndarray) else 0) >= 0
            counts.append(len(classes))
    assert len(counts) == 120 and len(set(counts)) > 3


def test_python_after_the_core_moves_masks_with_their_images(
    camvid: Path, torchvision: ModuleType
) -> None:
    V = torchvision.transforms.v2
    steps = [V.RandomCrop(96), V.RandomAffine(degrees=0, translate=(0.4, 0.4), fill=0)]
    fields = ("image", "mask")
    loader = headrace.Loader(camvid, 8, fields=fields, transform=V.Compose(steps), num_workers=1)
    lines = str(loader).splitlines()
    assert "core" in lines[2] and "Python" in lines[3]
    for images, masks in loader:
        images, masks = np.asarray(images), np.asarray(masks)
        moved = images.sum(axis=3) == 0
        assert moved.any() and (masks[moved.all(axis=2)] == 0).all()


def test_a_step_must_return_all_fields(camvid: Path) -> None:
    loader = headrace.Loader(
        camvid,
        4,
        fields=("image", "mask"),
        transform=[RandomCrop(32), OnArray(lambda image, mask: {"image": image})],
        num_workers=0,
    )
    with pytest.raises(headrace.WorkerError, match="gets a dict of \\['image', 'mask'\\]"):
        next(iter(loader))


def test_a_torch_loader_gives_tensors_of_every_kind(bccd: Path, documents: Path) -> None:
    from headrace.torch import Loader

    fields = ("image", "boxes", "labels")
    images, boxes, labels = next(iter(Loader(bccd, 4, fields=fields, collate="list")))
    assert isinstance(images, list) and images[0].shape == (3, 480, 640)
    assert all(box.dtype == torch.float32 for box in boxes)
    assert all(label.dtype == torch.int64 for label in labels)
    loader = Loader(documents, 2, fields=("d1", "d1.label"), transform=[Resize((8, 8))])
    images, points = next(iter(loader))
    assert images.shape == (2, 3, 8, 8) and points.shape == (2, 61, 61, 2)


def test_boxes_have_views(bccd: Path) -> None:
    views = Views([RandomResizedCrop(32)], [Resize((60, 80)), Sanitize(2)])
    loader = headrace.Loader(bccd, 4, fields=("image", "boxes", "labels"), transform=views)
    plain = headrace.Loader(bccd, 4, fields=("boxes", "image"), transform=[Resize((60, 80))])
    for (_, boxes, labels), (expected, _) in zip(loader, plain, strict=True):
        assert len(boxes) == len(labels) == 2
        for few, every in zip(boxes[1], expected, strict=True):
            assert set(map(tuple, few)) <= set(map(tuple, every))


def test_an_image_keeps_its_bytes_under_its_own_name(dense: Path) -> None:
    loader = headrace.Loader(dense, 4, fields=("jpg", "mask.png", "npy"))
    photos, masks, points = next(iter(loader))
    assert all(isinstance(value, bytes) for value in (*photos, *masks, *points))


def test_fields_are_named_once_and_kinds_are_of_fields(dense: Path) -> None:
    with pytest.raises(ValueError, match="it has 'mask' twice"):
        headrace.Loader(dense, 4, fields=("image", "mask", "mask"))
    with pytest.raises(ValueError, match="kinds has 'boxes', which is not in fields"):
        headrace.Loader(dense, 4, fields=("image",), kinds={"boxes": Boxes()})
