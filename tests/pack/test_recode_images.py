"""`pack --recode`: slow kinds of JPEG become baseline with the same pixels, and the index says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.pack.recode_images import recode_sample
from headrace.sample import Sample
from headrace.store.manifest import read_manifest
from headrace.transforms import RandomResizedCrop
from images import encode
from jpegs import decode_with_pillow, make_multiscan

FILES = {
    "a/baseline.jpg": encode(200, 300, seed=1),
    "a/progressive.jpg": encode(200, 300, seed=2, progressive=True, quality=95),
    "b/scans.jpg": make_multiscan(200, 300, [(2, 2), (1, 1), (1, 1)]),
    "b/cmyk.jpg": encode(200, 300, seed=3, mode="CMYK", progressive=True),
    "b/other.png": encode(40, 60, seed=4, format="PNG"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "source"


def read_fields(path: Path) -> dict[str, bytes]:
    return {s.key: next(s[n] for n in s if n != "cls") for s in headrace.open_dataset(path)}


def run(*arguments: object) -> tuple[str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_only_slow_kinds_are_recoded(folder: Path, tmp_path: Path) -> None:
    summary = headrace.pack_dataset(folder, tmp_path / "packed", recode=True)
    assert summary.kinds == {"baseline": 3, "cmyk": 1, "png": 1}
    packed = read_fields(tmp_path / "packed")
    for name, data in FILES.items():
        recoded = packed[name.rpartition(".")[0]]
        np.testing.assert_array_equal(decode_with_pillow(recoded), decode_with_pillow(data))
        assert (recoded != data) == (name in ("a/progressive.jpg", "b/scans.jpg"))
    assert not headrace.verify_dataset(tmp_path / "packed")


def test_the_index_says_what_was_done(folder: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(folder, tmp_path / "packed", recode=True)
    samples = {s.key: s for s in headrace.open_dataset(tmp_path / "packed")}
    assert samples["a/progressive"].recoded == {"jpg": "progressive"}
    assert samples["b/scans"].recoded == {"jpg": "non-interleaved"}
    assert not samples["a/baseline"].recoded and not samples["b/cmyk"].recoded
    assert read_manifest(tmp_path / "packed").recipe["recode"] is True
    headrace.pack_dataset(tmp_path / "packed", tmp_path / "again")  # it is not forgotten
    again = {s.key: s.recoded for s in headrace.open_dataset(tmp_path / "again")}
    assert again == {key: sample.recoded for key, sample in samples.items()}


def test_recoded_files_have_seek_tables(folder: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(folder, tmp_path / "packed", recode=True)
    index = headrace.open_dataset(tmp_path / "packed").index.to_pydict()
    seeks = dict(zip(index["key"], index["jpg.seek"], strict=True))
    assert seeks["a/progressive"] > 0 and seeks["b/cmyk"] == 0


def test_without_the_option_bytes_are_kept(folder: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(folder, tmp_path / "packed")
    packed = read_fields(tmp_path / "packed")
    assert all(packed[name.rpartition(".")[0]] == data for name, data in FILES.items())
    assert "recode" not in read_manifest(tmp_path / "packed").recipe
    with pytest.raises(headrace.PackError, match="already holds a dataset"):
        headrace.pack_dataset(folder, tmp_path / "packed", recode=True)


def test_loaders_give_the_same_batches(folder: Path, tmp_path: Path) -> None:
    batches = []
    for recode in (False, True):
        out = tmp_path / f"packed-{recode}"
        headrace.pack_dataset(folder, out, recode=recode)
        transform = [RandomResizedCrop(64)]
        batches.append(next(iter(headrace.Loader(out, 5, transform=transform, seed=3))))
    np.testing.assert_array_equal(batches[0][0], batches[1][0])


def test_masks_and_damaged_images_pass_unchanged() -> None:
    damaged = FILES["a/progressive.jpg"][:2000]
    sample = Sample("a", {"jpg": damaged, "mask.png": FILES["b/other.png"], "json": b"{}"})
    assert recode_sample(sample) is sample


def test_info_says_what_recoding_would_give(folder: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(folder, tmp_path / "packed")
    for path in (folder, tmp_path / "packed"):
        assert "2 JPEGs would render about" in " ".join(run("info", path)[0].split())
        found = json.loads(run("info", path, "--json")[0])["recoding"]
        assert found["images"] == 2 and found["times_as_fast"] > 1


def test_info_and_export_say_what_was_recoded(folder: Path, tmp_path: Path) -> None:
    run("pack", folder, tmp_path / "packed", "--recode")
    shown = " ".join(run("info", tmp_path / "packed")[0].split())
    assert "1 non-interleaved and 1 progressive JPEGs were rewritten as baseline" in shown
    content = json.loads(run("info", tmp_path / "packed", "--json")[0])
    assert content["recoded"] == {"non-interleaved": 1, "progressive": 1}
    assert content["recoding"] is None
    _, said = run("export", tmp_path / "packed", tmp_path / "out", "--to", "folder")
    assert "the same pixels, not the same bytes; so are they exported" in " ".join(said.split())
    exported = (tmp_path / "out" / "a" / "progressive.jpg").read_bytes()
    expected = decode_with_pillow(FILES["a/progressive.jpg"])
    np.testing.assert_array_equal(decode_with_pillow(exported), expected)


def test_what_is_shrunk_afterwards_is_no_longer_recoded(folder: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(folder / "a", tmp_path / "packed", recode=True)
    headrace.pack_dataset(tmp_path / "packed", tmp_path / "small", shrink=headrace.Shrink(short=50))
    assert not any(sample.recoded for sample in headrace.open_dataset(tmp_path / "small"))
