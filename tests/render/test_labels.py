"""Labels of masks: torch's nearest pixel, every type of labels, and no label that a mask does not have."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from headrace import _core
from headrace.errors import DecodeError
from headrace.render import Draws, Viewport
from headrace.render.decode import decode_labels
from headrace.render.labels import LabelRequest
from images import encode, encode_deep
from png_files import RGB, PngFile

torch: Any = pytest.importorskip("torch")

MOST = 700


def save(array: np.ndarray, format: str = "npy", mode: str | None = None) -> bytes:
    """Return an array as a .npy file, or as an image."""
    out = io.BytesIO()
    if format == "npy":
        np.save(out, array)
    else:
        Image.fromarray(array).convert(mode).save(out, format)
    return out.getvalue()


def draw_rgb(seed: int = 0, height: int = 30, width: int = 41) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def join(rgb: np.ndarray) -> np.ndarray:
    red, green, blue = rgb.astype(np.int64).transpose(2, 0, 1)
    return red + 256 * green + 65536 * blue


def whole(labels: np.ndarray) -> Draws:
    return Draws([(0, 0, labels.shape[1], labels.shape[0])])


def assert_places_are_torchs(size: int, mode: str) -> None:
    """Compare the pixel that each result takes, for all sizes of results up to MOST.

    Torch has another kernel for results of more than 128 rows and columns together.
    """
    places = np.arange(size, dtype=np.int32)[None]
    tensor = torch.arange(size, dtype=torch.float32)[None, None, None]
    sizes = [(1, full) for full in range(1, MOST + 1)] + [(128, full) for full in range(1, 128)]
    for height, full in sizes:
        out = np.empty((height, full), np.int32)
        rows, columns = (1, height, 0, False), (size, full, 0, False)
        _core.render_labels(places, rows, columns, 0, out, mode == "nearest-exact")
        expected = torch.nn.functional.interpolate(tensor, size=(height, full), mode=mode)
        assert np.array_equal(out[0], expected[0, 0, 0].numpy().astype(np.int32)), (size, full)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@given(st.integers(1, MOST))
def test_the_nearest_pixel_is_torchs(mode: str, size: int) -> None:
    assert_places_are_torchs(size, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_the_nearest_pixel_is_torchs_for_all_sizes(mode: str) -> None:
    for size in range(1, MOST + 1):
        assert_places_are_torchs(size, mode)


@given(
    st.integers(0, 2**32),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.tuples(st.integers(1, 60), st.integers(1, 60)),
    st.booleans(),
)
def test_nearest_exact_equals_torchvision(
    torchvision: ModuleType, seed: int, size: tuple[int, int], full: tuple[int, int], flip: bool
) -> None:
    F, tv = torchvision.transforms.v2.functional, torchvision.tv_tensors
    exact = torchvision.transforms.InterpolationMode.NEAREST_EXACT
    labels = np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)
    expected = F.resize(tv.Mask(torch.from_numpy(labels)), list(full), interpolation=exact).numpy()
    draws = Draws([(0, 0, size[1], size[0])], flips=[flip])
    for format in ("PNG", "npy"):
        mask = save(labels, format)
        out, failed = LabelRequest([mask], draws, full, interpolation="nearest-exact").render()
        assert not failed
        assert np.array_equal(out[0], expected[:, ::-1] if flip else expected)


@given(st.data(), st.sampled_from(["nearest", "nearest-exact"]))
def test_a_viewport_shows_a_part_of_the_resized_mask(data: st.DataObject, mode: Any) -> None:
    labels = np.arange(30 * 41, dtype=np.int32).reshape(30, 41)
    sides = st.integers(1, 80)
    full = data.draw(sides), data.draw(sides)
    x, y = data.draw(st.integers(-30, 80)), data.draw(st.integers(-30, 80))
    box = data.draw(st.sampled_from([(0, 0, 41, 30), (5, 7, 20, 9), (40, 29, 1, 1)]))
    request = LabelRequest([save(labels)], Draws([box]), full, np.int32, interpolation=mode)
    resized = np.full((300, 300), -7)
    resized[100 : 100 + full[0], 100 : 100 + full[1]] = request.render()[0][0]
    viewport = Viewport(np.array([full]), np.array([[x, y]]))
    for format in (save(labels), save(labels.astype(np.uint16), "PNG")):
        request = LabelRequest(
            [format], Draws([box], viewport), (20, 25), np.int32, -7, interpolation=mode
        )
        out, failed = request.render()
        assert not failed
        assert np.array_equal(out[0], resized[100 + y : 120 + y, 100 + x : 125 + x])


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_an_rgb_image_has_ids(format: str, dtype: str) -> None:
    rgb = draw_rgb()
    ids, mask = join(rgb), save(rgb, format)
    decoded = decode_labels(mask, rgb_ids=True)
    assert decoded.dtype == np.int32 and np.array_equal(decoded, ids)
    assert np.array_equal(decode_labels(mask, (3, 4, 20, 9), rgb_ids=True), ids[4:13, 3:23])
    request = LabelRequest([mask], whole(ids), (30, 41), dtype, -1, rgb_ids=True)
    out, failed = request.render()
    assert not failed and out.dtype == dtype and np.array_equal(out[0], ids)


def test_masks_of_one_channel_are_masks_among_ids_too() -> None:
    levels = draw_rgb()[..., 0]
    for mode in ("L", "P", "1"):
        mask = save(levels, "PNG", mode)
        assert np.array_equal(decode_labels(mask, rgb_ids=True), decode_labels(mask))


def test_other_modes_are_not_masks() -> None:
    for mode, rgb_ids in (("RGB", False), ("RGBA", True), ("LA", True)):
        for format in ("PNG", "TIFF"):
            with pytest.raises(DecodeError, match=f"the mask has mode {mode}; .* need one channel"):
                decode_labels(save(draw_rgb(), format, mode), rgb_ids=rgb_ids)


def test_ids_of_16_bits_per_channel_are_refused() -> None:
    mask = PngFile(np.full((3, 4, 3), 999), RGB, 16).encode()
    with pytest.raises(DecodeError, match="the mask has 16 bits per channel; ids need 8"):
        decode_labels(mask, rgb_ids=True)


@given(
    st.sampled_from(["uint8", "uint16", "int32", "int64"]),
    st.sampled_from(
        [
            "bool",
            "int8",
            "uint8",
            "int16",
            ">i2",
            "uint16",
            "int32",
            ">u4",
            "uint32",
            "int64",
            "uint64",
        ]
    ),
    st.sampled_from(
        [0, 1, -1, 127, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**63 - 1, 2**64 - 1]
    ),
    st.sampled_from([0, 255, -100]),
)
def test_labels_fit_into_the_batch_or_are_an_error(
    dtype: str, stored: str, label: int, fill: int
) -> None:
    limits = np.iinfo(dtype)
    source = np.dtype(stored)
    if source.kind == "b":
        label = min(abs(label), 1)
    elif not np.iinfo(source).min <= label <= np.iinfo(source).max:
        label = 7
    labels = np.array([[0, label], [1, 0]], source)
    viewport = Viewport(np.array([[2, 2]]), np.array([[0, 0]]))
    if not limits.min <= fill <= limits.max:
        fill = 255
    request = LabelRequest(
        [save(labels)], Draws([(0, 0, 2, 2)], viewport), (3, 2), np.dtype(dtype), fill
    )
    out, failed = request.render()
    assert out.dtype == dtype
    if limits.min <= label <= limits.max:
        assert not failed
        assert out[0].tolist() == [[0, label], [1, 0], [fill, fill]]
    else:
        assert str(label) in failed[0] and f"the batch {dtype}" in failed[0]
        assert np.all(out == fill)


def test_levels_of_16_bits_fit_if_they_are_small() -> None:
    levels = np.array([[3, 255]])
    assert LabelRequest([encode_deep(levels)], whole(levels), (1, 2)).render()[0][0].tolist() == [
        [3, 255]
    ]
    _, failed = LabelRequest([encode_deep(levels + 1)], whole(levels), (1, 2)).render()
    assert failed == {0: "the mask has labels from 4 to 256, the batch uint8"}


@pytest.mark.parametrize(
    "array", [np.zeros((3, 4), np.float32), np.zeros((3, 4, 2), np.int32), np.zeros((0, 4), int)]
)
def test_other_arrays_are_not_masks(array: np.ndarray) -> None:
    with pytest.raises(DecodeError, match=r"the mask is an array .*; labels are integers \[H, W\]"):
        decode_labels(save(array))


def test_a_mask_that_fails_is_filled_and_spoils_no_other() -> None:
    good = save(np.ones((9, 9), np.int16))
    masks = [good, b"", encode(9, 9), good[:-1], good]
    boxes = [(0, 0, 9, 9)] * 4 + [(0, 0, 10, 9)]
    out, failed = LabelRequest(masks, Draws(boxes), (4, 4), threads=2).render()
    assert sorted(failed) == [1, 2, 3, 4]
    assert np.all(out[0] == 1) and np.all(out[1:] == 255)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"fill": 256}, "fill is 256; give a label that fits into uint8"),
        ({"fill": -1, "dtype": "uint16"}, "fill is -1"),
        ({"dtype": "float32"}, "dtype must be one of uint8, uint16, int32, int64, not"),
        ({"interpolation": "linear"}, "interpolation must be one of nearest, nearest-exact"),
    ],
)
def test_options_of_masks_are_checked(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        LabelRequest([], Draws(np.zeros((0, 4), int)), (4, 4), **options)
