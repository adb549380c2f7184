"""orient=True: images are loaded as their EXIF orientation shows them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from headrace import Loader, Mixture, open_dataset, pack_dataset
from headrace.image_header import read_orientation
from headrace.transforms import CenterCrop, OnArray, RandomResizedCrop, Resize
from images import encode


def make_photo(orientation: int, **kind: Any) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(40, 60, seed=orientation, exif=exif, **kind)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a photo of every orientation, and of some kinds, in the order of their numbers."""
    folder = tmp_path_factory.mktemp("photos") / "a"
    folder.mkdir()
    for number in range(1, 9):
        (folder / f"{number:02}.jpg").write_bytes(make_photo(number))
        (folder / f"{number + 10}.png").write_bytes(make_photo(number, format="PNG"))
        (folder / f"{number + 20}.webp").write_bytes(make_photo(number, format="WEBP"))
    (folder / "30.jpg").write_bytes(encode(40, 60))
    return folder.parent


def read_upright(dataset: Any, row: int) -> Image.Image:
    ((_, data),) = ((n, d) for n, d in dataset[row].items() if n in ("jpg", "png", "webp"))
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


@pytest.fixture(params=["folder", "packed"])
def source(request: pytest.FixtureRequest, photos: Path, tmp_path: Path) -> Path:
    if request.param == "folder":
        return photos
    pack_dataset(photos, tmp_path / "packed")
    return tmp_path / "packed"


def test_images_are_turned_before_all_transforms(source: Path) -> None:
    dataset = open_dataset(source)
    steps = [Resize(36), CenterCrop(32)]
    for batch in Loader(source, 5, transform=steps, orient=True):
        for row, found in zip(batch.rows.tolist(), batch[0], strict=True):
            image = read_upright(dataset, row)
            size = (36, 54) if image.width < image.height else (54, 36)
            image = image.resize(size, Image.Resampling.BILINEAR)
            left, top = round((size[0] - 32) / 2), round((size[1] - 32) / 2)
            expected = np.asarray(image)[top : top + 32, left : left + 32]
            assert np.array_equal(found, expected)


def test_images_stay_as_they_are_by_default(source: Path) -> None:
    steps = [RandomResizedCrop(24)]
    plain = next(iter(Loader(source, 25, transform=steps)))
    turned = next(iter(Loader(source, 25, transform=steps, orient=True)))
    upright = open_dataset(source).index["key"].to_pylist().index("a/30")
    assert np.array_equal(plain[0][upright], turned[0][upright])
    assert not np.array_equal(plain[0], turned[0])


def test_without_a_crop_images_have_their_upright_size(photos: Path) -> None:
    dataset = open_dataset(photos)
    for batch in Loader(photos, 1, orient=True):
        expected = np.asarray(read_upright(dataset, int(batch.rows[0])))
        assert np.array_equal(batch[0][0], expected)
    with pytest.raises(ValueError, match="differ in size"):
        Loader(photos, 4, orient=True)
    assert next(iter(Loader(photos, 4)))[0].shape == (4, 40, 60, 3)


def test_python_gets_upright_images(photos: Path) -> None:
    dataset = open_dataset(photos)
    own = OnArray(lambda pixels: pixels[:20, :20].copy())
    (batch,) = Loader(photos, 25, transform=[own], orient=True, num_workers=0)
    for row, found in zip(batch.rows.tolist(), batch[0], strict=True):
        assert np.array_equal(found, np.asarray(read_upright(dataset, row))[:20, :20])


def test_mixtures_are_turned_too(photos: Path, tmp_path: Path) -> None:
    pack_dataset(photos, tmp_path / "packed")
    mixture = Mixture([photos, tmp_path / "packed"], [1, 1])
    batch = next(iter(Loader(mixture, 50, transform=[CenterCrop(50)], orient=True)))
    halves = [batch[0][(batch.rows >= 25) == half].sum(dtype=np.int64) for half in (False, True)]
    assert halves[0] == halves[1]


@pytest.mark.parametrize("orientation", [0, 9, 300])
def test_an_orientation_that_makes_no_sense_is_upright(orientation: Any) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert read_orientation(encode(20, 30, exif=exif)) == 1


@pytest.mark.parametrize(
    "data", [b"", b"Exif", b"II*\0", b"\xff\xd8\xff\xe1\x00\x10Exif\0\0broken"]
)
def test_damaged_files_are_upright(data: bytes) -> None:
    assert read_orientation(data) == 1


def test_the_orientation_may_be_in_xmp_or_in_a_tiff() -> None:
    xmp = b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    assert read_orientation(encode(20, 30, xmp=xmp)) == 6
    assert read_orientation(encode(20, 30, format="TIFF", tiffinfo={0x0112: 8})) == 8
