"""Progressive JPEGs: Pillow's pixels and Pillow's verdict, whatever the scan script and the damage."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile

from headrace import _core
from headrace.errors import DecodeError
from headrace.render import decode_jpeg, render_batch
from images import encode, make_pixels
from jpegs import CORRUPT, OK, TRUNCATED, UNSUPPORTED, decode_with_pillow, join_segment
from progressive import (
    Coefficients,
    ProgressiveScan,
    draw_coefficients,
    draw_script,
    encode_progressive,
)
from render import reference
from stored import read_photos

SIZES = [(1, 1), (1, 40), (40, 1), (2, 2), (7, 9), (8, 8), (17, 33), (33, 17), (101, 67)]
SAMPLINGS = ["4:4:4", "4:2:2", "4:2:0"]
RESTARTS = [{}, {"restart_marker_rows": 1}, {"restart_marker_blocks": 3}]
FACTORS = {
    "grey": [(1, 1)],
    "grey 2x2": [(2, 2)],
    "4:4:4": [(1, 1), (1, 1), (1, 1)],
    "4:2:2": [(2, 1), (1, 1), (1, 1)],
    "4:2:0": [(2, 2), (1, 1), (1, 1)],
    "4:4:0": [(1, 2), (1, 1), (1, 1)],
    "4:1:1": [(4, 1), (1, 1), (1, 1)],
    "4:1:0": [(4, 2), (1, 1), (1, 1)],
    "3:1:1": [(3, 1), (1, 1), (1, 1)],
    "mixed": [(2, 2), (1, 2), (2, 1)],
    "finer chroma": [(1, 1), (2, 2), (1, 1)],
}
SIMPLE = [
    ProgressiveScan((0,), 0, 0, 0, 1),
    ProgressiveScan((0,), 1, 5, 0, 2),
    ProgressiveScan((0,), 6, 63, 0, 2),
    ProgressiveScan((0,), 1, 63, 2, 1),
    ProgressiveScan((0,), 0, 0, 1, 0),
    ProgressiveScan((0,), 1, 63, 1, 0),
]


@pytest.fixture(params=["auto", "portable"])
def simd(request: pytest.FixtureRequest) -> Iterator[str]:
    _core.set_simd(request.param)
    yield request.param
    _core.set_simd("auto")


@pytest.fixture(autouse=True)
def large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow fails to write a progressive file that needs more than its buffer."""
    monkeypatch.setattr(ImageFile, "MAXBLOCK", 1 << 22)


def check(data: bytes, boxes: int = 4) -> None:
    """The whole picture and some boxes equal Pillow."""
    expected = decode_with_pillow(data)
    height, width, _ = expected.shape
    rng = np.random.default_rng(len(data))
    status, pixels = _core.decode_jpeg(data)
    assert status == OK
    np.testing.assert_array_equal(pixels, expected)
    for _ in range(boxes):
        left, top = int(rng.integers(width)), int(rng.integers(height))
        right = int(rng.integers(left, width)) + 1
        bottom = int(rng.integers(top, height)) + 1
        status, pixels = _core.decode_jpeg(data, (left, top, right - left, bottom - top))
        assert status == OK
        np.testing.assert_array_equal(pixels, expected[top:bottom, left:right])


def same_as_pillow(data: bytes) -> bool:
    """Return whether both decode it to the same pixels, or neither does; the core must not decode more."""
    try:
        expected = decode_with_pillow(data)
    except Exception:  # noqa: BLE001
        assert _core.decode_jpeg(data)[0] != OK
        with pytest.raises(DecodeError):
            decode_jpeg(data)
        return True
    return np.array_equal(decode_jpeg(data), expected)


@pytest.mark.parametrize("restart", RESTARTS, ids=str)
@pytest.mark.parametrize("subsampling", SAMPLINGS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_sampling_and_size_equals_pillow(
    size: tuple[int, int], subsampling: str, restart: dict[str, int], simd: str
) -> None:
    for quality in (30, 90):
        check(encode(*size, subsampling=subsampling, quality=quality, progressive=True, **restart))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_grey_images_equal_pillow(size: tuple[int, int], simd: str) -> None:
    check(encode(*size, mode="L", progressive=True))


@pytest.mark.parametrize("quality", range(1, 101, 3))
def test_every_quality_equals_pillow(quality: int) -> None:
    subsampling = SAMPLINGS[quality % 3]
    check(encode(50, 75, quality, subsampling=subsampling, quality=quality, progressive=True))


def test_saturated_noise_equals_pillow(simd: str) -> None:
    """It has the largest coefficients that an encoder makes, and the longest codes."""
    noise = np.random.default_rng(0).integers(0, 2, (64, 80, 3), np.uint8) * 255
    for quality in (1, 10, 100):
        out = io.BytesIO()
        Image.fromarray(noise).save(out, "JPEG", quality=quality, progressive=True)
        check(out.getvalue())


def test_rgb_without_conversion_equals_pillow() -> None:
    check(encode(40, 50, keep_rgb=True, progressive=True))


@given(
    seed=st.integers(0, 1 << 30),
    factors=st.sampled_from(list(FACTORS.values())),
    height=st.integers(1, 50),
    width=st.integers(1, 50),
    density=st.sampled_from([0.02, 0.2, 0.8]),
    restart=st.sampled_from([0, 1, 5]),
    max_run=st.sampled_from([1, 3, 32767]),
    steep=st.booleans(),
    interleaved=st.booleans(),
)
def test_any_script_equals_pillow(
    seed, factors, height, width, density, restart, max_run, steep, interleaved
):
    coefficients = draw_coefficients(height, width, factors, seed, density)
    interleaved = interleaved and sum(h * v for h, v in factors) <= 10
    script = draw_script(random.Random(seed), len(factors), interleaved)
    check(
        encode_progressive(coefficients, script, restart=restart, max_run=max_run, steep=steep),
        boxes=20,
    )


@pytest.mark.parametrize("factors", FACTORS.values(), ids=FACTORS)
def test_every_sampling_factor_equals_pillow(factors: list[tuple[int, int]], simd: str) -> None:
    for seed, size in enumerate(SIZES):
        coefficients = draw_coefficients(*size, factors, seed)
        interleaved = seed % 2 == 0 and sum(h * v for h, v in factors) <= 10
        script = draw_script(random.Random(seed), len(factors), interleaved)
        check(encode_progressive(coefficients, script), boxes=20)


def test_the_longest_runs_of_ended_bands_equal_pillow(simd: str) -> None:
    """35,344 blocks, most of which have no AC coefficient: more than one run can cover."""
    coefficients = draw_coefficients(1504, 1504, [(1, 1)], density=0)
    coefficients.blocks[0][::180, ::7, 1:20] = 9
    coefficients.blocks[0][0, 0, 1:] = -5
    check(encode_progressive(coefficients, SIMPLE))


def test_a_block_with_every_coefficient_equals_pillow(simd: str) -> None:
    """Sixty-three correction bits in a row, more than a word holds behind a symbol."""
    coefficients = draw_coefficients(16, 40, [(1, 1)])
    coefficients.blocks[0][:, ::2, 1:] = np.where(np.arange(63) % 3, 21, -14)
    coefficients.blocks[0][0, 2, 63] = 1
    check(encode_progressive(coefficients, SIMPLE, max_run=1))
    check(encode_progressive(coefficients, SIMPLE))


def test_extreme_coefficients_equal_pillow(simd: str) -> None:
    """Beyond what 8-bit samples need, up to what 16 bits hold; the inverse DCT saturates."""
    for seed, limit in enumerate([1023, 4095, 16383]):
        coefficients = draw_coefficients(24, 40, [(1, 1)], seed)
        rng = np.random.default_rng(seed)
        coefficients.blocks[0][..., 1:9] = rng.integers(-limit, limit, (3, 5, 8))
        check(encode_progressive(coefficients, SIMPLE))


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_batches_equal_pillow(threads: int) -> None:
    rng = np.random.default_rng(threads)
    images, boxes = [], []
    for seed in range(24):
        height, width = (int(side) for side in rng.integers(30, 300, 2))
        options = {"mode": "L"} if seed % 5 == 0 else {"subsampling": SAMPLINGS[seed % 3]}
        images.append(encode(height, width, seed, progressive=seed % 4 != 3, **options))
        boxes.append((width // 5, height // 6, width // 2, height // 2))
    out, status = render_batch(images, boxes, (32, 40), threads=threads)
    assert not status.any()
    for row, image in enumerate(images):
        expected = reference.render(decode_with_pillow(image), boxes[row], (32, 40))
        np.testing.assert_array_equal(out[row], expected)


def test_photos_saved_as_progressive_equal_pillow() -> None:
    for number, photo in enumerate(read_photos()[::3]):
        out = io.BytesIO()
        Image.open(io.BytesIO(photo)).save(
            out, "JPEG", progressive=True, quality=60 + 5 * (number % 8)
        )
        check(out.getvalue(), boxes=20)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_all_photos_saved_as_progressive_equal_pillow(beside: Path, part: int) -> None:
    with tarfile.open(beside / "data" / "imagenet-sample.tar") as tar:
        for member in [member for member in tar if member.isfile()][part::6]:
            file = tar.extractfile(member)
            assert file is not None
            out = io.BytesIO()
            Image.open(file).save(out, "JPEG", quality="keep", progressive=True)
            check(out.getvalue(), boxes=20)


def test_a_seek_table_is_empty_and_ignored() -> None:
    data = encode(300, 400, progressive=True)
    assert _core.build_seek(data) == (OK, b"")
    table = _core.build_seek(encode(300, 400))[1]
    expected = decode_with_pillow(data)
    np.testing.assert_array_equal(_core.decode_jpeg(data, None, table)[1], expected)


def test_a_decoder_leaves_nothing_behind_after_damage() -> None:
    """One thread decodes a damaged file, then a sound one with the same memory."""
    sound = encode(90, 120, progressive=True, quality=95)
    damaged = bytearray(sound)
    damaged[len(sound) * 3 // 4 :] = b"\xff\xd9"
    expected = decode_with_pillow(sound)
    for _ in range(3):
        assert _core.decode_jpeg(bytes(damaged))[0] != OK
        np.testing.assert_array_equal(_core.decode_jpeg(sound)[1], expected)


def small_files() -> dict[str, bytes]:
    coefficients = draw_coefficients(17, 21, FACTORS["4:2:0"], 7)
    script = draw_script(random.Random(7), 3, interleaved=True)
    return {
        "pillow": encode(17, 21, progressive=True, quality=60),
        "grey": encode(17, 21, mode="L", progressive=True),
        "restart": encode_progressive(coefficients, script, restart=2),
    }


SMALL = small_files()


@pytest.mark.parametrize("name", SMALL)
def test_a_file_cut_anywhere_is_an_error_as_in_pillow(name: str) -> None:
    data = SMALL[name]
    for size in range(2, len(data)):
        assert _core.decode_jpeg(data[:size])[0] == TRUNCATED, size
        if size % 7 == 0:
            assert same_as_pillow(data[:size])


@pytest.mark.parametrize("name", SMALL)
def test_scans_cut_short_have_pillows_verdict_and_pixels(name: str) -> None:
    """The last bytes of the file are gone, but EOI is there: Pillow smooths such pictures."""
    data = SMALL[name]
    for size in range(2, len(data), 3):
        assert same_as_pillow(data[:size] + b"\xff\xd9"), size


@pytest.mark.parametrize("name", SMALL)
def test_flipped_bits_have_pillows_verdict_and_pixels(name: str) -> None:
    clean, rng, decoded = SMALL[name], np.random.default_rng(1), 0
    for _ in range(600):
        data = bytearray(clean)
        data[rng.integers(2, len(data))] ^= 1 << rng.integers(8)
        assert same_as_pillow(bytes(data))
        decoded += _core.decode_jpeg(bytes(data))[0] == OK
    assert decoded > 0


def test_boxes_of_damaged_files_have_pillows_pixels() -> None:
    clean, rng, decoded = SMALL["pillow"], np.random.default_rng(2), 0
    for _ in range(400):
        data = bytearray(clean)
        data[rng.integers(200, len(data))] ^= 1 << rng.integers(8)
        top = int(rng.integers(17))
        status, pixels = _core.decode_jpeg(bytes(data), (0, top, 21, 1))
        if status == OK:
            decoded += 1
            np.testing.assert_array_equal(pixels, decode_with_pillow(bytes(data))[top : top + 1])
    assert decoded > 0


def drop(number: int) -> Callable[[list[ProgressiveScan]], list[ProgressiveScan]]:
    return lambda script: script[:number] + script[number + 1 :]


ILLEGAL = {
    "no last bit": drop(5),
    "no high band": drop(2),
    "no refinement between": drop(3),
    "no DC": drop(0),
    "no last bit of DC": drop(4),
    "AC before DC": lambda script: [script[1], script[0], *script[2:]],
    "a scan twice": lambda script: [*script, script[1]],
    "a refinement twice": lambda script: [*script, script[-1]],
    "DC twice": lambda script: [*script, script[0]],
    "known bits again": lambda script: [*script, ProgressiveScan((0,), 1, 9, 0, 0)],
    "a band across DC": lambda script: [ProgressiveScan((0,), 0, 5, 0, 0), *script],
    "a band backwards": lambda script: [*script, ProgressiveScan((0,), 9, 3, 0, 0)],
    "a band beyond 63": lambda script: [*script, ProgressiveScan((0,), 60, 64, 0, 0)],
    "two bits at once": lambda script: [*script[:3], ProgressiveScan((0,), 1, 63, 2, 0)],
    "too low a bit": lambda script: [ProgressiveScan((0,), 0, 0, 0, 14), *script[1:]],
    "nothing": lambda script: [],
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_pillow_decides_on_scripts_that_are_not_complete(name: str) -> None:
    coefficients = draw_coefficients(30, 45, [(1, 1)], 3)
    data = encode_progressive(coefficients, ILLEGAL[name](SIMPLE))
    assert _core.decode_jpeg(data)[0] in (UNSUPPORTED, CORRUPT)
    assert same_as_pillow(data)


def test_pillow_decides_on_a_component_without_scans() -> None:
    coefficients = draw_coefficients(30, 45, FACTORS["4:2:0"], 3)
    script = [*SIMPLE, ProgressiveScan((1,), 0, 0, 0, 0)]
    data = encode_progressive(coefficients, script)
    assert _core.decode_jpeg(data)[0] == UNSUPPORTED
    assert same_as_pillow(data)


SEGMENTS = {
    "comment": join_segment(0xFE, b"between"),
    "fill bytes": b"\xff\xff\xff",
    "quantisation table": join_segment(0xDB, bytes([0, *range(100, 164)])),
    "Adobe": join_segment(0xEE, b"Adobe\0\x64\0\0\0\0\0"),
    "restart interval": join_segment(0xDD, b"\0\3"),
    "stray byte": b"\x11",
    "restart marker": b"\xff\xd0",
    "frame": join_segment(0xC2, b"\x08\0\x10\0\x10\1\1\x11\0"),
    "reserved marker": b"\xff\x02",
    "stuffed zero": b"\xff\0",
    "start of image": b"\xff\xd8",
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_between_scans_are_read_as_in_pillow(name: str) -> None:
    coefficients = draw_coefficients(30, 45, FACTORS["4:2:0"], 3)
    script = draw_script(random.Random(5), 3, interleaved=True)
    data = encode_progressive(coefficients, script)
    starts = [at for at in range(len(data)) if data[at : at + 2] in (b"\xff\xda", b"\xff\xc4")]
    for at in [*starts[1:], len(data) - 2]:
        assert same_as_pillow(data[:at] + SEGMENTS[name] + data[at:])


def test_a_new_restart_interval_counts_from_the_next_scan_on() -> None:
    coefficients = draw_coefficients(30, 45, [(1, 1)], 3)
    whole = encode_progressive(coefficients, SIMPLE)
    parts = encode_progressive(coefficients, SIMPLE, restart=4)
    third = [at for at in range(len(whole)) if whole[at : at + 2] == b"\xff\xc4"][2]
    tail = [at for at in range(len(parts)) if parts[at : at + 2] == b"\xff\xc4"][2]
    check(whole[:third] + join_segment(0xDD, b"\0\4") + parts[tail:])


def test_the_quantisation_table_of_the_first_scan_counts() -> None:
    coefficients = draw_coefficients(30, 45, [(1, 1)], 3)
    table = join_segment(0xDB, bytes([0, *[50] * 64]))
    data = encode_progressive(coefficients, SIMPLE)
    second = data.index(b"\xff\xda", data.index(b"\xff\xda") + 2)
    changed = data[:second] + table + data[second:]
    assert _core.decode_jpeg(changed)[0] == OK
    check(changed)


def test_data_behind_the_end_do_not_matter() -> None:
    data = encode(40, 50, progressive=True)
    check(data + data[100:300] + b"\xff\xda\0")


def test_a_claimed_size_allocates_nothing() -> None:
    data = bytearray(encode(16, 16, progressive=True))
    at = data.index(b"\xff\xc2")
    data[at + 5 : at + 9] = (2700).to_bytes(2, "big") + (65500).to_bytes(2, "big")
    assert _core.decode_jpeg(bytes(data), (0, 0, 8, 8))[0] == TRUNCATED


def test_a_giant_is_left_to_pillow_but_its_crops_are_not() -> None:
    """6,000 x 6,000 pixels in colour have 216 MB of coefficients."""
    out = io.BytesIO()
    image = Image.fromarray(make_pixels(60, 60)).resize((6000, 6000), Image.Resampling.NEAREST)
    image.save(out, "JPEG", progressive=True, subsampling="4:4:4")
    data = out.getvalue()
    assert _core.decode_jpeg(data)[0] == UNSUPPORTED
    status, pixels = _core.decode_jpeg(data, (3000, 1000, 400, 300))
    assert status == OK
    np.testing.assert_array_equal(
        pixels, np.asarray(Image.open(io.BytesIO(data)))[1000:1300, 3000:3400]
    )


SCRIPTS = {
    "spectral only": "0,1,2: 0-0, 0, 0; 0: 1-63, 0, 0; 1: 1-63, 0, 0; 2: 1-63, 0, 0;",
    "one coefficient a scan": "0,1,2: 0-0, 0, 0;"
    + "".join(f"0: {k}-{k}, 0, 0;" for k in range(1, 64))
    + "1: 1-63, 0, 0; 2: 1-63, 0, 0;",
    "many refinements": "0 1 2: 0-0, 0, 4;"
    + "".join(f"{c}: 1-63, 0, 5;" for c in range(3))
    + "".join(f"0 1 2: 0-0, {bit + 1}, {bit};" for bit in (3, 2, 1, 0))
    + "".join(f"{c}: 1-63, {b + 1}, {b};" for b in (4, 3, 2, 1, 0) for c in range(3)),
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("jpegtran") is None, reason="needs jpegtran")
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_of_jpegtran_equal_pillow(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(SCRIPTS[name].replace(";", ";\n").replace(",1,2:", " 1 2:"))
    for seed, photo in enumerate(read_photos()[:4]):
        restart = ["-restart", "7B"] if seed % 2 else []
        command = ["jpegtran", "-scans", str(script), *restart]
        check(subprocess.run(command, input=photo, capture_output=True, check=True).stdout, 20)


def test_the_encoder_of_these_tests_gives_back_its_coefficients() -> None:
    """A flat block per DC value: what Pillow shows is what was drawn."""
    coefficients = Coefficients(8, 16, [(1, 1)], [np.zeros((1, 2, 64), np.int64)])
    coefficients.blocks[0][0, :, 0] = [-8 * 28, 8 * 72]
    pixels = decode_with_pillow(encode_progressive(coefficients, SIMPLE))
    assert (pixels[:, :8] == 100).all() and (pixels[:, 8:] == 200).all()
