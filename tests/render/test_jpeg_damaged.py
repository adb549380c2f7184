"""Odd and broken files: never a crash, never pixels that Pillow would not give.

The policy is docs/explanations/damaged-images.md: what the core does not decode, Pillow judges."""

from __future__ import annotations

import hashlib
import json
import resource
from typing import Any

import numpy as np
import pytest

from headrace import _core
from headrace.errors import DecodeError
from headrace.render import decode_jpeg, render_batch
from images import encode
from jpegs import (
    CORRUPT,
    OK,
    TOO_LARGE,
    TRUNCATED,
    UNSUPPORTED,
    decode_with_pillow,
    join_segment,
    make_multiscan,
)
from stored import list_hostile_folders


def hash_pixels(pixels: np.ndarray) -> str:
    return hashlib.sha256(pixels.tobytes()).hexdigest()


def load_hostile() -> list[tuple[dict[str, Any], bytes]]:
    return [
        (entry, (folder / entry["file"]).read_bytes())
        for folder in list_hostile_folders()
        for entry in json.loads((folder / "expected.json").read_text())["jpeg"]
    ]


def test_legal_files_decode_to_the_expected_pixels() -> None:
    for entry, data in load_hostile():
        if entry["expect"] != "decode":
            continue
        status, pixels = _core.decode_jpeg(data)
        assert status in (OK, UNSUPPORTED), entry["file"]
        if pixels is None:
            pixels = decode_with_pillow(data)
        assert hash_pixels(pixels) == entry["rgb_sha256"], entry["file"]


def test_the_core_decodes_baseline_and_progressive_files() -> None:
    for entry, data in load_hostile():
        frame = entry.get("markers", {}).get("sof") or {}
        if entry["expect"] == "decode" and frame.get("marker") in ("SOF0", "SOF1", "SOF2"):
            if len(frame["components"]) == 4 or "no-dht" in entry["file"]:
                continue
            assert _core.decode_jpeg(data)[0] == OK, entry["file"]


def test_files_that_pillow_rejects_are_never_decoded() -> None:
    for entry, data in load_hostile():
        if entry["expect"] == "reject":
            assert _core.decode_jpeg(data)[0] != OK, entry["file"]


def test_damaged_files_give_an_error_or_the_pixels_of_pillow() -> None:
    for entry, data in load_hostile():
        pixels = _core.decode_jpeg(data)[1]
        if pixels is not None:
            assert hash_pixels(pixels) == entry["rgb_sha256"], entry["file"]


def test_seek_tables_of_hostile_files_change_nothing() -> None:
    for entry, data in load_hostile():
        status, pixels = _core.decode_jpeg(data)
        seek = _core.build_seek(data)[1]
        with_seek = _core.decode_jpeg(data, None, seek)
        assert with_seek[0] == status, entry["file"]
        if pixels is not None:
            np.testing.assert_array_equal(with_seek[1], pixels)


@pytest.mark.parametrize("options", [{}, {"subsampling": "4:2:0"}, {"restart_marker_rows": 1}])
def test_a_file_cut_anywhere_is_an_error(options: dict[str, object]) -> None:
    data = encode(40, 50, **options)
    for size in range(2, len(data)):
        assert _core.decode_jpeg(data[:size])[0] == TRUNCATED, size


def test_a_cut_file_is_an_error_even_where_the_box_is_complete() -> None:
    data = encode(200, 200, quality=90)
    assert _core.decode_jpeg(data[:-100], (0, 0, 16, 16))[0] == TRUNCATED


def test_a_marker_inside_the_scan_is_corrupt() -> None:
    data = bytearray(encode(200, 200, quality=90))
    data[len(data) // 2 : len(data) // 2 + 2] = b"\xff\xe5"
    assert _core.decode_jpeg(bytes(data))[0] == CORRUPT


def test_damage_below_the_box_does_not_matter() -> None:
    data = bytearray(encode(200, 200, quality=90))
    expected = decode_with_pillow(bytes(data))[:16]
    data[-200:-198] = b"\xff\xe5"
    status, pixels = _core.decode_jpeg(bytes(data), (0, 0, 200, 16))
    assert status == OK
    np.testing.assert_array_equal(pixels, expected)


def test_flipped_bits_never_give_other_pixels_than_pillow() -> None:
    rng = np.random.default_rng(0)
    clean = encode(48, 64, quality=85, restart_marker_rows=2)
    scan = clean.index(b"\xff\xda")
    decoded = 0
    for _ in range(300):
        data = bytearray(clean)
        data[rng.integers(scan + 14, len(data) - 2)] ^= 1 << rng.integers(8)
        status, pixels = _core.decode_jpeg(bytes(data))
        if status == OK:
            decoded += 1
            np.testing.assert_array_equal(pixels, decode_with_pillow(bytes(data)))
    assert decoded > 0


def test_a_claimed_size_allocates_nothing() -> None:
    """65500 x 2700 pixels in 700 bytes are refused before any memory is allocated for them."""
    data = bytearray(encode(16, 16))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = (2700).to_bytes(2, "big") + (65500).to_bytes(2, "big")
    assert _core.decode_jpeg(bytes(data), (0, 0, 8, 8))[0] == TRUNCATED
    data[at + 5 : at + 9] = (60000).to_bytes(2, "big") * 2
    assert _core.decode_jpeg(bytes(data))[0] == TOO_LARGE


def test_a_claimed_size_allocates_nothing_in_a_batch() -> None:
    data = bytearray(encode(16, 16)[:-2])
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = (13370).to_bytes(2, "big") * 2
    before = peak_memory()
    _, status = render_batch([bytes(data)], [(0, 0, 13370, 13370)], (8, 8), threads=1)
    assert status[0] != OK
    assert peak_memory() - before < 100 << 20


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_pillow_decides_on_a_picture_that_ends_in_another() -> None:
    data = encode(40, 40)
    for damaged in (data[:-2] + data, data[:-2] + b"\xff\xda\x00\x02\xff\xd9"):
        assert _core.decode_jpeg(damaged)[0] == TRUNCATED
        with pytest.raises(DecodeError):
            decode_jpeg(damaged)


def same_as_pillow(data: bytes) -> bool:
    """Return whether both decode it to the same pixels, or neither does."""
    try:
        expected = decode_with_pillow(data)
    except OSError:
        with pytest.raises(DecodeError):
            decode_jpeg(data)
        return True
    return np.array_equal(decode_jpeg(data), expected)


def test_pillow_decides_on_a_file_with_data_after_the_last_scan() -> None:
    data, comment = encode(160, 160), join_segment(0xFE, b"x")
    scan = data[data.index(b"\xff\xda") :]
    tails = [b"\xff\x02", b"\xff\xdb\0\3\x0f", comment + scan[:-2], comment, b"\xff\xdf\0\2"]
    tails.append(b"\xff\xff\0\xff\xda\0")
    for tail in tails:
        damaged = data[:-2] + tail + data[-2:]
        assert _core.build_seek(damaged) == (CORRUPT, b"")
        assert same_as_pillow(damaged)


def test_pillow_decides_on_a_file_that_repeats_a_scan_after_a_comment() -> None:
    data = make_multiscan(64, 64, [(1, 1)] * 3)
    starts = [i for i in range(len(data)) if data[i : i + 2] == b"\xff\xda"]
    again = data[starts[1] : starts[2]].replace(bytes([1, 2, 0]), bytes([1, 1, 0]), 1)
    assert same_as_pillow(data[:-2] + join_segment(0xFE, b"x") + again + data[-2:])


def test_the_color_space_is_that_of_the_first_scan() -> None:
    data = make_multiscan(32, 32, [(1, 1)] * 3)
    second = data.index(b"\xff\xda", data.index(b"\xff\xda") + 2)
    adobe = join_segment(0xEE, b"Adobe\0\x64\0\0\0\0\0")
    damaged = data[:second] + adobe + data[second:]
    assert _core.decode_jpeg(damaged)[0] == OK
    assert same_as_pillow(damaged)


def test_components_in_another_order_than_the_frame_are_refused_as_in_pillow() -> None:
    data = encode(64, 64)
    damaged = data.replace(bytes.fromhex("0301000211031100"), bytes.fromhex("0301000311021100"))
    assert damaged != data and _core.decode_jpeg(damaged)[0] == CORRUPT
    assert same_as_pillow(damaged)


def test_segments_too_short_for_pillow_are_unsupported() -> None:
    data = encode(40, 40)
    for segment in (b"\xff\xe2\0\x0eICC_PROFILE\0", b"\xff\xe0\0\x06JFIF"):
        damaged = data[:2] + segment + data[2:]
        assert _core.decode_jpeg(damaged)[0] == UNSUPPORTED
        with pytest.raises(DecodeError):
            decode_jpeg(damaged)
