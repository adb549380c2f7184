"""Images of different sizes in lists and buckets, repeated augmentation, maps, and text beside images."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace
from formats.making import write_tar
from headrace.kinds import Map, Points
from headrace.transforms import (
    Buckets,
    CenterCrop,
    Normalize,
    OnArray,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    Resize,
    Views,
)


def save(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    if array.dtype == np.uint8 and array.ndim == 3:
        Image.fromarray(array).save(out, "PNG")
    else:
        np.save(out, array)
    return out.getvalue()


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 pictures of four shapes, with a map of their rows, some points and a caption."""
    folder, files = tmp_path_factory.mktemp("sizes"), {}
    shapes = [(30, 60), (60, 30), (40, 44), (48, 20)]
    for number in range(48):
        height, width = shapes[number % 4]
        y, x = np.mgrid[:height, :width]
        pixels = np.stack([x, y, np.full_like(x, number)], axis=2).astype(np.uint8)
        files[f"{number:03d}.png"] = save(pixels)
        files[f"{number:03d}.depth.npy"] = save(y.astype(np.float64))
        points = np.array([[1, 2]] * (1 + number % 3), np.float32)
        files[f"{number:03d}.points.npy"] = save(points)
        files[f"{number:03d}.txt"] = f"picture {number}, ünïcode".encode()
        files[f"{number:03d}.cls"] = b"%d" % (number % 3)
    write_tar(folder / "a.tar", dict(sorted(files.items())))
    headrace.pack_dataset(folder / "a.tar", folder / "packed")
    return folder / "packed"


def read_pixels(path: Path, row: int) -> np.ndarray:
    data = headrace.open_dataset(path)[row]["png"]
    return np.asarray(Image.open(io.BytesIO(data)))


def test_a_list_keeps_the_size_of_each_image(packed: Path) -> None:
    loader = headrace.Loader(packed, 6, shuffle=True, collate="list")
    for batch in loader:
        images, labels = batch
        assert isinstance(images, list) and labels.shape == (6,)
        for image, row in zip(images, batch.rows, strict=True):
            np.testing.assert_array_equal(image, read_pixels(packed, int(row)))


@pytest.mark.parametrize("workers", [0, 1])
def test_lists_go_through_all_steps(packed: Path, workers: int) -> None:
    fields = ("image", "depth")
    core: list[Any] = [RandomResize(0.5, 1.5), Pad(2), RandomHorizontalFlip()]
    options: dict[str, Any] = {"fields": fields, "collate": "list", "shuffle": True}
    plain = headrace.Loader(packed, 6, transform=core, **options)
    floats = headrace.Loader(
        packed, 6, transform=[*core, Normalize((0, 0, 0), (1, 1, 1))], **options
    )
    python = headrace.Loader(
        packed, 6, transform=[*core, OnArray(dict)], num_workers=workers, **options
    )
    shapes = set()
    for (images, depths), (same, _), (again, through) in zip(plain, floats, python, strict=True):
        for image, depth, scaled, other, also in zip(images, depths, same, again, through):
            shapes.add(image.shape)
            assert depth.shape == image.shape[:2] and depth.dtype == np.float32
            np.testing.assert_allclose(scaled, image / 255.0, atol=1e-6)
            np.testing.assert_array_equal(image, other)
            np.testing.assert_array_equal(depth, np.asarray(also))
    assert len(shapes) > 20


def test_lists_of_one_size_and_bad_samples(packed: Path, tmp_path: Path) -> None:
    loader = headrace.Loader(packed, 6, collate="list", transform=[Resize((8, 8))])
    assert {image.shape for images, _ in loader for image in images} == {(8, 8, 3)}
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(save(np.zeros((4 + number, 5, 3), np.uint8)))
    (tmp_path / "1.png").write_bytes(b"\x89PNG damaged")
    skipping = headrace.Loader(tmp_path, 3, fields=("image",), collate="list", on_error="skip")
    ((images,),) = skipping
    assert [image.shape for image in images] == [(4, 5, 3), (6, 5, 3)]


def test_maps_follow_their_images(packed: Path) -> None:
    steps = [RandomResizedCrop((20, 30), scale=(0.3, 1.0)), RandomHorizontalFlip()]
    loader = headrace.Loader(packed, 8, shuffle=True, fields=("image", "depth"), transform=steps)
    for images, depths in loader:
        assert depths.shape == (8, 20, 30) and depths.dtype == np.float32
        np.testing.assert_allclose(depths, images[..., 1], atol=0.51)  # the image is rounded


def test_a_map_of_flow_is_scaled_and_negated(tmp_path: Path) -> None:
    flow = np.stack([np.full((10, 20), 4.0), np.full((10, 20), 6.0)], axis=2).astype(np.float32)
    picture = np.zeros((10, 20, 3), np.uint8)
    write_tar(tmp_path / "a.tar", {"0.flow.npy": save(flow), "0.png": save(picture)})
    options: dict[str, Any] = {"fields": ("image", "flow")}
    for flip, sign in ((0.0, 1), (1.0, -1)):
        steps = [Resize((5, 40)), RandomHorizontalFlip(flip)]
        ((_, values),) = headrace.Loader(tmp_path / "a.tar", 1, transform=steps, **options)
        assert values.shape == (1, 5, 40, 2)
        np.testing.assert_allclose(values[0, 2, 3], [sign * 8.0, 3.0], rtol=1e-6)
    kinds = {"flow": Map(scale="none")}
    loader = headrace.Loader(
        tmp_path / "a.tar", 1, kinds=kinds, transform=[Resize((5, 40))], **options
    )
    np.testing.assert_allclose(next(iter(loader))[1][0, 2, 3], [4.0, 6.0], rtol=1e-6)
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader

    tensors = Loader(tmp_path / "a.tar", 1, transform=[Resize((5, 40))], **options)
    values = next(iter(tensors))[1]
    assert values.shape == (1, 2, 5, 40) and values.dtype == torch.float32


def test_points_of_different_numbers_are_a_list(packed: Path) -> None:
    loader = headrace.Loader(packed, 6, fields=("image", "points"), transform=[Resize((60, 60))])
    _, points = next(iter(loader))
    assert isinstance(points, list) and {array.shape for array in points} == {
        (1, 2),
        (2, 2),
        (3, 2),
    }
    raw = headrace.Loader(packed, 6, fields=("points",), kinds={"points": None})
    assert isinstance(next(iter(raw))[0][0], bytes)
    with pytest.raises(ValueError, match="add 'image' to fields"):
        headrace.Loader(packed, 6, fields=("points",), kinds={"points": Points()})


SIZES = [(16, 32), (32, 16), (24, 24)]


def test_each_batch_of_a_bucket_has_its_size(packed: Path) -> None:
    steps = [RandomHorizontalFlip(), Normalize()]
    loader = headrace.Loader(packed, 4, shuffle=True, buckets=SIZES, transform=steps)
    shapes, rows = Counter[Any](), []
    for batch in loader:
        shapes[batch[0].shape[1:3]] += len(batch[0])
        rows += batch.rows.tolist()
    assert sorted(rows) == list(range(48)) and len(loader) == 12
    assert shapes == {(16, 32): 12, (32, 16): 24, (24, 24): 12}


def test_images_cover_their_bucket(packed: Path) -> None:
    """The crop of a bucket is that of a resize to the size which covers it."""
    loader = headrace.Loader(packed, 4, buckets=Buckets([(24, 24)]), transform=[])
    for batch in loader:
        for image, row in zip(batch[0], batch.rows, strict=True):
            pixels = Image.fromarray(read_pixels(packed, int(row)))
            scale = max(24 / pixels.height, 24 / pixels.width)
            size = (round(pixels.width * scale), round(pixels.height * scale))
            resized = np.asarray(pixels.resize(size, Image.Resampling.BILINEAR))
            top, left = ((side - 24) // 2 for side in resized.shape[:2])
            np.testing.assert_array_equal(image, resized[top : top + 24, left : left + 24])


def test_buckets_resume_and_divide_among_ranks(packed: Path) -> None:
    options: dict[str, Any] = {
        "shuffle": True,
        "buckets": Buckets(SIZES, crop="random", block=4),
        "fields": ("image", "depth"),
        "seed": 2,
    }
    whole = [
        (images.tobytes(), depths.tobytes())
        for images, depths in headrace.Loader(packed, 8, **options)
    ]
    loader = headrace.Loader(packed, 8, **options)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    loader.close()
    resumed = headrace.Loader(packed, 8, **options)
    resumed.load_state_dict(state)
    assert whole[1:] == [(images.tobytes(), depths.tobytes()) for images, depths in resumed]
    with pytest.raises(ValueError, match="buckets is"):
        headrace.Loader(
            packed, 8, shuffle=True, seed=2, transform=[Resize((8, 8))]
        ).load_state_dict(state)
    parts = [headrace.Loader(packed, 4, rank=r, world_size=2, **options) for r in (0, 1)]
    for expected, *ranks in zip(headrace.Loader(packed, 8, **options), *parts, strict=True):
        joined = np.concatenate([images for images, _ in ranks])
        assert sorted(map(bytes, joined)) == sorted(map(bytes, expected[0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buckets": []}, "there are no sizes"),
        ({"buckets": [(8,)]}, "is not a size"),
        ({"buckets": [(8, 8), (16, 16)]}, "each aspect ratio once"),
        ({"buckets": SIZES, "transform": [Resize((8, 8))]}, "leave Resize.* out"),
        ({"buckets": SIZES, "transform": [RandomResizedCrop(8)]}, "leave RandomResizedCrop.* out"),
        ({"buckets": SIZES, "collate": "list"}, "leave collate='list' out"),
        ({"buckets": SIZES, "fields": ("label",)}, "buckets need images"),
        ({"collate": "dict"}, "collate must be one of stack, list"),
        ({"repeat": 3, "shuffle": False}, "give shuffle=True"),
        ({"repeat": 3}, "batch_size is 4; it must be a multiple of repeat, 3"),
        ({"repeat": 0}, "repeat is 0; it must be at least 1"),
        ({"tokenize": len, "transform": [Resize((8, 8))]}, "tokenize gets texts"),
    ],
)
def test_options_are_checked(packed: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        headrace.Loader(packed, 4, **{"shuffle": True, **options})


def test_repeated_samples_share_their_batch_and_differ_in_their_draws(packed: Path) -> None:
    steps = [RandomCrop(16)]
    loader = headrace.Loader(packed, 12, shuffle=True, repeat=3, transform=steps)
    assert len(loader) == 4
    seen: Counter[int] = Counter()
    for epoch in range(3):
        loader.set_epoch(epoch)
        for batch in loader:
            assert set(Counter(batch.rows.tolist()).values()) == {3}
            copies = batch[0].reshape(4, 3, 16, 16, 3)
            assert any((copies[:, 0] != copies[:, 1]).reshape(4, -1).any(axis=1))
            seen.update(set(batch.rows.tolist()))
    assert set(seen) == set(range(48)) and set(seen.values()) == {1}
    parts = [
        headrace.Loader(packed, 6, shuffle=True, repeat=3, transform=steps, rank=r, world_size=2)
        for r in (0, 1)
    ]
    loader.set_epoch(0)
    for expected, *ranks in zip(loader, *parts, strict=True):
        assert all(set(Counter(batch.rows.tolist()).values()) == {3} for batch in ranks)
        joined = np.concatenate([batch[0] for batch in ranks])
        assert sorted(map(bytes, joined)) == sorted(map(bytes, expected[0]))


def count_words(texts: list[str]) -> np.ndarray:
    return np.array([len(text.split()) for text in texts])


def test_text_is_a_list_of_str(packed: Path) -> None:
    for name in ("txt", "text"):
        loader = headrace.Loader(packed, 4, fields=("image", name), transform=[CenterCrop(8)])
        batch = next(iter(loader))
        stored = [headrace.open_dataset(packed)[int(row)]["txt"].decode() for row in batch.rows]
        assert batch[1] == stored and stored[0].endswith("ünïcode")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("python", [False, True])
def test_tokenize_gets_the_texts_of_a_batch(packed: Path, workers: int, python: bool) -> None:
    steps = [CenterCrop(8), *([OnArray(np.array)] if python else [])]
    options: dict[str, Any] = {"shuffle": True, "fields": ("image", "txt", "label")}
    plain = headrace.Loader(packed, 4, transform=[CenterCrop(8)], **options)
    loader = headrace.Loader(
        packed, 4, transform=steps, tokenize=count_words, num_workers=workers, **options
    )
    for (images, texts, labels), (same, counts, again) in zip(plain, loader, strict=True):
        np.testing.assert_array_equal(counts, count_words(texts))
        np.testing.assert_array_equal(images, same)
        np.testing.assert_array_equal(labels, again)


def test_an_error_of_tokenize_is_raised_in_the_loop(packed: Path) -> None:
    def fail(texts: list[str]) -> None:
        raise RuntimeError("no such vocabulary")

    loader = headrace.Loader(
        packed, 4, fields=("image", "txt"), transform=[CenterCrop(8)], tokenize=fail, num_workers=1
    )
    with pytest.raises(headrace.WorkerError, match="tokenize failed .*no such vocabulary"):
        next(iter(loader))


def test_captions_come_from_a_listing(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(save(np.full((9, 9, 3), number, np.uint8)))
    lines = ["path,caption", *(f"{number}.png,a square of {number}" for number in range(4))]
    (tmp_path / "captions.csv").write_text("\n".join(lines))
    headrace.pack_dataset(tmp_path, tmp_path / "packed")
    loader = headrace.Loader(
        tmp_path / "packed", 2, fields=("image", "caption"), tokenize=count_words
    )
    for images, counts in loader:
        assert images.shape == (2, 9, 9, 3) and counts.tolist() == [4, 4]


def test_views_of_a_list(packed: Path) -> None:
    views = Views([RandomResize(0.5, 1.0)], [RandomResize(0.5, 1.0)])
    loader = headrace.Loader(packed, 4, shuffle=True, collate="list", transform=views)
    (first, second), _ = next(iter(loader))
    assert len(first) == len(second) == 4
    assert [a.shape for a in first] != [b.shape for b in second]
