"""Images that a table has only the path of."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.making import photos
from headrace import open_dataset, pack_dataset
from headrace.errors import PackError, SourceError
from headrace.formats.detect import open_source
from headrace.formats.layouts import parquet
from headrace.formats.source import Source
from headrace.work.progress import Progress

LATER = 1 << 61  # nanoseconds, in the year 2043


def open_rows(path: Path, rows: list[object]) -> Source:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(rows, kind)})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return open_source(path)


@pytest.fixture(params=["a.parquet", "a.arrow"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "hf"
    folder.mkdir()
    return folder / request.param


def test_rows_with_only_a_path_are_files_beside_the_table(table: Path) -> None:
    one, two, three = photos(3)
    (table.parent / "images").mkdir()
    (table.parent / "images/1.jpg").write_bytes(one)
    (table.parent / "2.jpg").write_bytes(two)
    rows: list[object] = [{"bytes": None, "path": "images/1.jpg"}, {"bytes": None, "path": "2.jpg"}]
    source = open_rows(table, [*rows, {"bytes": three, "path": "3.jpg"}])
    assert [source.read(i)["jpg"] for i in range(3)] == [one, two, three]


def test_a_path_never_leads_out_of_the_folder_of_its_table(table: Path) -> None:
    outside = table.parent.parent / "secret.jpg"
    outside.write_bytes(photos(1)[0])
    (table.parent / "note.txt").write_bytes(photos(1)[0])
    (table.parent / "link.jpg").symlink_to(outside)
    (table.parent / "here.jpg").write_bytes(photos(1)[0])
    paths = ["here.jpg", "../secret.jpg", str(outside), "link.jpg", "note.txt", "gone.jpg"]
    source = open_rows(table, [{"bytes": None, "path": path} for path in paths])
    assert source.read(0)["jpg"] == photos(1)[0]
    reasons = (
        "not lie below",
        "is an absolute path",
        "leads out of",
        "suffix",
        "is not a file below",
    )
    for i, reason in enumerate(reasons, 1):
        with pytest.raises(SourceError, match=f"only the path .*{reason}"):
            source.read(i)


def test_an_absolute_path_is_refused_as_such_even_of_a_file_beside_the_table(table: Path) -> None:
    image = table.parent / "0.jpg"
    image.write_bytes(photos(1)[0])
    said = (
        f"which is an absolute path: paths are relative to the folder of the table, {table.parent}"
    )
    with pytest.raises(SourceError, match=said):
        open_rows(table, [{"bytes": None, "path": str(image)}])


def test_a_table_of_nothing_but_paths_to_elsewhere_is_one_error(table: Path) -> None:
    rows: list[object] = [{"bytes": None, "path": f"/home/ann/.cache/{i}.jpg"} for i in range(20)]
    with pytest.raises(
        SourceError, match=r"only paths, such as '/home/ann/.*/0\.jpg', which .*put"
    ):
        open_rows(table, rows)


def test_a_file_beside_a_table_is_bounded_too(table: Path) -> None:
    (table.parent / "1.jpg").write_bytes(photos(1)[0] + bytes(10_000))
    open_rows(table, [{"bytes": None, "path": "1.jpg"}])
    with pytest.raises(SourceError, match="more than 10000"):
        open_source(table, max_file_size=10_000).read(0)


def write_files(table: Path, count: int, *, padding: int = 0) -> list[object]:
    """Write images beside a table, and return its rows."""
    for i, data in enumerate(photos(count)):
        (table.parent / f"{i}.jpg").write_bytes(data + bytes(padding))
    return [{"bytes": None, "path": f"{i}.jpg"} for i in range(count)]


def test_rows_with_only_a_path_have_size_and_time_of_their_file(table: Path) -> None:
    rows = write_files(table, 3)
    os.utime(table.parent / "0.jpg", ns=(LATER, LATER))
    os.utime(table.parent / "1.jpg", ns=(1, 1))
    embedded: object = {"bytes": photos(1)[0], "path": "2.jpg"}  # and a file of that name
    gone: object = {"bytes": None, "path": "gone.jpg"}
    source = open_rows(table, [*rows[:2], embedded, gone, None])
    sizes = [(table.parent / f"{i}.jpg").stat().st_size for i in range(2)]
    own = table.stat().st_mtime_ns
    assert source.sizes[[0, 1, 3]].tolist() == [*sizes, 0]
    assert source.mtimes.tolist() == [LATER, own, own, own, own]
    assert source.sizes.dtype == source.mtimes.dtype == "int64"
    assert source.read(0).key == "a/000000"


def test_several_columns_of_paths_add_up(tmp_path: Path) -> None:
    left = write_files(tmp_path / "a.parquet", 2)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {"left": pa.array(left, kind), "right": pa.array(left[::-1], kind)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    total = sum((tmp_path / f"{i}.jpg").stat().st_size for i in range(2))
    assert open_source(tmp_path / "a.parquet").sizes.tolist() == [total, total]


def test_embedded_images_are_not_read_when_a_table_is_opened(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(parquet, "find_nulls", fail)
    rows = [{"bytes": data, "path": f"{i}.jpg"} for i, data in enumerate(photos(3))]
    source = open_rows(table, list(rows))
    assert source.sizes.min() > 0


def test_shards_of_files_beside_a_table_have_the_size_that_is_asked_for(
    table: Path, tmp_path: Path
) -> None:
    open_rows(table, write_files(table, 8, padding=5000))
    summary = pack_dataset(table, tmp_path / "out", shard_size=16_000)
    assert summary.shards == 4
    assert summary.source_bytes == sum(file.stat().st_size for file in table.parent.glob("*.jpg"))


@pytest.mark.parametrize("padding", [0, 100], ids=["the same size", "another size"])
def test_a_file_beside_a_table_that_changed_is_noticed_when_packing_again(
    table: Path, tmp_path: Path, padding: int
) -> None:
    open_rows(table, write_files(table, 3))
    pack_dataset(table, tmp_path / "out")
    pack_dataset(table, tmp_path / "out")  # nothing changed, and nothing is done
    data = bytearray((table.parent / "1.jpg").read_bytes() + bytes(padding))
    data[-padding - 3] ^= 1
    (table.parent / "1.jpg").write_bytes(data)
    with pytest.raises(PackError, match=r"1\.jpg changed" if not padding else "another source"):
        pack_dataset(table, tmp_path / "out")


def test_a_file_beside_a_table_that_changed_is_read_again_when_packing_is_resumed(
    table: Path, tmp_path: Path
) -> None:
    def interrupt(done: Progress) -> None:
        if done.samples == 4:
            raise KeyboardInterrupt

    open_rows(table, write_files(table, 4, padding=5000))
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        pack_dataset(table, out, shard_size=1, order="source", workers=1, progress=interrupt)
    changed = bytearray((table.parent / "1.jpg").read_bytes())
    changed[-1] = 1
    (table.parent / "1.jpg").write_bytes(changed)
    os.utime(table.parent / "1.jpg", ns=(LATER, LATER))  # clocks may be coarse
    assert pack_dataset(table, out, shard_size=1, order="source").resumed == 2
    assert [sample["jpg"] == changed for sample in open_dataset(out)] == [False, True, False, False]
