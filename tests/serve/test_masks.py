"""Masks follow their images: torchvision's labels for the same geometry, and never one that the file does not have."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import headrace
from formats.making import write_tar
from headrace.pack.pack_stream import pack_samples
from headrace.recipe.core_recipe import compile_recipe
from headrace.recipe.randomness import Randomness
from headrace.render.labels import LabelRequest
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
)
from images import encode

torch = pytest.importorskip("torch")

FLIPS = [RandomHorizontalFlip(), RandomVerticalFlip()]
GEOMETRIES: dict[str, list[Any]] = {
    "RandomResizedCrop": [RandomResizedCrop((20, 31)), *FLIPS],
    "RandomResize, RandomCrop": [
        RandomResize(0.5, 2.0),
        RandomCrop(24, pad_if_needed=True),
        *FLIPS,
    ],
    "Resize, CenterCrop": [Resize(30), CenterCrop(40)],
    "Pad, RandomCrop": [Pad((1, 2, 3, 4)), RandomCrop((33, 20), 5, True), *FLIPS],
    "Resize": [Resize((17, 90))],
}


def save(labels: np.ndarray, mode: str = "L") -> bytes:
    out = io.BytesIO()
    image = Image.fromarray(labels)
    if mode == "P":
        image = Image.fromarray(labels, "P")
        image.putpalette(list(range(255, -1, -1)) * 3)
    elif mode == "1":
        image = Image.fromarray(labels > 0)
    image.save(out, "PNG")
    return out.getvalue()


def replay(F: ModuleType, tv: ModuleType, labels: np.ndarray, draws: Any, size: Any) -> np.ndarray:
    """Do what torchvision does to a mask, with the numbers that were drawn for the first row."""
    mask: Any = tv.Mask(torch.from_numpy(labels.astype(np.int32)))
    left, top, width, height = draws.boxes[0].tolist()
    mask = F.crop(mask, top, left, height, width)
    if draws.viewport is None:
        mask = F.resize(mask, list(size))
    else:
        mask = F.resize(mask, draws.viewport.sizes[0].tolist())
        x, y = draws.viewport.offsets[0].tolist()
        far = 200
        mask = F.pad(mask, [far] * 4, fill=255)
        mask = F.crop(mask, y + far, x + far, *size)
    if draws.flips is not None and draws.flips[0]:
        mask = F.hflip(mask)
    if draws.vertical_flips is not None and draws.vertical_flips[0]:
        mask = F.vflip(mask)
    return mask.numpy()


@pytest.mark.parametrize("name", GEOMETRIES)
@given(
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    mode=st.sampled_from(["L", "P", "1", "I;16"]),
    seed=st.integers(0, 10**6),
)
def test_labels_equal_torchvision(
    torchvision: ModuleType, name: str, size: tuple[int, int], mode: str, seed: int
) -> None:
    most = {"1": 2, "I;16": 60_000}.get(mode, 250)
    dtype = np.uint16 if mode == "I;16" else np.uint8
    labels = np.random.default_rng(seed).integers(0, most, size).astype(dtype)
    recipe = compile_recipe(GEOMETRIES[name], None)
    draws = recipe.draw(Randomness(seed, 0, np.arange(1)), *(np.array([side]) for side in size))
    assert recipe.size is not None
    out, failed = LabelRequest([save(labels, mode)], draws, recipe.size, dtype).render()
    assert not failed
    F, tv = torchvision.transforms.v2.functional, torchvision.tv_tensors
    np.testing.assert_array_equal(out[0], replay(F, tv, labels, draws, recipe.size))
    assert set(np.unique(out)) <= {*np.unique(labels).tolist(), 255}


def make_pairs(folder: Path, count: int = 12, name: str = "mask.png") -> Path:
    """Write a tar of photos whose pixels say where they are, with masks that say the same."""
    files = {}
    for number in range(count):
        height, width = 40 + number, 70 - number
        y, x = np.mgrid[:height, :width]
        out = io.BytesIO()
        pixels = np.stack([x, y, np.full_like(x, number)], axis=2).astype(np.uint8)
        Image.fromarray(pixels).save(out, "PNG")
        files[f"{number:03d}.png"] = out.getvalue()
        files[f"{number:03d}.{name}"] = save(x.astype(np.uint8))
        files[f"{number:03d}.cls"] = b"%d" % (number % 3)
    folder.mkdir(parents=True, exist_ok=True)
    write_tar(folder / "a.tar", files)
    return folder / "a.tar"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    headrace.pack_dataset(make_pairs(tmp_path / "source"), tmp_path / "packed")
    return tmp_path / "packed"


def test_masks_stay_aligned_with_their_images(pairs: Path) -> None:
    """Without resizing, the mask of a pixel is its red channel, whatever the crop and the flips."""
    steps = [RandomCrop(48, padding=4, pad_if_needed=True, fill=255), *FLIPS]
    loader = headrace.Loader(pairs, 4, shuffle=True, fields=("image", "mask"), transform=steps)
    for _ in range(3):
        for images, masks in loader:
            assert masks.dtype == np.uint8 and masks.shape == images.shape[:3]
            np.testing.assert_array_equal(masks, images[..., 0])


def test_colours_do_not_touch_masks(pairs: Path) -> None:
    steps = [RandomResizedCrop(32), *FLIPS]
    fields = ("label", "mask", "image")
    plain = headrace.Loader(pairs, 4, fields=fields, transform=steps)
    coloured = headrace.Loader(
        pairs, 4, fields=fields, transform=[*steps, ColorJitter(0.5, 0.5, 0.5), Normalize()]
    )
    for (_, masks, _), (_, same, images) in zip(plain, coloured, strict=True):
        np.testing.assert_array_equal(masks, same)
        assert images.dtype == np.float32


def test_batches_depend_on_neither_threads_nor_resuming_nor_ranks(pairs: Path) -> None:
    options = {
        "fields": ("image", "mask"),
        "shuffle": True,
        "transform": [RandomResize(0.5, 2.0), RandomCrop(24, pad_if_needed=True), *FLIPS],
    }
    whole = [masks for _, masks in headrace.Loader(pairs, 4, threads=1, **options)]
    for threads in (2, 7):
        again = [masks for _, masks in headrace.Loader(pairs, 4, threads=threads, **options)]
        np.testing.assert_array_equal(whole, again)
    loader = headrace.Loader(pairs, 4, **options)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    loader.close()
    resumed = headrace.Loader(pairs, 4, **options)
    resumed.load_state_dict(state)
    np.testing.assert_array_equal(whole[1:], [masks for _, masks in resumed])
    parts = [headrace.Loader(pairs, 2, rank=rank, world_size=2, **options) for rank in (0, 1)]
    for step, (first, second) in enumerate(zip(*parts, strict=True)):
        joined = np.concatenate([first[1], second[1]])
        assert sorted(map(bytes, joined)) == sorted(map(bytes, whole[step]))


def test_tensors(pairs: Path) -> None:
    from headrace.torch import Loader

    loader = Loader(
        pairs, 4, fields=("image", "mask"), transform=[RandomResizedCrop(16), Normalize()]
    )
    images, masks = next(iter(loader))
    assert (images.shape, masks.shape) == ((4, 3, 16, 16), (4, 16, 16))
    assert (images.dtype, masks.dtype) == (torch.float32, torch.uint8)


def test_a_mask_is_found_by_its_name(tmp_path: Path) -> None:
    headrace.pack_dataset(make_pairs(tmp_path / "source", name="labels.png"), tmp_path / "packed")
    for name in ("mask", "labels"):
        loader = headrace.Loader(
            tmp_path / "packed", 4, fields=("image", name), transform=[Resize((8, 8))]
        )
        assert next(iter(loader))[1].shape == (4, 8, 8)
    raw = headrace.Loader(
        tmp_path / "packed", 4, fields=("image", "labels.png"), transform=[Resize((8, 8))]
    )
    assert isinstance(next(iter(raw))[1][0], bytes)
    with pytest.raises(ValueError, match="has no \\['masks'\\]"):
        headrace.Loader(
            tmp_path / "packed", 4, fields=("image", "masks"), transform=[Resize((8, 8))]
        )


def break_pairs(folder: Path, changes: dict[str, bytes | None]) -> Path:
    with tarfile.open(make_pairs(folder)) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    files.update({name: data for name, data in changes.items() if data is not None})
    for name in [name for name, data in changes.items() if data is None]:
        del files[name]
    write_tar(folder / "a.tar", files)
    return folder / "a.tar"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (save(np.zeros((9, 8), np.uint8)), "mask: it has 8 x 9 pixels, and its image 65 x 45"),
        (None, "it has no mask"),
        (encode(45, 65, format="PNG"), "mask: the mask has mode RGB; labels need one channel"),
    ],
)
def test_masks_unlike_their_image_are_bad_samples(
    tmp_path: Path, change: bytes | None, reason: str
) -> None:
    source = headrace.open_source(break_pairs(tmp_path / "source", {"005.mask.png": change}))
    samples = map(source.read, range(len(source.names)))  # packing a source would refuse the size
    pack_samples(samples, tmp_path / "packed", 1 << 20)
    options: dict[str, Any] = {"fields": ("image", "mask"), "transform": [RandomCrop(16)]}
    with pytest.raises(headrace.DecodeError, match=reason) as error:
        list(headrace.Loader(tmp_path / "packed", 4, **options))
    assert "'005'" in str(error.value)
    for on_error, count in (("skip", 11), ("substitute", 12)):
        batches = list(headrace.Loader(tmp_path / "packed", 4, on_error=on_error, **options))
        assert sum(len(masks) for _, masks in batches) == count
        assert [key for batch in batches for key, _ in batch.errors] == ["005"]
        for images, masks in batches:
            np.testing.assert_array_equal(masks, images[..., 0])


def test_changed_bytes_of_a_mask_are_noticed(pairs: Path) -> None:
    (shard,) = pairs.glob("*.tar")
    data = bytearray(shard.read_bytes())
    with tarfile.open(shard) as tar:
        member = next(m for m in tar if m.name.endswith("mask.png"))
    data[member.offset_data + member.size // 2] ^= 1
    shard.write_bytes(data)
    loader = headrace.Loader(pairs, 4, fields=("image", "mask"), transform=[Resize((8, 8))])
    with pytest.raises(headrace.DecodeError, match="mask: .*changed|mask: .*checksum|CRC"):
        list(loader)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": ("mask", "label")}, "add 'image' to fields"),
        ({"orient": True}, "leave orient=True out"),
    ],
)
def test_what_masks_cannot_follow_is_refused(
    pairs: Path, options: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {"fields": ("image", "mask"), "transform": [RandomCrop(8)], **options}
    with pytest.raises(ValueError, match=message):
        headrace.Loader(pairs, 4, **given)


def invert(image: np.ndarray, mask: np.ndarray) -> dict[str, np.ndarray]:
    """Turn an image and its mask upside down, and invert the colours of the image."""
    return {"image": 255 - image[::-1], "mask": mask[::-1]}


def test_masks_go_through_functions_in_python_with_their_images(pairs: Path) -> None:
    options: dict[str, Any] = {"fields": ("image", "mask", "label"), "shuffle": True}
    plain = headrace.Loader(pairs, 4, transform=[RandomCrop(24)], **options)
    loader = headrace.Loader(
        pairs, 4, transform=[RandomCrop(24), OnArray(invert)], num_workers=2, **options
    )
    for (images, masks, labels), (changed, same, again) in zip(plain, loader, strict=True):
        np.testing.assert_array_equal(changed, 255 - images[:, ::-1])
        np.testing.assert_array_equal(same, masks[:, ::-1])
        np.testing.assert_array_equal(labels, again)


def test_a_collate_fn_gets_masks_under_the_geometry_of_their_images(pairs: Path) -> None:
    def collate(samples: list[Any]) -> np.ndarray:
        return np.stack([np.asarray(image)[..., 0] - np.asarray(mask) for image, mask in samples])

    loader = headrace.Loader(
        pairs,
        4,
        fields=("image", "mask"),
        transform=[RandomCrop(24), *FLIPS],
        collate_fn=collate,
        num_workers=1,
    )
    for difference in loader:
        assert difference.shape[1:] == (24, 24) and not difference.any()


def test_several_masks_must_be_named(tmp_path: Path) -> None:
    with tarfile.open(make_pairs(tmp_path / "source")) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    more = {name.replace("mask", "seg"): data for name, data in files.items() if "mask" in name}
    write_tar(tmp_path / "source" / "a.tar", dict(sorted({**files, **more}.items())))
    headrace.pack_dataset(tmp_path / "source" / "a.tar", tmp_path / "packed")
    loader = headrace.Loader(
        tmp_path / "packed", 4, fields=("image", "mask", "seg"), transform=[RandomCrop(16)]
    )
    for images, masks, segments in loader:
        np.testing.assert_array_equal(masks, images[..., 0])
        np.testing.assert_array_equal(segments, masks)


def test_a_mixture_must_agree_on_what_is_a_mask(pairs: Path, tmp_path: Path) -> None:
    write_tar(tmp_path / "b.tar", {"0.jpg": encode(40, 40), "0.mask": b"bytes"})
    headrace.pack_dataset(tmp_path / "b.tar", tmp_path / "other")
    mixture = headrace.Mixture([pairs, tmp_path / "other"], [1, 1])
    with pytest.raises(ValueError, match=r"'mask' is Mask\(.*, but of no kind"):
        headrace.Loader(mixture, 4, fields=("image", "mask"), transform=[RandomCrop(8)])


def test_a_damaged_image_is_not_blamed_on_its_mask(tmp_path: Path) -> None:
    source = break_pairs(tmp_path / "source", {"005.png": b"\x89PNG damaged"})
    headrace.index_dataset(source, out=tmp_path / "index", on_error="skip")
    loader = headrace.Loader(
        tmp_path / "index", 4, fields=("image", "mask"), transform=[RandomCrop(8)], on_error="skip"
    )
    (error,) = (error for batch in loader for error in batch.errors)
    assert error[0] == "005" and "mask" not in error[1]
