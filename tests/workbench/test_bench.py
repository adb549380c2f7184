"""Benches of small datasets with artificial bottlenecks."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formats.making import write_tar
from headrace import DecodeError, SourceError, index_dataset, pack_dataset
from headrace.read.run_layout import Layout
from headrace.transforms import Normalize, OnArray, RandomResizedCrop
from headrace.workbench.bench import results
from headrace.workbench.bench.bench_table import list_kinds
from headrace.workbench.bench.dataset_advice import diagnose
from headrace.workbench.bench.dataset_bottleneck import Cause
from headrace.workbench.bench.dataset_sample import DatasetSample
from headrace.workbench.bench.measure_options import Options, choose_threads
from headrace.workbench.bench.required_rate import Need
from headrace.workbench.bench.results import Bench
from headrace.workbench.bench.run_bench import run_bench
from images import encode
from videos import make_video, save_videos
from workbench.benches import agree

QUICK: dict[str, Any] = {
    "batch_size": 16,
    "size": 64,
    "rounds": 2,
    "seconds": 0.02,
    "threads": (1, 2),
}


def make_photos(root: Path, count: int = 32, slow: int = 0) -> Path:
    for number in range(count):
        path = root / f"class{number % 2}" / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = "CMYK" if number < slow else "RGB"
        path.write_bytes(encode(180, 240, seed=number, mode=mode))
    return root


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_photos(tmp_path / "photos")


def needing_more_than(bench: Bench) -> Need:
    """Return a need of twice the measured rate."""
    whole = bench.find(results.PIPELINE)
    assert whole is not None
    return Need(2 * whole.rate.high, "twice as much")


def test_every_stage_is_measured_at_every_thread_count(folder: Path, tmp_path: Path) -> None:
    pack_dataset(folder, tmp_path / "packed")
    for path in (folder, tmp_path / "packed"):
        bench = run_bench(path, Options(**QUICK))
        for name in (results.ENTROPY, results.DECODE, results.RENDER, results.PIPELINE):
            assert [stage.threads for stage in bench.named(name)] == [1, 2], name
        for name in (results.COLD, results.WARM, results.COLLATE):
            assert len(bench.named(name)) == 1
        assert all(s.rate.low <= s.rate.median <= s.rate.high for s in bench.stages)
        assert all(len(s.rate.rounds) == 2 and s.cpu_ms >= 0 for s in bench.stages)
        whole = bench.find(results.PIPELINE)
        assert whole is not None and whole.peak_bytes is not None and whole.peak_bytes > 1 << 20
        assert dict(bench.skipped)[results.PYTHON].startswith("no step")
        assert bench.complete and bench.data.kinds == {"baseline": 32}
        assert len(bench.data.decode_ms) == len(bench.data.megapixels) == 32


def test_the_samples_are_limited_and_spread(tmp_path: Path) -> None:
    pack_dataset(make_photos(tmp_path / "many", 64), tmp_path / "packed", shard_size=200_000)
    bench = run_bench(tmp_path / "packed", Options(**{**QUICK, "samples": 16, "threads": (1,)}))
    assert 8 <= bench.setting.samples_used < 64


def test_a_slow_disk_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_rows = Layout.read_rows

    def read_slowly(self: Layout, rows: Any, memory: Any) -> Any:
        """As slow as reading 12 MB of random numbers, which needs no Python."""
        with open("/dev/urandom", "rb", buffering=0) as device:
            for _ in range(12):
                device.read(1 << 20)
        return read_rows(self, rows, memory)

    monkeypatch.setattr(Layout, "read_rows", read_slowly)
    bench = run_bench(folder, Options(**QUICK))
    found = diagnose(bench, needing_more_than(bench))
    assert found.cause is Cause.STORAGE and "limit is the storage" in found.headline


def sort_pixels(image: np.ndarray) -> np.ndarray:
    for _ in range(40):
        image = np.sort(image.ravel()).reshape(image.shape)[::-1].copy()
    return image


def test_a_slow_python_transform_is_found(folder: Path) -> None:
    steps = [RandomResizedCrop(64), OnArray(sort_pixels)]
    bench = run_bench(folder, Options(**{**QUICK, "threads": (1,), "transform": steps}))
    assert "sort_pixels" in bench.setting.transform
    found = diagnose(bench, needing_more_than(bench))
    assert (found.cause, found.bottleneck) == (Cause.PYTHON, results.PYTHON)


def test_too_few_threads_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    bench = run_bench(folder, Options(**{**QUICK, "threads": (1,)}))
    whole = bench.find(results.PIPELINE)
    assert whole is not None
    found = diagnose(bench, Need(1.5 * whole.rate.median, "half as much again"))
    assert found.cause is Cause.THREADS
    assert [f.advice for f in found.findings if f.topic == "threads"] == ["Use threads=2."]


def test_images_for_pillow_are_found(tmp_path: Path) -> None:
    bench = run_bench(make_photos(tmp_path / "mixed", 32, slow=16), Options(**QUICK))
    assert bench.data.kinds == {"cmyk": 16, "baseline": 16}
    assert bench.data.kind_ms["cmyk"] > 1.5 * bench.data.kind_ms["baseline"]
    found = diagnose(bench, needing_more_than(bench))
    assert found.cause is Cause.SLOW_PATH
    assert any("50% of the images (16 cmyk)" in f.says for f in found.findings)


def test_progressive_files_are_found_and_their_gain_is_measured(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    for i in range(32):
        path = folder / "photos" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(300, 400, seed=i, quality=92, progressive=i % 2 == 0))
    bench = run_bench(folder, Options(**QUICK))
    assert list(bench.data.kind_ms) == ["baseline", "progressive"]
    assert bench.data.recoded_ms is not None and (bench.data.recoding_gain or 0) > 1.1
    assert any("50% of the files are progressive" in f.says for f in diagnose(bench, None).findings)
    assert [row[:2] for row in list_kinds(bench.data)] == [
        ["baseline", "16"],
        ["progressive", "16"],
    ]


def test_a_slow_training_step_leaves_headroom(folder: Path) -> None:
    bench = run_bench(folder, Options(**QUICK))
    found = diagnose(bench, Need(1.0, "an image a second"))
    assert found.cause is Cause.NOTHING and found.headline.startswith("Fast enough")
    assert all(c.headroom is not None and c.headroom > 10 for c in found.capacities)


def test_a_broken_sample_is_named(folder: Path) -> None:
    broken = folder / "class1" / "007.jpg"
    data = broken.read_bytes()
    broken.write_bytes(data[: len(data) // 2])
    with pytest.raises(DecodeError, match=re.escape("class1/007") + ".*007.jpg at byte 0"):
        run_bench(folder, Options(**QUICK))


@pytest.mark.parametrize("image", [None, "mask.png"])
def test_a_sample_without_the_image_is_named_and_not_called_damaged(
    tmp_path: Path, image: str | None
) -> None:
    first = {"0.jpg": encode(16, 16), "0.mask.png": encode(16, 16, format="PNG")}
    index_dataset(write_tar(tmp_path / "x.tar", {**first, "1.cls": b"0"}))
    says = f"'1' in .*x.tar has no {image or 'image'}; its fields are cls"
    with pytest.raises(DecodeError, match=says):
        DatasetSample(tmp_path, 2, image)


def test_a_file_that_is_not_an_image_is_named(folder: Path) -> None:
    (folder / "class1" / "007.jpg").write_bytes(b"no image at all")
    with pytest.raises(DecodeError, match="class1/007"):
        run_bench(folder, Options(**QUICK, transform=[Normalize()]))


def test_two_benches_agree_within_their_spread(folder: Path) -> None:
    """Three attempts: a busy machine may change between two benches."""
    options = Options(**{**QUICK, "rounds": 5, "seconds": 0.05, "threads": (1,)})
    for _ in range(3):
        pair = [run_bench(folder, options).find(results.RENDER) for _ in range(2)]
        assert pair[0] is not None and pair[1] is not None
        if agree(pair[0].rate, pair[1].rate):
            return
    pytest.fail(f"{pair[0].rate} and {pair[1].rate} have nothing in common")


def test_a_cold_pipeline_reads_from_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[int] = []
    from headrace.workbench.bench import pipeline_job

    drop = pipeline_job.drop_pages
    monkeypatch.setattr(
        pipeline_job, "drop_pages", lambda files: dropped.append(len(files)) or drop(files)
    )
    bench = run_bench(folder, Options(**{**QUICK, "threads": (1,)}, cold=True))
    assert dropped == [32] * 3 and bench.setting.cold


def test_ctrl_c_in_the_pipeline_leaves_no_thread(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(sizes: Iterator[int], seconds: float) -> None:
        next(sizes)
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.workbench.bench.pipeline_job._time_batches", interrupt)
    before = threading.active_count()
    bench = run_bench(folder, Options(**QUICK))
    assert not bench.complete and bench.find(results.PIPELINE) is None
    assert threading.active_count() == before


def test_thread_counts_double_up_to_all_cores() -> None:
    assert choose_threads(1) == [1]
    assert choose_threads(2) == [1, 2]
    assert choose_threads(12) == [1, 2, 4, 8, 12]


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"threads": (0,)}, {"threads": ()}])
def test_options_check_themselves(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Options(**wrong)


def test_videos_are_refused_with_what_helps(tmp_path: Path) -> None:
    path = save_videos(tmp_path / "packed", [make_video(0, 3, (20, 20))])
    with pytest.raises(SourceError, match="holds videos, .*loader.stats"):
        DatasetSample(path, 10)
