"""Builds tests/data from the fixtures that the original systems wrote.

The fixtures hold photos that nobody may license. So every photo is replaced, in place and at the same length,
by a generated one; the bytes around it stay as the original system wrote them. The hashes in `expected.json`
follow. The hostile images are generated again.

Usage: .venv/bin/python tests/data/build.py ../shared
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import re
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import headrace
from data.hostile_images import spoil_images, write_hostile_images

LEFT_OUT = {"odd-videos"}
PHOTOS = 24


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Replacements:
    """What was replaced by what: the images of all files so far, and the hashes of all that changed."""

    images: list[tuple[bytes, bytes]] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)

    def note(self, old: bytes, new: bytes) -> None:
        assert len(old) == len(new)
        self.hashes[sha256(old)] = sha256(new)


def find_jpeg_end(data: bytes, start: int) -> int | None:
    """Return where the JPEG that begins at `start` ends, or None where it is cut or damaged."""
    at = start + 2
    while at + 2 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xD9:
            return at + 2
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xDA:
            at = skip_scan(data, at)
    return None


def skip_scan(data: bytes, at: int) -> int:
    """Return the position of the first marker after entropy-coded data."""
    while (at := data.find(b"\xff", at)) >= 0 and at + 1 < len(data):
        if data[at + 1] != 0 and not 0xD0 <= data[at + 1] <= 0xD7:
            return at
        at += 2
    return len(data)


def find_images(data: bytes) -> Iterator[tuple[int, int | None]]:
    """Yield (start, end) of every JPEG and PNG inside a file; the end of a cut one is None."""
    at = 0
    while match := re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n").search(data, at):
        start, end = match.start(), find_jpeg_end(data, match.start())
        if data[start] == 0x89:
            end = data.index(b"IEND", start) + 8
        yield start, end
        at = end or start + 2


def generate_pixels(height: int, width: int, seed: int) -> np.ndarray:
    """Return one of eight images of smooth waves, uint8[height, width, 3]."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [
        128 + 100 * np.sin(x / (5 + seed % 8) + y / (9 + channel) + channel) for channel in range(3)
    ]
    return np.stack(waves, -1).astype(np.uint8)


def replace_image(old: bytes) -> bytes:
    """Return a generated image of the same format, mode, dimensions and length.

    A comment with a number of its own pads it, so that no two are equal."""
    with Image.open(io.BytesIO(old)) as image:
        mode, (width, height), format = image.mode, image.size, image.format
        options = {"progressive": "progression" in image.info, "palette": image.getpalette()}
    number = hashlib.sha256(old).digest()[:8]
    pixels = generate_pixels(height, width, number[0])
    if format == "PNG":
        return fit_png(pixels, mode, options["palette"], number, len(old))
    for quality in range(40, 0, -1):
        out = io.BytesIO()
        picture = Image.fromarray(pixels).convert(mode)
        picture.save(out, "JPEG", quality=quality, progressive=options["progressive"])
        spare = len(old) - out.tell()
        if spare == 0 or spare >= 4 + len(number):
            return insert_comment(out.getvalue(), number, spare)
    raise ValueError(f"no generated JPEG of {width}x{height} fits into {len(old)} bytes")


def insert_comment(jpeg: bytes, number: bytes, spare: int) -> bytes:
    """Return `jpeg` made longer by `spare` bytes of comments after its first segment."""
    comments = b""
    while spare:
        size = spare if spare <= 60_000 else 50_000
        payload = number.ljust(size - 4, b"\0")
        comments += b"\xff\xfe" + (size - 2).to_bytes(2, "big") + payload
        spare -= size
    return jpeg[:20] + comments + jpeg[20:]


def fit_png(
    pixels: np.ndarray, mode: str, palette: list[int] | None, number: bytes, size: int
) -> bytes:
    """Return the PNG of an image, or of a mask with few values, padded by a chunk that readers skip."""
    image = Image.fromarray(pixels // 8 * 8)
    if mode != "RGB":
        image = Image.fromarray(pixels[..., 0] // 64)
    if mode == "P":
        image.putpalette(palette or [])
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    png = out.getvalue()
    body = b"paDd" + number.ljust(size - len(png) - 12, b"\0")
    chunk = (len(body) - 4).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    return png[:33] + chunk + png[33:]


def read_arrays(path: Path) -> Iterator[np.ndarray]:
    """Yield the decoded images of a database, and their masks."""
    source = headrace.open_source(path)
    for i in range(len(source.names)):
        for name, data in source.read(i).fields.items():
            if name.endswith("npy"):
                array = np.load(io.BytesIO(data), allow_pickle=False)
                if (
                    array.dtype in ("u1", "?")
                    and array.shape[2:] in ((), (3,))
                    and array.size > 600
                ):
                    yield array


def replace_array(array: np.ndarray) -> bytes:
    """Return the bytes of a generated image, or mask, of the same shape and dtype."""
    pixels = generate_pixels(*array.shape[:2], hashlib.sha256(array.tobytes()).digest()[0])
    if array.ndim == 2:
        pixels = pixels[..., 0]
    return (pixels > 128 if array.dtype == bool else pixels).astype(array.dtype).tobytes()


def replace_images(data: bytes, known: Replacements) -> bytes:
    """Return a file with other images in it. What is left of a cut one is cut from its replacement."""
    out = bytearray(data)
    for start, end in find_images(data):
        if end is not None:
            old = data[start:end]
            new = replace_image(old)
            known.images.append((old, new))
            known.note(old, new)
        else:
            new = max((new[: count_equal(old, data[start:])] for old, new in known.images), key=len)
        out[start : start + len(new)] = new
    return bytes(out)


def count_equal(one: bytes, other: bytes) -> int:
    """Return the length of the common beginning, less some bytes that may be equal by chance."""
    return max(0, len(os.path.commonprefix([one, other])) - 16)


def replace_arrays(data: bytes, database: Path, known: Replacements) -> bytes:
    """Return a database with other decoded images in it."""
    for array in read_arrays(database):
        old, new = array.tobytes(), replace_array(array)
        if old in data:
            data = data.replace(old, new)
            known.note(old, new)
    return data


def rewrite(path: Path, known: Replacements) -> bytes:
    """Return the content of a fixture without anybody's photos."""
    original = path.read_bytes()
    if path.name == "bad-images.tar":
        data = spoil_images(original)
    else:
        data = replace_images(original, known)
    if path.name == "truncated-gzip.tar.gz":
        good = replace_images((path.parent / "good.tar").read_bytes(), known)
        return gzip.compress(good, mtime=0)[: len(original) // 2]
    if "hostile" not in path.parts and path.suffix in (".lmdb", ".mdb"):
        data = replace_arrays(data, path.parent if path.suffix == ".mdb" else path, known)
    known.note(original, data)
    return data


def list_fixtures(shared: Path) -> list[Path]:
    root = shared / "fixtures"
    return [
        path.relative_to(root)
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and path.relative_to(root).parts[0] not in LEFT_OUT
        and path.relative_to(root).parts[:2] not in {("hostile", "jpeg"), ("hostile", "png")}
    ]


def build_fixtures(shared: Path, target: Path) -> None:
    """Write all fixtures with generated images into `target`."""
    known, texts = Replacements(), {}
    for name in list_fixtures(shared):
        path, out = shared / "fixtures" / name, target / name
        out.parent.mkdir(parents=True, exist_ok=True)
        if name.name in ("expected.json", "README.txt"):
            texts[out] = path.read_text()
        else:
            out.write_bytes(rewrite(path, known))
    for out, text in texts.items():
        for old, new in known.hashes.items():
            text = text.replace(old, new)
        out.write_text(text)


def build_archive(source: Path, archive: Path) -> None:
    """Pack a folder into a reproducible .tar.xz, equal kinds of files next to each other."""
    files = sorted((p for p in source.rglob("*") if p.is_file()), key=lambda p: (p.suffix, str(p)))
    with (
        lzma.open(archive, "wb", preset=9) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for path in files:
            member = tarfile.TarInfo(path.relative_to(source).as_posix())
            member.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(member, file)


def extract_photos(shared: Path) -> None:
    """Write some of the photos of BCCD, and their license."""
    folder = HERE / "photos"
    folder.mkdir(exist_ok=True)
    with tarfile.open(shared / "data/bccd.tar") as tar:
        names = sorted(name for name in tar.getnames() if name.endswith(".jpg"))
        for name in [*names[:: len(names) // PHOTOS][:PHOTOS], "bccd/LICENSE"]:
            file = tar.extractfile(name)
            assert file is not None
            (folder / Path(name).name).write_bytes(file.read())


def main() -> None:
    shared = Path(sys.argv[1]).resolve()
    extract_photos(shared)
    with tempfile.TemporaryDirectory() as folder:
        build_fixtures(shared, Path(folder))
        write_hostile_images(Path(folder) / "hostile")
        build_archive(Path(folder), HERE / "fixtures.tar.xz")


if __name__ == "__main__":
    main()
