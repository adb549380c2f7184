"""Recoding: a baseline JPEG with the same coefficients, pixels and application segments; or nothing at all."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms

from headrace import _core
from headrace.image_header import read_header
from images import encode
from jpegs import (
    OK,
    UNSUPPORTED,
    decode_with_pillow,
    join_segment,
    make_multiscan,
    split_segments,
)
from progressive import draw_coefficients, draw_script, encode_progressive
from stored import list_hostile_folders, read_photos

SOS = 0xDA
needs_jpegtran = pytest.mark.skipif(shutil.which("jpegtran") is None, reason="needs jpegtran")


def recode(data: bytes) -> bytes:
    status, recoded = _core.recode_jpeg(data)
    assert status == OK
    return recoded


def transform(data: bytes, *options: str) -> bytes:
    command = ["jpegtran", "-copy", "all", *options]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert done.returncode in (0, 2), done.stderr  # 2: with warnings
    return done.stdout


def read_scan(data: bytes) -> bytes:
    """Return the last scan of a file, with its header."""
    return data[data.rindex(b"\xff\xda") :]


def check(data: bytes) -> None:
    """Recode a file; check that it is baseline, seekable and shows the same."""
    recoded = recode(data)
    assert read_header(recoded).kind in ("baseline", "grey")
    assert [marker for marker, _ in split_segments(recoded)].count(SOS) == 1
    pixels = decode_with_pillow(data)
    np.testing.assert_array_equal(decode_with_pillow(recoded), pixels)
    status, seek = _core.build_seek(recoded)
    assert status == OK
    np.testing.assert_array_equal(_core.decode_jpeg(recoded, None, seek)[1], pixels)
    assert _core.recode_jpeg(recoded)[0] == UNSUPPORTED  # there is nothing left to do


def list_hostile() -> list[Path]:
    return [path for folder in list_hostile_folders() for path in sorted(folder.glob("jpeg/*.jpg"))]


def test_hostile_files_keep_their_pixels_or_their_bytes() -> None:
    """What is recoded shows what Pillow makes of the original, damaged or not."""
    recoded = [path for path in list_hostile() if _core.recode_jpeg(path.read_bytes())[0] == OK]
    for path in recoded:
        check(path.read_bytes())
    names = {path.stem for path in recoded}
    assert {"prog-420", "prog-deep-approx", "restart-prog", "rgb-prog", "gray-prog"} <= names
    assert {"arith-420", "arith-gray", "arith-prog-restart", "multiscan-y-cbcr-420"} <= names
    assert not any(name.startswith(("trunc", "cmyk", "12bit", "prog-missing")) for name in names)


@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("size", [(1, 1), (7, 9), (17, 33), (101, 67)])
def test_progressive_files(size: tuple[int, int], sampling: str) -> None:
    check(encode(*size, progressive=True, subsampling=sampling, quality=92))


@given(
    seed=st.integers(0, 10**6),
    factors=st.sampled_from(
        [[(1, 1)], [(1, 1)] * 3, [(2, 2), (1, 1), (1, 1)], [(2, 2), (1, 2), (2, 1)]]
    ),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    restart=st.sampled_from([0, 1, 3]),
)
def test_any_script(
    seed: int, factors: list[tuple[int, int]], size: tuple[int, int], restart: int
) -> None:
    script = draw_script(random.Random(seed), len(factors), interleaved=seed % 2 == 0)
    check(encode_progressive(draw_coefficients(*size, factors, seed), script, restart=restart))


def test_scans_of_one_component_each() -> None:
    check(make_multiscan(19, 21, [(1, 2), (1, 1), (1, 1)]))
    check(make_multiscan(19, 37, [(4, 1), (1, 1), (1, 1)], restart=2))


@needs_jpegtran
@pytest.mark.parametrize(
    "options",
    [
        ["-progressive"],
        ["-progressive", "-restart", "3B"],
        ["-arithmetic"],
        ["-arithmetic", "-restart", "5B"],
        ["-arithmetic", "-progressive"],
    ],
    ids=" ".join,
)
def test_coefficients_are_those_of_libjpeg_turbo(options: list[str]) -> None:
    """Its own lossless transformation, with optimal tables, writes the same scan to the last bit."""
    for photo in read_photos()[:6]:
        kind = transform(photo, *options)
        assert read_scan(recode(kind)) == read_scan(transform(kind, "-optimize", "-restart", "0"))
        check(kind)


@pytest.mark.slow
@needs_jpegtran
def test_coefficients_of_all_photos_and_hostile_files() -> None:
    files = [transform(photo, "-progressive") for photo in read_photos()]
    files += [path.read_bytes() for path in list_hostile()]
    compared = 0
    for data in files:
        status, recoded = _core.recode_jpeg(data)
        if status != OK:
            continue
        expected = transform(data, "-optimize", "-restart", "0")
        assert read_scan(recoded) == read_scan(expected)
        compared += 1
    assert compared > 60


def test_application_segments_and_trailing_bytes_are_kept() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    pixels = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8))
    out = io.BytesIO()
    pixels.save(
        out,
        "JPEG",
        progressive=True,
        exif=exif,
        icc_profile=profile,
        comment=b"a dog",
        dpi=(72, 72),
    )
    data = out.getvalue() + b"behind the image"
    recoded = recode(data)

    def list_own(file: bytes) -> list[tuple[int, bytes]]:
        return [(m, p) for m, p in split_segments(file) if 0xE0 <= m <= 0xEF or m == 0xFE]

    assert list_own(recoded) == list_own(data) and len(list_own(data)) >= 4
    assert recoded.endswith(b"\xff\xd9behind the image")
    before, after = (Image.open(io.BytesIO(file)) for file in (data, recoded))
    assert after.getexif() == before.getexif() and after.info["icc_profile"] == profile
    assert {**after.info, "progressive": 1, "progression": 1} == before.info


def insert_segment(data: bytes, before: int, marker: int, payload: bytes) -> bytes:
    """Put a segment before the given occurrence of SOS."""
    at = -1
    for _ in range(before + 1):
        at = data.index(b"\xff\xda", at + 1)
    return data[:at] + join_segment(marker, payload) + data[at:]


def test_what_might_be_judged_otherwise_is_left_alone() -> None:
    data = encode(40, 60, progressive=True)
    recode(data)
    left = {
        "baseline": encode(40, 60),
        "an index of images, which has offsets": insert_segment(data, 0, 0xE2, b"MPF\0offsets"),
        "EXIF behind the first scan": insert_segment(data, 1, 0xE1, b"Exif\0\0"),
        "a comment behind the first scan": insert_segment(data, 1, 0xFE, b"late"),
        "no end": data[:-2],
        "half of it": data[: len(data) // 2],
        "a scan too few": data[: data.rindex(b"\xff\xda")] + b"\xff\xd9",
        "nothing": b"",
        "not a JPEG": b"RIFF1234WEBP",
    }
    for name, file in left.items():
        assert _core.recode_jpeg(file) != (OK, b""), name
        assert _core.recode_jpeg(file)[0] != OK, name
        assert _core.recode_jpeg(file)[1] is None, name


def test_coefficients_too_great_for_baseline_are_left_alone() -> None:
    coefficients = draw_coefficients(8, 8, [(1, 1)], seed=0)
    coefficients.blocks[0][0, 0, 5] = 1023
    script = draw_script(random.Random(0), 1, interleaved=False)
    check(encode_progressive(coefficients, script))
    coefficients.blocks[0][0, 0, 5] = 1024  # 11 bits
    assert _core.recode_jpeg(encode_progressive(coefficients, script))[0] == UNSUPPORTED


def test_steep_counts_need_codes_limited_to_16_bits() -> None:
    """Counts of symbols that grow like Fibonacci numbers would have codes of more than 16 bits."""
    blocks, counts = [], [1, 2]  # and 1 for the code that is all ones
    while sum(counts) < 6_000:
        counts.append(counts[-1] + counts[-2])
    for size, count in enumerate(counts):
        run, bits = divmod(size, 10)
        block = np.zeros(64, np.int64)
        block[run + 1] = 1 << bits
        blocks += [block] * count
    width = len(blocks) * 8
    coefficients = draw_coefficients(8, width, [(1, 1)], seed=0)
    coefficients.blocks[0][0, :] = np.stack(blocks)
    script = draw_script(random.Random(3), 1, interleaved=False)
    data = encode_progressive(coefficients, script)
    check(data)
    tables = [payload for marker, payload in split_segments(recode(data)) if marker == 0xC4]
    assert tables[1][16] > 0  # codes of 16 bits
