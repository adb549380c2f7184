"""The strict scanner, on archives made by tarfile and on the hostile ones."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SourceError
from headrace.store.tar import Member, scan_tar


def scan(path: Path) -> list[Member]:
    fd = os.open(path, os.O_RDONLY)
    try:
        return list(scan_tar(fd))
    finally:
        os.close(fd)


def make_tar(path: Path, files: dict[str, bytes], format: int) -> Path:
    with tarfile.open(path, "w", format=format) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_dialect_of_tar_is_read(tmp_path: Path, format: int) -> None:
    long = "d" * 60 + "/" + "f" * 90 + ".jpg"
    files = {"a.jpg": b"x" * 700, long: b"", "b.cls": b"7"}
    path = make_tar(tmp_path / "x.tar", files, format)
    content = path.read_bytes()
    found = {m.name: content[m.offset : m.offset + m.size] for m in scan(path)}
    assert found == files


@given(
    st.dictionaries(st.text(min_size=1, alphabet="aé/ .\n%"), st.binary(max_size=600), max_size=4)
)
def test_names_and_bytes_survive_writing_and_reading(
    tmp_path_factory, files: dict[str, bytes]
) -> None:
    files = {name.strip("/") or "x": data for name, data in files.items()}
    path = make_tar(tmp_path_factory.mktemp("tar") / "x.tar", files, tarfile.PAX_FORMAT)
    content = path.read_bytes()
    found = {m.name: content[m.offset : m.offset + m.size] for m in scan(path)}
    assert found == files


ERRORS = {
    "zero-block-inside.tar": "single zero block",
    "truncated-data.tar": "the archive ends after",
    "truncated-header.tar": "ends inside a header",
    "empty.tar": "the file is empty",
    "not-a-tar.tar": "offset 0",
    "random.tar": "offset 0",
    "bad-checksum.tar": "wrong checksum",
    "size-too-big.tar": "claims",
    "size-too-small.tar": "offset",
    "size-8GiB-octal.tar": "claims",
    "size-base256-huge.tar": "claims",
    "size-base256-negative.tar": "negative",
    "size-garbage.tar": "size of a member",
    "pax-size-huge.tar": "claims",
    "pax-size-negative.tar": "gives the size",
    "pax-record-length-lies.tar": "wrong length",
    "pax-record-zero-length.tar": "wrong length",
    "pax-header-1GB.tar": "extension header claims",
    "pax-nul-path.tar": "NUL",
    "gnu-longname-1GB.tar": "extension header claims",
    "gnu-sparse.tar": "wrong checksum",
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_a_broken_archive_is_an_error_and_not_a_short_one(shared: Path, name: str) -> None:
    with pytest.raises(SourceError, match=ERRORS[name]):
        scan(shared / "fixtures" / "hostile" / "tar" / name)


@pytest.mark.parametrize("zeros", [0, 1 << 20])
def test_an_appended_tar_is_read_and_garbage_after_the_end_is_reported(
    tmp_path: Path, zeros: int
) -> None:
    path = make_tar(tmp_path / "x.tar", {"a.jpg": b"x"}, tarfile.PAX_FORMAT)
    more = make_tar(tmp_path / "y.tar", {"b.jpg": b"yy"}, tarfile.PAX_FORMAT).read_bytes()
    path.write_bytes(path.read_bytes() + bytes(zeros) + more + bytes(zeros) + b"garbage")
    passed: list[str] = []
    with open(path, "rb") as file:
        assert [m.name for m in scan_tar(file.fileno(), passed)] == ["a.jpg", "b.jpg"]
    assert passed == ["7 bytes behind the end"]


def test_a_sparse_member_of_pax_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("GNUSparseFile.0/a.jpg")
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
        archive.addfile(info)
    with pytest.raises(SourceError, match="sparse members are not supported"):
        scan(tmp_path / "x.tar")


def make_member(name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header and its data, as ustar has them."""
    info = tarfile.TarInfo(name)
    info.size, info.type = len(data), kind
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)


def test_the_size_in_a_pax_header_is_of_one_member(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(
        make_member("pax", b"10 size=3\n", tarfile.XHDTYPE)
        + make_member("a.jpg", b"abc")
        + make_member("b.jpg", b"defgh")
        + bytes(1024)
    )
    assert [(m.name, m.size) for m in scan(path)] == [("a.jpg", 3), ("b.jpg", 5)]


def test_a_folder_marked_as_in_the_oldest_archives_is_not_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(
        make_member("d.x/", b"", tarfile.AREGTYPE)
        + make_member("d.x/a.jpg", b"abc", tarfile.AREGTYPE)
        + bytes(1024)
    )
    assert [m.name for m in scan(path)] == ["d.x/a.jpg"]


def shown(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def test_every_other_hostile_archive_reads_as_tarfile_reads_it(shared: Path) -> None:
    folder = shared / "fixtures" / "hostile"
    for entry in json.loads((folder / "expected.json").read_text())["tar"]["results"]:
        name = Path(entry["file"]).name
        if name in ERRORS or name.endswith(".gz") or entry["python_tarfile"]["status"] != "ok":
            continue
        theirs = [
            (m["name"], m["size"])
            for m in entry["python_tarfile"].get("members", [])
            if m["type"] in ("0", "7", "\0", "")
        ]
        ours = [(shown(m.name), m.size) for m in scan(folder / entry["file"])]
        if theirs:
            assert ours[: len(theirs)] == theirs, name
