"""Generates odd and broken images, and says what Pillow makes of each."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from images import encode, encode_deep
from jpegs import join_segment, make_multiscan

BASE = encode(93, 121, quality=80, subsampling="4:2:0")


def make_legal_jpegs() -> Iterator[tuple[str, bytes]]:
    """Yield (name, JPEG) of every kind that Pillow writes or that is put together from what it writes."""
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        kind = sampling.replace(":", "")
        for height, width in ((1, 1), (7, 9), (16, 16), (17, 33), (37, 1), (1, 37), (64, 48)):
            yield f"size-{width}x{height}-{kind}", encode(height, width, subsampling=sampling)
        yield f"prog-{kind}", encode(45, 31, subsampling=sampling, progressive=True)
        yield f"restart-{kind}", encode(45, 31, subsampling=sampling, restart_marker_blocks=3)
        yield f"optimised-{kind}", encode(45, 31, subsampling=sampling, optimize=True)
    for quality in (1, 5, 100):
        yield f"quality-{quality}", encode(64, 48, quality=quality)
    for mode in ("L", "CMYK"):
        for progressive in (False, True):
            yield f"{mode}-{progressive}", encode(40, 50, mode=mode, progressive=progressive)
    yield "rgb", encode(40, 50, keep_rgb=True)
    for factors in ([(1, 2), (1, 1), (1, 1)], [(4, 1), (1, 1), (1, 1)], [(2, 2), (1, 2), (2, 1)]):
        name = "-".join(f"{h}x{v}" for h, v in factors)
        yield f"scans-{name}", make_multiscan(19, 37, factors)
        yield f"scans-{name}-restart", make_multiscan(35, 37, factors, restart=2)
    for orientation in (1, 3, 6, 8):
        exif = Image.Exif()
        exif[0x0112] = orientation
        yield f"exif-{orientation}", encode(40, 50, exif=exif)
    for name, extra in {"com": (0xFE, b"x" * 300), "app": (0xE5, bytes(65_000))}.items():
        yield f"extra-{name}", BASE[:2] + join_segment(*extra) + BASE[2:]
    for name, tail in {"zeros": bytes(100), "text": b"<html>", "ff": b"\xff" * 9}.items():
        yield f"trail-{name}", BASE + tail


def make_damaged_jpegs() -> Iterator[tuple[str, bytes]]:
    """Yield (name, damaged JPEG): cut, flipped, patched, and files of other kinds."""
    scan = BASE.index(b"\xff\xda")
    for percent in (1, 5, 10, 20, 30, 50, 75, 90, 99):
        yield f"cut-{percent}", BASE[: len(BASE) * percent // 100]
    for number in range(24):
        kinds = {"progressive": True} if number % 3 == 1 else {}
        data = bytearray(encode(48, 64, seed=number, restart_marker_blocks=number % 2 * 4, **kinds))
        draw = random.Random(number)
        for _ in range(1 + number % 4 * 5):
            data[draw.randrange(2, len(data))] ^= 1 << draw.randrange(8)
        yield f"flip-{number}", bytes(data)
    frame = BASE.index(b"\xff\xc0")
    for name, at, new in (
        ("zero-height", frame + 5, b"\0\0"),
        ("huge", frame + 5, b"\xff\xff\xff\xff"),
        ("precision-0", frame + 4, b"\0"),
        ("components-0", frame + 9, b"\0"),
        ("components-255", frame + 9, b"\xff"),
        ("sampling-0", frame + 11, b"\0"),
        ("sampling-15", frame + 11, b"\xff"),
        ("table-9", frame + 12, b"\x09"),
        ("lossless", frame + 1, b"\xc3"),
        ("arithmetic", frame + 1, b"\xc9"),
        ("scan-component", scan + 5, b"\x63"),
        ("scan-table", scan + 6, b"\xff"),
        ("marker-inside", scan + 200, b"\xff\xe5"),
        ("end-inside", scan + 200, b"\xff\xd9"),
        ("restart-inside", scan + 200, b"\xff\xd3"),
        ("segment-length-0", frame + 2, b"\0\0"),
    ):
        yield name, BASE[:at] + new + BASE[at + len(new) :]
    for format in ("BMP", "GIF", "PNG", "PPM", "TIFF", "WEBP"):
        yield f"really-{format.lower()}", encode(20, 30, format=format)
    yield from (("empty", b""), ("byte", b"\xff"), ("soi", b"\xff\xd8"), ("zeros", bytes(999)))
    yield "random", random.Random(1).randbytes(2000)


def make_pngs() -> Iterator[tuple[str, bytes]]:
    """Yield (name, PNG), whole and broken."""
    whole = encode(20, 30, format="PNG")
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        yield mode, encode(20, 30, format="PNG", mode=mode)
    yield "grey-16", encode_deep(np.arange(600).reshape(20, 30) * 100)
    yield "named", BASE
    for percent in (10, 50, 90, 99):
        yield f"cut-{percent}", whole[: len(whole) * percent // 100]
    yield "bad-header-crc", whole[:29] + bytes([whole[29] ^ 1]) + whole[30:]
    yield "bad-crc", whole[:-14] + bytes([whole[-14] ^ 1]) + whole[-13:]
    yield "zero-width", whole[:16] + bytes(4) + whole[20:]


def spoil_images(tar: bytes) -> bytes:
    """Return the tar `bad-images.tar` with generated images in it, bad in the same ways."""
    out = bytearray(tar)
    with tarfile.open(fileobj=io.BytesIO(tar)) as members:
        for member in members:
            if member.name.endswith(".jpg") and "html" not in member.name:
                at = member.offset_data
                out[at : at + member.size] = spoil_image(member.name, member.size)
    return bytes(out)


def spoil_image(name: str, size: int) -> bytes:
    """Return an image of `size` bytes that is bad in the way that `name` says."""
    if not size:
        return b""
    if "png" in name:
        return encode(20, 30, format="PNG").ljust(size, b"\0")[:size]
    mode = "CMYK" if "cmyk" in name else "L" if "gray" in name else "RGB"
    data = bytearray(encode(24, 24, mode=mode, quality=5))
    frame, tables = data.index(b"\xff\xc0"), data.index(b"\xff\xc4")
    if "bomb" in name:
        data[frame + 5 : frame + 9] = b"\xff" * 4
    elif "huff" in name:
        data[tables + 5 : tables + 21] = b"\xff" * 16
    elif "arith" in name:
        data[frame + 1] = 0xC9
    elif "12bit" in name:
        data[frame + 4] = 12
    elif "trunc" in name:
        return bytes(encode(90, 120, quality=95)[:size])
    return bytes(data[:20] + join_segment(0xFE, bytes(size - len(data) - 4)) + data[20:])[:size]


def judge(data: bytes) -> dict[str, Any]:
    """Return what Pillow says of an image: its dimensions and the hash of its pixels, or that it is an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as image:
                pixels = np.asarray(image.convert("RGB"))
    except Exception:  # noqa: BLE001  intentional: whatever Pillow raises
        return {"status": "error"}
    height, width = pixels.shape[:2]
    digest = hashlib.sha256(pixels.tobytes()).hexdigest()
    return {"status": "ok", "height": height, "width": width, "rgb_sha256": digest}


def describe_frame(data: bytes) -> dict[str, Any]:
    """Return the kind of the frame and its components, as the fixtures state it."""
    for marker in range(0xC0, 0xC3):
        at = data.find(bytes([0xFF, marker]))
        if at >= 0:
            components = [{}] * data[at + 9]
            return {"sof": {"marker": f"SOF{marker - 0xC0}", "components": components}}
    return {}


def write_hostile_images(folder: Path) -> None:
    """Write jpeg/ and png/ into the folder of hostile files, and their entries into its expected.json."""
    content = json.loads((folder / "expected.json").read_text())
    legal = dict(make_legal_jpegs())
    content["jpeg"] = []
    for name, data in {**legal, **dict(make_damaged_jpegs())}.items():
        verdict = judge(data)
        expect = {"ok": "reject-or-decode", "error": "reject"}[verdict["status"]]
        entry = {"expect": expect, **verdict}
        if name in legal:
            entry |= {"expect": "decode", "markers": describe_frame(data)}
        content["jpeg"].append(write_image(folder, f"jpeg/{name}.jpg", data) | entry)
    content["png"]["results"] = [
        write_image(folder, f"png/{name}.png", data) | judge(data) for name, data in make_pngs()
    ]
    (folder / "expected.json").write_text(json.dumps(content))


def write_image(folder: Path, name: str, data: bytes) -> dict[str, Any]:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return {"file": name, "nbytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
