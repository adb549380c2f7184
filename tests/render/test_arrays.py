"""Arrays in .npy files: read as NumPy reads them, never trusted, and rendered as images."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _core
from headrace.errors import DecodeError
from headrace.render import (
    Draws,
    Jobs,
    RenderRequest,
    Status,
    Target,
    View,
    decode_jpeg,
    render_batch,
)
from headrace.render.arrays import read_array
from images import make_pixels
from render import reference

PIXELS = make_pixels(30, 41)


def save(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def frame(header: str) -> bytes:
    """Return a file of version 1 with any header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(64)


@given(
    st.sampled_from(["?", "b1", "i1", "u1", "<i2", ">i2", "<u4", ">u8", "<f2", ">f4", "<f8"]),
    st.lists(st.integers(0, 4), max_size=4),
    st.sampled_from("CF"),
    st.sampled_from([(1, 0), (2, 0), (3, 0)]),
)
def test_arrays_are_read_as_numpy_reads_them(
    dtype: str, shape: list[int], order: Any, version: tuple[int, int]
) -> None:
    values = np.random.default_rng(0).integers(0, 2, shape)
    array = np.asarray(values, dtype, order=order)
    data = save(array, version)
    found = read_array(memoryview(data))
    assert found.dtype == array.dtype and np.array_equal(found, array)
    assert found.flags.f_contiguous == array.flags.f_contiguous
    if array.size:
        assert np.shares_memory(found, np.frombuffer(data, np.uint8))


@pytest.mark.parametrize(
    "header",
    [
        '{"shape": (2L, 3), "descr": "<u2", "fortran_order": False}',
        "{'descr':'<u2','fortran_order':False,'shape':(2,3,),}",
    ],
)
def test_headers_of_other_programs_are_read(header: str) -> None:
    assert read_array(frame(header)).shape == (2, 3)


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        ("|O", "(1,)"),
        ("<c8", "(1,)"),
        ("<U3", "(1,)"),
        ("<M8[s]", "(1,)"),
        ("f3", "(1,)"),
        ("<f4", "(17,)"),
        ("<f4", "(4611686018427387904, 4611686018427387904)"),
        ("<f4", "(" + "9" * 6000 + ",)"),
        ("<f4", "(0, 9223372036854775807)"),
        ("<f4", "(4611686018427387905, 0)"),
        ("<f4", "(" + "1," * 40 + ")"),
        ("<f4", "(-1,)"),
        ("<f4", "(1 1,)"),
        ("<f4", "(2.0,)"),
        ("<f4", "(__import__('os').abort(),)"),
    ],
)
def test_hostile_headers_are_errors(descr: str, shape: str) -> None:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}"
    with pytest.raises(DecodeError, match="the array"):
        read_array(frame(header))


def test_pickled_arrays_are_not_unpickled() -> None:
    out = io.BytesIO()
    np.save(out, np.array([{}]), allow_pickle=True)
    with pytest.raises(DecodeError, match="integers, floats or booleans"):
        read_array(out.getvalue())


@given(
    st.lists(st.tuples(st.integers(0, 127), st.integers(0, 255)), max_size=6), st.integers(0, 170)
)
def test_damaged_files_are_read_or_an_error(damage: list[tuple[int, int]], kept: int) -> None:
    data = bytearray(save(np.arange(10, dtype=np.float32).reshape(2, 5)))
    for place, byte in damage:
        data[place] = byte
    try:
        array = read_array(bytes(data[:kept]))
    except DecodeError:
        return
    assert array.nbytes <= kept


@given(st.binary(max_size=200))
def test_noise_behind_the_magic_is_read_or_an_error(noise: bytes) -> None:
    for data in (noise, b"\x93NUMPY" + noise, b"\x93NUMPY\x01\x00\xb0\x00" + noise):
        try:
            read_array(data)
        except DecodeError:
            continue


IMAGES = {
    "bgr": PIXELS[..., ::-1],
    "rgb": PIXELS,
    "bgra": np.dstack([PIXELS[..., ::-1], PIXELS[..., 0]]),
    "fortran": np.asfortranarray(PIXELS[..., ::-1]),
    "grey": PIXELS[..., 0],
    "one channel": PIXELS[..., :1],
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("orientation", [1, 6])
def test_an_array_is_rendered_as_the_image_that_it_is(name: str, orientation: int) -> None:
    data = save(IMAGES[name])
    grey = name in ("grey", "one channel")
    expected = np.repeat(PIXELS[..., :1], 3, axis=2) if grey else PIXELS
    channels: Any = "rgb" if name == "rgb" else "bgr"
    assert np.array_equal(decode_jpeg(data, channels=channels), expected)
    boxes = [(3, 4, 20, 17), (0, 0, 30, 30)]
    views = [View(Draws([box]), Target((12, 16), channels=channels)) for box in boxes]
    turned, sums = np.array([orientation], np.uint8), np.array([_core.crc32c(data)], np.uint32)
    jobs = Jobs([data], views[0].draws, None, sums, np.array([[30, 41]]), turned)
    results = RenderRequest(jobs, views[0].target, views[1:]).render_all()
    batch, _ = render_batch([data], [(0, 0, 41, 30)], (30, 41), channels=channels)
    assert np.array_equal(batch[0], expected)
    upright = np.rot90(expected, -1) if orientation == 6 else expected
    for box, (out, status) in zip(boxes, results, strict=True):
        assert status.tolist() == [Status.OK]
        assert np.array_equal(out[0], reference.render(upright, box, (12, 16)))


def test_the_order_of_channels_changes_no_encoded_image() -> None:
    from images import encode

    for format in ("JPEG", "PNG", "GIF"):
        jobs = Jobs([encode(30, 41, format=format)], Draws([(0, 0, 41, 30)]))
        first, second = (
            RenderRequest(jobs, Target((9, 9), channels=order)).render()[0]
            for order in ("bgr", "rgb")
        )
        assert np.array_equal(first, second)


def test_arrays_that_are_not_images_have_a_status() -> None:
    good = save(PIXELS)
    arrays = [PIXELS.astype(np.float32), PIXELS[..., :2], PIXELS[:0], PIXELS[None]]
    images = [good, *map(save, arrays), good[:-1], good]
    boxes = [(0, 0, 41, 30)] * 6 + [(0, 0, 42, 30)]
    out, status = render_batch(images, boxes, (8, 8))
    assert status.tolist() == [Status.OK, *[Status.CORRUPT] * 5, Status.BAD_BOX]
    assert out[0].any() and not out[1:].any()
    sizes = np.array([[41, 30]])
    jobs = Jobs([good], Draws([(0, 0, 9, 9)]), sizes=sizes)
    assert RenderRequest(jobs, Target((8, 8))).render()[1].tolist() == [Status.OTHER_SIZE]
    with pytest.raises(DecodeError, match=r"the array is float32\[30, 41, 3\]; an image is uint8"):
        decode_jpeg(images[1])


def test_the_order_of_channels_has_a_name() -> None:
    with pytest.raises(ValueError, match="channels must be one of bgr, rgb, not 'gbr'"):
        Target((8, 8), channels="gbr")  # type: ignore[arg-type]
