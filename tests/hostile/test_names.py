"""Names that lead elsewhere, from every source of names: nothing is written outside the target."""

from __future__ import annotations

import json
import os
import pickle
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from formats.making import make_example, write_gulp, write_tar, write_tfrecord
from headrace.errors import HeadraceError, PackError
from headrace.pack.pack_stream import pack_samples
from headrace.sample import Sample
from headrace.store.index_schema import encode_index
from images import encode

EVIL = [
    "../evil",
    "../../evil",
    "../../../../evil",
    "/../../evil",
    "a/../../../evil",
    "/tmp/evil-of-headrace",
    "%2E%2E%2F%2E%2E%2Fevil",
    "..",
    ".",
    "a\0b",
    "a\nb",
    "~/evil",
    "..\\..\\evil",
    "frames/../../../evil",
]
IMAGE = encode(8, 8)
TARGETS = ["folder", "webdataset", "gulp", "lmdb"]


def in_folder(root: Path) -> Path:
    """What a file system takes as names: no slash, but escapes of one."""
    for name in EVIL:
        flat = name.replace("/", "%2F").replace("\0", "%00")
        path = root / f"c{flat}" / f"{flat}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(IMAGE)
    return root


def in_tar(root: Path) -> Path:
    root.mkdir()
    members: dict[str, bytes] = {}
    for i, name in enumerate(name for name in EVIL if "\0" not in name):
        members |= {f"{name}{i}.jpg": IMAGE, f"{name}{i}.cls": b"0"}
        members |= {f"k{i}.x{name}.jpg": IMAGE, f"k{i}.y{name}": b""}
    return write_tar(root / "x.tar", members)


def in_lmdb(root: Path) -> Path:
    lmdb = pytest.importorskip("lmdb")
    environment = lmdb.open(str(root), map_size=1 << 20)
    with environment, environment.begin(write=True) as transaction:
        for name in EVIL:
            content = {name: IMAGE, "jpg": IMAGE, "label": 0}
            transaction.put(name.encode(), pickle.dumps(content, protocol=3))
    return root


def in_gulp(root: Path) -> Path:
    return write_gulp(root, {n: [IMAGE] for n in EVIL}, {n: f"{n}-class" for n in EVIL})


def in_tfrecord(root: Path) -> Path:
    root.mkdir()
    examples = [
        make_example({"image/filename": n.encode(), "image/encoded": IMAGE, f"{n}/x": IMAGE})
        for n in EVIL
    ]
    return write_tfrecord(root / "x.tfrecord", examples)


def in_listing_labels(root: Path) -> Path:
    root.mkdir()
    lines = []
    for i, name in enumerate(EVIL):
        (root / f"{i}.jpg").write_bytes(IMAGE)
        lines.append(json.dumps({"path": f"{i}.jpg", "label": name, name: 1, "keys": name}))
    (root / "list.jsonl").write_text("\n".join(lines))
    return root / "list.jsonl"


def in_listing_paths(root: Path) -> Path:
    root.mkdir()
    (root / "a.jpg").write_bytes(IMAGE)
    lines = [json.dumps({"path": n}) for n in ("a.jpg", *EVIL)]
    (root / "list.jsonl").write_text("\n".join(lines))
    return root / "list.jsonl"


def in_parquet_rows(root: Path) -> Path:
    root.mkdir()
    images = [{"bytes": IMAGE, "path": f"{name}.jpg"} for name in EVIL]
    pq.write_table(
        pa.table({"image": images, "__key__": EVIL, "key": EVIL, "label": EVIL}), root / "x.parquet"
    )
    return root / "x.parquet"


def in_parquet_columns(root: Path) -> Path:
    root.mkdir()
    columns = {name: [{"bytes": IMAGE, "path": None}] for name in EVIL if "\0" not in name}
    pq.write_table(pa.table({"image": [IMAGE], "label": [0], **columns}), root / "x.parquet")
    return root / "x.parquet"


SOURCES: list[Callable[[Path], Path]] = [
    in_folder, in_tar, in_lmdb, in_gulp, in_tfrecord, in_listing_labels, in_listing_paths,
    in_parquet_rows, in_parquet_columns,
]  # fmt: skip


@pytest.fixture
def jail(tmp_path: Path) -> Path:
    """A folder so deep that names with `..` stay below `tmp_path`, where they are seen."""
    path = tmp_path / "1/2/3/4/5"
    path.mkdir(parents=True)
    return path


def list_outside(jail: Path) -> set[str]:
    """All that is around the folder `made` in the jail, and where the absolute name leads."""
    around = {str(path) for path in jail.parents[4].rglob("*")}
    made = str(jail / "made") + "/"
    return {path for path in around if not path.startswith(made)} | set(
        Path("/tmp").glob("evil-of-headrace*")
    )


def check_tars(folder: Path) -> None:
    """Unpacked by a naive program, the tars stay in their folder too."""
    for path in folder.rglob("*.tar"):
        with tarfile.open(path) as tar:
            for name in tar.getnames():
                assert not name.startswith("/") and ".." not in name.split("/"), name


def try_all(calls: Iterable[Callable[[], object]], jail: Path) -> int:
    """Make each call, which works or is refused with an error of ours; how many worked."""
    (jail / "made").mkdir()
    before, worked = list_outside(jail), 0
    for call in calls:
        try:
            call()
            worked += 1
        except HeadraceError:
            pass
        except FileNotFoundError as error:  # the step before was refused
            assert "no such dataset" in str(error)
        assert list_outside(jail) == before
    check_tars(jail / "made")
    return worked


@pytest.mark.parametrize("make", SOURCES)
def test_nothing_is_written_outside_whatever_the_source_calls_its_samples(
    jail: Path, make: Callable[[Path], Path]
) -> None:
    path, made = make(jail / "source"), jail / "made"

    def export(what: Callable[[], object], to: str, out: str) -> None:
        dataset = what()
        samples = (
            (dataset.read(i) for i in range(len(dataset.names)))
            if hasattr(dataset, "names")
            else dataset
        )
        headrace.export_samples(samples, made / out, to=to, classes=dataset.classes)  # type: ignore[attr-defined]

    calls: list[Callable[[], object]] = [
        lambda: headrace.pack_dataset(path, made / "packed", on_error="skip"),
        lambda: headrace.index_dataset(path, out=made / "index", on_error="skip"),
        lambda: headrace.pack_dataset(made / "index", made / "again", on_error="skip"),
        *(lambda to=to: export(lambda: headrace.open_source(path), to, f"s-{to}") for to in TARGETS),
        *(lambda to=to: export(lambda: headrace.open_dataset(made / "packed"), to, f"p-{to}") for to in TARGETS),
        *(lambda to=to: export(lambda: headrace.open_dataset(made / "index"), to, f"i-{to}") for to in TARGETS),
    ]  # fmt: skip
    worked = try_all(calls, jail)
    assert worked or make is in_listing_paths  # where every path is refused at once


@pytest.mark.parametrize("field", ["/../../escaped/evil.sh", "x/../../../evil", "..", "a\0b"])
def test_a_field_of_a_hostile_index_is_written_nowhere(jail: Path, field: str) -> None:
    headrace.pack_dataset(in_folder(jail / "source"), jail / "packed")
    path = jail / "packed/shard-000000.arrow"
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    names = [name.replace("jpg.", f"{field}.") for name in table.column_names]
    path.write_bytes(encode_index(table.rename_columns(names)))

    def export(to: str) -> None:
        dataset = headrace.open_dataset(jail / "packed")
        headrace.export_samples(dataset, jail / "made" / to, to=to, classes=dataset.classes)

    try_all([lambda to=to: export(to) for to in TARGETS], jail)


def hostile_samples(name: str) -> list[Sample]:
    return [
        Sample(name, {"jpg": IMAGE}, 0),
        Sample(name, {"jpg": IMAGE}),
        Sample("k", {name: IMAGE}, 0),
        Sample("k", {f"{name}.jpg": IMAGE}, 0),
        Sample("k", {"jpg": IMAGE, f"x{name}": b"#!/bin/sh"}),
        Sample("k", {"jpg": IMAGE}, 0, suffixes={"jpg": name}),
        Sample("k", {"jpg": IMAGE}, 0, columns={name: 1}),
        Sample(name, {"mjpg": IMAGE}, 0, frames={"mjpg": [len(IMAGE)]}),
        Sample("k", {"mjpg": IMAGE, name: b""}, 0, frames={"mjpg": [len(IMAGE)]}),
        Sample("k", {"mjpg": IMAGE}, 0, frames={"mjpg": [len(IMAGE)], name: [1]}),
    ]


@pytest.mark.parametrize("name", EVIL)
def test_nothing_is_written_outside_whatever_a_sample_calls_its_parts(
    jail: Path, name: str
) -> None:
    made, calls = jail / "made", list[Callable[[], object]]()
    for number, sample in enumerate(hostile_samples(name)):
        for to in TARGETS:
            out = made / f"{to}{number}"
            calls.append(
                lambda sample=sample, out=out, to=to: headrace.export_samples(
                    [sample], out, to=to, classes=[name]
                )
            )
        flow = made / f"flow{number}"
        calls.append(lambda sample=sample, flow=flow: pack_samples([sample], flow, 10_000, [name]))
    assert try_all(calls, jail) > 0


@pytest.mark.parametrize("to", ["folder", "webdataset"])
@pytest.mark.parametrize("sample", [
    Sample("k", {"jpg": IMAGE, "/../../escaped/evil.sh": b"#!/bin/sh"}, 0),
    Sample("k", {"mjpg": IMAGE, "/../../../escaped/evil.sh": b""}, frames={"mjpg": [len(IMAGE)]}),
])  # fmt: skip
def test_a_field_that_leads_out_of_an_export_is_named_and_leaves_nothing(
    tmp_path: Path, to: str, sample: Sample
) -> None:
    with pytest.raises(PackError, match=r"escaped/evil\.sh: (leads out|not a safe relative path)"):
        headrace.export_samples([sample], tmp_path / "out", to=to)
    assert os.listdir(tmp_path) == []


def test_links_that_wait_at_the_destination_are_not_followed(tmp_path: Path) -> None:
    source, away, out = in_folder(tmp_path / "source"), tmp_path / "away", tmp_path / "out"
    for folder in (away, out):
        folder.mkdir()
    (away / "x.tmp").write_text("years of work")
    (away / "shard-000007.tar").write_text("years of work")
    (out / ".packing").symlink_to(away)
    with pytest.raises(PackError, match=r"\.packing: is a link"):
        headrace.pack_dataset(source, out)
    (out / ".packing").unlink()
    (out / ".packing").mkdir()
    (out / ".packing" / "lock").symlink_to(away / "lock")
    with pytest.raises(PackError, match="lock"):
        headrace.pack_dataset(source, out)
    (tmp_path / ".x.tmp").symlink_to(away / "new")
    for to in TARGETS:
        with pytest.raises(PackError, match=r"\.x\.tmp: left by an export"):
            headrace.export_samples([Sample("k", {"jpg": IMAGE})], tmp_path / "x", to=to)
    assert sorted(os.listdir(away)) == ["shard-000007.tar", "x.tmp"]


def test_a_record_of_a_killed_pack_that_names_files_elsewhere_is_not_believed(
    tmp_path: Path,
) -> None:
    source, out = in_folder(tmp_path / "source"), tmp_path / "out"
    done: list[object] = []

    def stop(progress: object) -> None:
        done.append(progress)
        if len(done) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        headrace.pack_dataset(source, out, shard_size=2000, workers=1, progress=stop)
    path = out / ".packing/shard-000000.json"
    record = json.loads(path.read_text())
    record["result"]["record"]["data"]["file"] = "../../evil.tar"
    path.write_text(json.dumps(record))
    tar = out / ".packing/shard-000000.tar"
    (tmp_path / "evil.tar").write_bytes(tar.read_bytes())
    headrace.pack_dataset(source, out, shard_size=2000)
    assert headrace.verify_dataset(out) == []
    assert sorted(os.listdir(tmp_path)) == ["evil.tar", "out", "source"]
