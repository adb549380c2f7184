"""LMDB databases as the original systems wrote them, and damaged and hostile ones."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from formats.fixtures import FIXTURES, expected, good_samples, hostile, matches_array, sha256
from formats.making import photos
from headrace.errors import SourceChangedError, SourceError
from headrace.formats.codecs.datapoint import make_sample
from headrace.formats.detect import detect
from headrace.formats.layouts.lmdb import open_lmdb
from headrace.formats.layouts.unified_doc import open_unified_doc
from headrace.formats.source import find_bytes

IMAGES = [
    "efficient-pytorch/val.lmdb",
    "efficient-pytorch-msgpack/data.lmdb",
    "efficient-pytorch-pa0.11/val.lmdb",
    "efficient-pytorch-pa1.0/val.lmdb",
    "efficient-pytorch-pickle/val.lmdb",
    "sequential-imagenet/ILSVRC-train.lmdb",
    "sequential-imagenet/ILSVRC-val.lmdb",
    "tensorpack-msgpack/data.lmdb",
    "tensorpack-msgpack-2019/data.lmdb",
    "tensorpack-pickle/data.lmdb",
    "tensorpack-pickle-p5np1/data.lmdb",
    "tensorpack-pyarrow/data.lmdb",
    "tensorpack-pyarrow-2018/data.lmdb",
    "tensorpack-raw-dir/data.lmdb",
]
ARRAYS = [
    f"{folder}/{name}.lmdb"
    for folder in ("tensorpack-arrays", "tensorpack-arrays-msgpack")
    for name in ("list", "dict", "odd")
]


def expected_samples(name: str) -> list[Any]:
    folder, _, file = name.partition("/")
    content = expected(folder)
    return (content["files"][file] if "files" in content else content)["samples"]


@pytest.mark.parametrize("name", IMAGES)
def test_every_image_of_the_originals_is_read_with_its_key_label_and_bytes(
    shared: Path, name: str
) -> None:
    source, wanted = open_lmdb(FIXTURES / name), expected_samples(name)
    assert list(source.names) == [entry["key"] for entry in wanted]
    assert list(source.ignored) == []
    for i, entry in enumerate(wanted):
        sample = source.read(i)
        assert list(sample) == ["jpg"]
        found = (sample.label, len(sample["jpg"]), sha256(sample["jpg"]))
        assert found == (entry["label"], entry["nbytes"], entry["sha256"])


def matches(sample: Any, name: str, wanted: dict[str, Any]) -> bool:
    if wanted["kind"] == "ndarray":
        return matches_array(sample[f"{name}.npy" if name else "npy"], wanted)
    if wanted["kind"] == "bytes":
        return sha256(sample["jpg"]) == wanted["sha256"]
    return json.loads(sample["json"])[name or "0"] == wanted["value"]


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_and_dicts_of_the_originals_are_read_with_every_component(
    shared: Path, name: str
) -> None:
    source, wanted = open_lmdb(FIXTURES / name), expected_samples(name)
    assert list(source.names) == [entry["key"] for entry in wanted]
    for i, entry in enumerate(wanted):
        sample, components = source.read(i), entry["components"]
        if isinstance(components, dict):
            assert sample.label == components.pop("label")["value"]
            assert all(matches(sample, part, value) for part, value in components.items())
        else:
            assert sample.label == components[1]["value"]
            assert matches(sample, "", components[0])


@pytest.mark.parametrize("name", ["unified-doc/warp24.lmdb", "unified-doc-merged/merged.lmdb"])
def test_the_records_of_a_document_become_the_fields_of_one_sample(shared: Path, name: str) -> None:
    assert detect(FIXTURES / name).name == "unified-doc"
    source, records = open_unified_doc(FIXTURES / name), expected(name.partition("/")[0])["records"]
    documents: dict[str, dict[str, Any]] = {}
    for record in records:
        document, _, part = record["key"].rpartition("_")
        documents.setdefault(document, {})[part] = record
    assert list(source.names) == list(documents)
    for i, parts in enumerate(documents.values()):
        sample = source.read(i)
        assert len(sample) == sum(1 + ("label" in record) for record in parts.values())
        for part, record in parts.items():
            assert matches_array(sample[f"{part}.npy"], record["image"])
            if "label" in record:
                assert matches_array(sample[f"{part}.label.npy"], record["label"])


def read_all(path: Path) -> tuple[dict[str, Any], list[str]]:
    """(sample, or its SourceError, by key; notes); nothing but SourceError may be raised."""
    source = open_lmdb(path)
    found: dict[str, Any] = {}
    for i, name in enumerate(source.names):
        try:
            found[name] = source.read(i)
        except SourceError as error:
            found[name] = error
    return found, list(source.ignored)


HOSTILE = hostile("lmdb")
VALUES = [entry for entry in HOSTILE if entry["group"] in ("pickle", "value", "msgpack", "pyarrow")]
OTHERS = [entry for entry in HOSTILE if entry["group"] in ("keys", "structure")]


@pytest.mark.parametrize("entry", VALUES, ids=lambda entry: entry["file"][5:-5])
def test_a_hostile_value_is_an_error_and_the_others_stay_readable(
    entry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, notes = read_all(FIXTURES / "hostile" / entry["file"])
    bad = set(entry["bad_keys"])
    if "fuzz" not in entry["file"]:
        good = good_samples("pyarrow" if entry["group"] == "pyarrow" else "pickle")
        assert len(found) == 6
        for (key, sample), wanted in zip(found.items(), good, strict=True):
            if key not in bad:
                assert (sample.label, sha256(sample["jpg"])) == (wanted["label"], wanted["sha256"])
    if "sample 3 is an error" in entry["must"]:
        assert all(isinstance(found[key], SourceError) and str(found[key]) for key in bad)
    if bad & {"__keys__", "__len__"}:
        assert any(note.startswith("__") for note in notes)
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("entry", OTHERS, ids=lambda entry: entry["file"][5:-5])
def test_a_damaged_database_is_an_error_or_gives_complete_samples(
    entry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = FIXTURES / "hostile" / entry["file"]
    try:
        found, _ = read_all(path)
    except SourceError as error:
        assert path.name in str(error)
        assert "error" in entry["must"] or "0 samples" in entry["must"]
        return
    assert not entry["must"].startswith("error;")
    samples = [sample for sample in found.values() if not isinstance(sample, SourceError)]
    assert all(len(sample["jpg"]) > 500 for sample in samples)
    if entry["must"] in ("6 samples", "14 samples", "6 samples by cursor; the original fails"):
        assert len(samples) == len(found) == int(entry["must"].split()[0])
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize(
    ("file", "note"),
    [
        ("keys-extra", "__keys__: names 1 keys that are not there"),
        ("keys-short", "__keys__: leaves out 3 samples that are there"),
        ("keys-dup", "__keys__: has 2 entries twice or that are not keys"),
        ("len-huge", "__len__: says 1000000000000, there are 6 samples"),
    ],
)
def test_a_wrong_table_of_contents_is_reported_and_not_followed(
    shared: Path, file: str, note: str
) -> None:
    source = open_lmdb(FIXTURES / f"hostile/lmdb/{file}.lmdb")
    assert len(source.names) == 6
    assert list(source.ignored) == [note]


SWEEP = """
import resource, sys
from pathlib import Path
from headrace.errors import SourceError
from headrace.formats.layouts.lmdb import open_lmdb
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
for path in sorted(Path(sys.argv[1]).glob("*.lmdb")):
    try:
        source = open_lmdb(path)
    except SourceError:
        continue
    for i in range(len(source.names)):
        for read in (source.read, source.locate):
            try:
                read(i)
            except SourceError:
                pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)
"""


def test_all_hostile_databases_are_read_in_small_memory_without_a_crash(
    shared: Path, tmp_path: Path
) -> None:
    folder = FIXTURES / "hostile/lmdb"
    command = [sys.executable, "-c", SWEEP, str(folder)]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert int(result.stdout) < 100 * 1024, "KiB beyond what importing takes"
    assert list(tmp_path.iterdir()) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_database_with_any_bytes_changed_is_an_error_or_readable(
    shared: Path, tmp_path: Path, data: st.DataObject
) -> None:
    whole = bytearray((FIXTURES / "hostile/lmdb/struct-good.lmdb").read_bytes())
    places = st.integers(0, 400) | st.integers(0, len(whole) - 1)
    pages = st.builds(lambda page, at: page * 4096 + at, st.integers(2, 12), st.integers(0, 80))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(places | pages)] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.lmdb"
    path.write_bytes(whole)
    try:
        found, _ = read_all(path)
    except SourceError as error:
        assert "damaged.lmdb" in str(error)
    else:
        assert found


def test_a_database_of_many_pages_is_read_as_liblmdb_reads_it(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    path = tmp_path / "many.lmdb"
    values = {b"%06d" % (i * 7 % 5000): os.urandom(i % 9000) for i in range(3000)}
    with lmdb.open(str(path), subdir=False, map_size=1 << 28, lock=False) as environment:
        for start in range(0, 3000, 500):
            with environment.begin(write=True) as transaction:
                for key, value in list(values.items())[start : start + 500]:
                    transaction.put(key, value)
        with environment.begin(write=True) as transaction:
            for key in list(values)[::3]:
                transaction.delete(key)
                del values[key]
    source = open_lmdb(path)
    assert len(source.names) == len(values)
    for entry in map(source.database.entry, range(len(values))):
        assert source.database.read(entry) == values[entry.key]


def test_a_tree_with_more_or_fewer_entries_than_the_meta_page_says_is_an_error(
    shared: Path, tmp_path: Path
) -> None:
    data = bytearray((FIXTURES / "tensorpack-pickle/data.lmdb").read_bytes())
    path = tmp_path / "data.lmdb"
    for meta in (0, 4096):
        data[meta + 120] += 1  # the entries of the main database
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"entries in the tree, \d+ in the meta page"):
        open_lmdb(path)


def test_a_database_that_changes_after_it_was_opened_is_an_error(
    shared: Path, tmp_path: Path
) -> None:
    path = tmp_path / "data.lmdb"
    path.write_bytes((FIXTURES / "tensorpack-pickle/data.lmdb").read_bytes())
    source = open_lmdb(path)
    os.utime(path, ns=(0, 0))
    with pytest.raises(SourceChangedError, match="changed after it was opened"):
        source.read(0)


def test_bytes_are_found_inside_a_value_in_linear_time() -> None:
    assert find_bytes(b"abcdef", b"cd") == 2
    assert find_bytes(b"abcdef", b"x") is None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    assert find_bytes(bytes(4_000_000), bytes(1_000_000) + b"x") is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5


def test_a_component_called_json_is_kept_beside_the_numbers_and_texts() -> None:
    sample = make_sample("k", {"json": b"{}", "image": photos(1)[0], "n": 3})
    assert (sample["json"], json.loads(sample["plain.json"])) == (b"{}", {"n": 3})


@pytest.mark.parametrize("label", ["cat", 0.5, True])
def test_the_label_of_a_dict_is_an_integer_or_an_error(label: object) -> None:
    with pytest.raises(SourceError, match="not an integer"):
        make_sample("k", {"image": photos(1)[0], "label": label})


@pytest.mark.parametrize("label", [None, [1, 2], np.zeros(3)])
def test_a_dict_may_have_no_label_or_several(label: object) -> None:
    assert make_sample("k", {"image": photos(1)[0], "label": label}).label is None
