"""Parquet and Arrow files with images in a column."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats.making import make_table, photos, write_arrow, write_parquet, write_tar
from headrace import open_dataset, pack_dataset
from headrace.errors import HeadraceError, SourceChangedError, SourceError
from headrace.formats.detect import open_source
from headrace.formats.layouts.arrow import open_arrow
from headrace.formats.layouts.parquet import open_parquet
from headrace.formats.layouts.webdataset import open_webdataset
from headrace.sample import is_image_field


def test_rows_have_the_bytes_label_and_columns_of_the_table(tmp_path: Path) -> None:
    images = photos(7)
    for source in (
        open_parquet(write_parquet(tmp_path / "a.parquet", images)),
        open_arrow(write_arrow(tmp_path / "a.arrow", images)),
    ):
        assert source.classes == ["cat", "dog", "owl"]
        assert list(source.names) == [f"{i}.jpg" for i in range(7)]
        assert list(source.ignored) == ["column boxes"]
        for i, data in enumerate(images):
            sample = source.read(i)
            assert (sample["jpg"], sample.label, sample.key) == (data, i % 3, str(i))
            assert sample.columns == {"score": i / 2}


def test_a_column_of_bare_bytes_will_do(tmp_path: Path) -> None:
    images = photos(4)
    source = open_parquet(write_parquet(tmp_path / "x.parquet", images, struct_column=False))
    assert [source.read(i)["jpg"] for i in range(4)] == images
    assert source.names[2] == "x/000002"
    assert source.classes is None


def test_text_labels_are_numbered_in_sorted_order(tmp_path: Path) -> None:
    table = pa.table({"image": photos(3), "label": ["dog", "cat", None]})
    pq.write_table(table, tmp_path / "a.parquet")
    source = open_parquet(tmp_path / "a.parquet")
    assert source.classes == ["cat", "dog"]
    assert [source.read(i).label for i in range(3)] == [1, 0, None]


@pytest.mark.parametrize(
    ("labels", "classes"), [(["a", "", None], ["a"]), ([None, ""], []), ([None], [])]
)
def test_an_empty_text_is_no_label(
    tmp_path: Path, labels: list[str | None], classes: list[str]
) -> None:
    column = pa.array(labels, pa.string())
    table = pa.table({"image": photos(len(labels)), "label": column})
    pq.write_table(table, tmp_path / "a.parquet")
    source = open_parquet(tmp_path / "a.parquet")
    assert source.classes == classes
    assert [source.read(i).label for i in range(len(labels))] == [0 if n else None for n in labels]


def test_spaces_around_a_label_are_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": photos(2), "label": ["a", " a"]}), tmp_path / "a.parquet")
    with pytest.raises(
        SourceError, match=r"a.parquet: the label ' a' has leading or trailing spaces"
    ):
        open_parquet(tmp_path / "a.parquet")


def write_paths(path: Path, *paths: str) -> Path:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": b, "path": p} for b, p in zip(photos(len(paths)), paths, strict=True)]
    pq.write_table(pa.table({"image": pa.array(rows, kind)}), path)
    return path


def test_paths_are_names_only_where_they_differ_without_their_first_slash(tmp_path: Path) -> None:
    same = open_parquet(write_paths(tmp_path / "a.parquet", "/a.jpg", "a.jpg"))
    assert list(same.names) == ["a/000000", "a/000001"]
    other = open_parquet(write_paths(tmp_path / "b.parquet", "/a.jpg", "b.jpg"))
    assert list(other.names) == ["a.jpg", "b.jpg"]


def test_paths_without_a_suffix_can_be_packed_and_read_back(tmp_path: Path) -> None:
    write_paths(tmp_path / "a.parquet", "train/img1", "val/img1", "val/.jpg")
    pack_dataset(tmp_path / "a.parquet", tmp_path / "out", order="source")
    tar = open_webdataset(tmp_path / "out/shard-000000.tar")
    assert list(tar.names) == ["train/img1", "val/img1", "val/%2Ejpg"]


def test_a_class_label_whose_column_is_gone_is_no_label(tmp_path: Path) -> None:
    pq.write_table(make_table(photos(1)).drop_columns(["label"]), tmp_path / "a.parquet")
    source = open_parquet(tmp_path / "a.parquet")
    assert (source.classes, source.read(0).label) == (None, None)


def test_a_full_temporary_folder_stops_the_job_and_rejects_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_parquet(tmp_path / "a.parquet", photos(4))
    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(HeadraceError, match="No space left on device; set TMPDIR") as caught:
        pack_dataset(tmp_path / "a.parquet", tmp_path / "out", on_error="skip")
    assert not isinstance(caught.value, SourceError)
    tar = write_tar(tmp_path / "a.tar.gz", {"a.jpg": photos(1)[0]})
    with pytest.raises(HeadraceError, match="No space left on device; set TMPDIR"):
        open_webdataset(tar)


MORNING = datetime(2020, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        (pa.array(["a"], pa.large_string()), pa.string(), "a"),
        (pa.array(["a"], pa.string_view()), pa.string(), "a"),
        (pa.array(["a"]).dictionary_encode(), pa.string(), "a"),
        (pa.array([MORNING], pa.timestamp("us")), pa.timestamp("us"), MORNING),
        (pa.array([None], pa.timestamp("ns")), pa.string(), None),
        (
            pa.array([1577934245000000006], pa.timestamp("ns")),
            pa.string(),
            "2020-01-02 03:04:05.000000006",
        ),
    ],
    ids=["large", "view", "dictionary", "time", "null", "nanoseconds"],
)
def test_text_and_times_of_any_storage_are_columns(
    tmp_path: Path, column: pa.Array, kind: pa.DataType, value: object
) -> None:
    table = pa.table({"image": photos(1), "x": column})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    for source in (open_parquet(tmp_path / "a.parquet"), open_arrow(tmp_path / "a.arrow")):
        assert (source.columns, list(source.ignored)) == (pa.schema([("x", kind)]), [])
        assert source.read(0).columns == {"x": value}
    pack_dataset(tmp_path / "a.arrow", tmp_path / "out")
    assert open_dataset(tmp_path / "out")[0].columns == {"x": value}


def test_a_time_that_python_cannot_hold_spoils_its_row_only(tmp_path: Path) -> None:
    times = pa.array([1 << 60, 0], pa.timestamp("ms"))
    pq.write_table(pa.table({"image": photos(2), "x": times}), tmp_path / "a.parquet")
    source = open_parquet(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="a column cannot be read"):
        source.read(0)
    assert source.read(1).columns == {"x": datetime(1970, 1, 1)}


def test_several_image_columns_are_several_fields(tmp_path: Path) -> None:
    left, right = photos(2)
    pq.write_table(pa.table({"left": [left], "right": [right]}), tmp_path / "a.parquet")
    assert dict(open_parquet(tmp_path / "a.parquet").read(0)) == {
        "left.jpg": left,
        "right.jpg": right,
    }


def test_a_path_without_bytes_and_a_null_are_errors(tmp_path: Path) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": None, "path": "a.jpg"}, None, {"bytes": b"<html>", "path": "b"}]
    table = pa.table({"image": pa.array(rows, kind)})
    sink = str(tmp_path / "a.arrow")
    with pa.OSFile(sink, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    source = open_arrow(tmp_path / "a.arrow")
    for i, reason in enumerate(("only the path 'a.jpg'", "null", "not an image: it begins with")):
        with pytest.raises(SourceError, match=reason):
            source.read(i)


@pytest.fixture(params=["a.parquet", "a.arrow"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "hf"
    folder.mkdir()
    return folder / request.param


def test_damaged_files_are_errors_that_name_them(tmp_path: Path) -> None:
    parquet = write_parquet(tmp_path / "a.parquet", photos(4))
    arrow = write_arrow(tmp_path / "a.arrow", photos(4))
    for path, open_it in ((parquet, open_parquet), (arrow, open_arrow)):
        whole = path.read_bytes()
        for size in (0, 8, len(whole) // 2):
            path.write_bytes(whole[:size])
            with pytest.raises(SourceError, match=path.name):
                open_it(path)


@pytest.mark.parametrize("name", [b"bytes", b"path", b"image", b"label", b"score"])
def test_a_damaged_name_of_a_column_is_an_error_or_another_column(table: Path, name: bytes) -> None:
    write = write_parquet if table.suffix == ".parquet" else write_arrow
    data = write(table, photos(4)).read_bytes()
    for byte in (b"\xe9", b"z"):
        table.write_bytes(data.replace(name, byte + name[1:]))
        try:
            source = open_source(table)
            sample = source.read(0)
        except SourceError:
            continue
        assert any(is_image_field(field) for field in sample)


def test_a_damaged_row_group_is_an_error_of_its_rows(tmp_path: Path) -> None:
    images = photos(5)
    path = write_parquet(tmp_path / "a.parquet", images)
    data = bytearray(path.read_bytes())
    data[4:24] = bytes(20)  # the first page, of the first three images
    path.write_bytes(data)
    source = open_source(path)
    for i in range(3):
        with pytest.raises(SourceError, match="row group 0"):
            source.read(i)
    assert [source.read(i)["jpg"] for i in (3, 4)] == images[3:]


def test_text_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    bad = pa.array([b"\xff\xfe"]).view(pa.string())
    pq.write_table(pa.table({"image": photos(1), "label": bad}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet: .*UTF8"):
        open_source(tmp_path / "a.parquet")


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_compressed_arrow_file_unpacks_to_no_more_than_the_limit(
    tmp_path: Path, new: Callable[..., Any]
) -> None:
    path, image = tmp_path / "a.arrow", photos(1)[0]
    table = pa.table({"image": [image, image + bytes(1 << 20)]})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as sink, new(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    assert open_source(path).read(0)["jpg"] == image
    assert path.stat().st_size < 1 << 16
    with pytest.raises(SourceError, match=f"{path}: .* bytes are more than {1 << 20}; raise max"):
        open_source(path, max_file_size=1 << 20)


def test_an_arrow_offset_that_leads_outside_is_found_before_it_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    batch = pa.record_batch([pa.array([b"abcd", b"efgh"])], ["image"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = path.read_bytes()
    lying = data.replace(struct.pack("<3i", 0, 4, 8), struct.pack("<3i", 0, 4, 1 << 30))
    assert lying != data
    path.write_bytes(lying)
    with pytest.raises(SourceError, match="a.arrow"):
        open_arrow(path)


@pytest.mark.parametrize("state", [None, "{}", '{"_data_files": [{"filename": "data.arrow"}]}'])
def test_caches_beside_saved_files_are_not_read(tmp_path: Path, state: str | None) -> None:
    write_arrow(tmp_path / "data.arrow", photos(3))
    write_arrow(tmp_path / "cache-0123.arrow", photos(3))
    if state is not None:
        (tmp_path / "state.json").write_text(state)
    assert len(open_arrow(tmp_path).names) == 3


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("[", "not as `save_to_disk` writes it"),
        ('{"_data_files": [{"filename": "b.arrow"}]}', "'b.arrow', which is not beside it"),
        ('{"_data_files": [{"filename": "../a.arrow"}]}', "which is not beside it"),
        ('{"_indices_data_files": [{"filename": "i.arrow"}]}', "save it again after"),
    ],
)
def test_a_state_that_does_not_fit_is_an_error(tmp_path: Path, state: str, reason: str) -> None:
    (tmp_path / "x").mkdir()
    write_arrow(tmp_path / "a.arrow", photos(1))
    (tmp_path / "x/state.json").write_text(state)
    with pytest.raises(SourceError, match=f"state.json: .*{reason}"):
        open_arrow(tmp_path / "x")


def test_one_of_several_saved_splits_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(SourceError, match="no folder of a split"):
        open_source(tmp_path)
    for count, name in enumerate(("train", "test"), 1):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text("{}")
        write_arrow(tmp_path / name / "data-00000-of-00001.arrow", photos(count))
        source = open_source(tmp_path if name == "train" else tmp_path / "test")
        assert len(source.names) == count
    for format in (None, "arrow"):
        with pytest.raises(SourceError, match="several splits: give one of .*/test, .*/train"):
            open_source(tmp_path, format=format)


def test_a_table_without_images_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="no column of encoded images"):
        open_parquet(tmp_path / "a.parquet")


def test_an_arrow_file_that_becomes_shorter_is_an_error_not_a_crash(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "a.arrow", photos(4))
    source = open_arrow(path)
    path.write_bytes(b"")
    with pytest.raises(SourceChangedError, match="changed"):
        source.read(3)


def test_a_parquet_file_that_changes_is_an_error(tmp_path: Path) -> None:
    source = open_parquet(write_parquet(tmp_path / "a.parquet", photos(4)))
    os.utime(tmp_path / "a.parquet", ns=(0, 0))
    with pytest.raises(SourceChangedError, match="changed"):
        source.read(0)


def test_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", photos(2))
    pq.write_table(make_table(photos(2)).drop_columns(["score"]), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match="b.parquet: its columns are not those of the first"):
        open_parquet(tmp_path)


@pytest.mark.parametrize(
    ("column", "classes", "labels"),
    [
        (pa.array(["dog", "cat", None], pa.large_string()), ["cat", "dog"], [1, 0, None]),
        (pa.array(["dog", "cat", None]).dictionary_encode(), ["cat", "dog"], [1, 0, None]),
        (pa.array([2.0, None, float("nan")]), None, [2, None, None]),
        (pa.array([2, 7, None], pa.uint8()), None, [2, 7, None]),
    ],
)
def test_labels_of_other_types_are_labels(
    tmp_path: Path, column: pa.Array, classes: list[str] | None, labels: list[int | None]
) -> None:
    pq.write_table(pa.table({"image": photos(3), "label": column}), tmp_path / "a.parquet")
    source = open_parquet(tmp_path / "a.parquet")
    assert source.classes == classes
    assert [source.read(i).label for i in range(3)] == labels


@pytest.mark.parametrize(
    "column", [[0.5, 1.0], [True, False], pa.array([2**63, 1], pa.uint64())], ids=str
)
def test_a_label_that_cannot_be_one_is_an_error(tmp_path: Path, column: object) -> None:
    pq.write_table(pa.table({"image": photos(2), "label": column}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="the column 'label' is"):
        open_parquet(tmp_path / "a.parquet")


def test_several_labels_of_a_sample_are_ignored_and_reported(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": photos(1), "label": [[1, 2]]}), tmp_path / "a.parquet")
    source = open_parquet(tmp_path / "a.parquet")
    assert (source.read(0).label, list(source.ignored)) == (None, ["column label"])
