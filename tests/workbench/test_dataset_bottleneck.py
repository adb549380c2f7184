"""Diagnoses of benches with made-up numbers: each bottleneck is named, with the right advice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.workbench.bench import results
from headrace.workbench.bench.bench_table import describe_bench
from headrace.workbench.bench.dataset_advice import diagnose
from headrace.workbench.bench.dataset_bottleneck import Cause, Diagnosis
from headrace.workbench.bench.required_rate import Need, read_need
from workbench.benches import GIB, make_bench, make_stage


def needing(rate: float) -> Need:
    return Need(rate, f"{rate:,.0f} images/s")


def advice_on(diagnosis: Diagnosis, topic: str) -> str:
    (finding,) = [finding for finding in diagnosis.findings if finding.topic == topic]
    return f"{finding.says} {finding.advice}"


def test_a_machine_that_delivers_more_than_is_needed_is_fast_enough() -> None:
    found = diagnose(make_bench(), needing(4000))
    assert found.cause is Cause.NOTHING
    assert found.headline.startswith(
        "Fast enough: 8,000 images/s for a need of 4,000 images/s, 2.00"
    )


def test_little_headroom_is_just_enough() -> None:
    assert diagnose(make_bench(), needing(7500)).headline.startswith("Fast just enough")


def test_a_slow_disk_makes_storage_the_cause() -> None:
    bench = make_bench(
        {results.COLD: 900, results.PIPELINE: 880}, data={"bytes": 200 * GIB, "loose": True}
    )
    found = diagnose(bench, needing(4000))
    assert (found.cause, found.bottleneck) == (Cause.STORAGE, results.COLD)
    assert "needs 440 MB/s: pack it" in advice_on(found, "storage")
    assert "wait for data 78% of the time" in found.headline


def test_a_slow_disk_does_not_matter_to_data_that_fit_into_memory() -> None:
    found = diagnose(make_bench({results.COLD: 900}), needing(4000))
    assert found.cause is Cause.NOTHING
    assert "first epoch needs 440 MB/s" in advice_on(found, "storage")


def test_a_slow_python_transform_is_named() -> None:
    found = diagnose(make_bench({results.PYTHON: 60, results.PIPELINE: 440}), needing(4000))
    assert (found.cause, found.bottleneck) == (Cause.PYTHON, results.PYTHON)
    assert "60 images/s per process and take 16.7 ms" in advice_on(found, "user transform")
    assert [c.rate for c in found.capacities if c.stage == results.PYTHON] == [480]


ONE_OF_TWO_THREADS = make_bench(
    {results.RENDER: 1050, results.PIPELINE: 1000},
    setting={"threads": 1},
    machine={"usable_cores": 2},
)


def test_too_few_threads_are_the_cause() -> None:
    found = diagnose(ONE_OF_TWO_THREADS, needing(1900))
    assert found.cause is Cause.THREADS
    assert advice_on(found, "threads").endswith("Use threads=2.")


def test_more_threads_than_cores_are_not_promised() -> None:
    found = diagnose(ONE_OF_TWO_THREADS, needing(5000))
    assert "threads=2. Even all cores are too few" in advice_on(found, "threads")


def test_a_cpu_limit_of_the_container_is_reported() -> None:
    bench = make_bench(
        {results.RENDER: 2000, results.PIPELINE: 1900},
        setting={"threads": 2},
        machine={"cpu_limit": 2.0},
    )
    found = diagnose(bench, needing(4000))
    assert found.cause is Cause.CPU_LIMIT
    assert "2 of 8 cores" in advice_on(found, "CPU limit")


def test_images_for_pillow_are_the_slow_path() -> None:
    data = {"kinds": {"baseline": 700, "cmyk": 300}, "kind_ms": {"baseline": 0.5, "cmyk": 8.0}}
    bench = make_bench({results.RENDER: 2500, results.PIPELINE: 2400}, data=data)
    found = diagnose(bench, needing(4000))
    assert found.cause is Cause.SLOW_PATH
    said = advice_on(found, "slow path")
    assert "30% of the images (300 cmyk)" in said and "16.0 times a native one" in said
    assert "87% of the rendering time" in said and "Convert them to JPEG" in said


def test_what_recoding_would_give_is_told() -> None:
    data = {
        "kinds": {"baseline": 69, "progressive": 30, "arithmetic": 1},
        "kind_ms": {"baseline": 0.3, "progressive": 2.0, "arithmetic": 9.0},
        "recoded_ms": 0.3,
    }
    said = advice_on(diagnose(make_bench(data=data), None), "kinds of JPEG")
    assert "31% of the files are arithmetic and progressive JPEGs" in said
    assert "take 77% of the decoding time: 2.23 ms of CPU each, 0.30 ms as baseline" in said
    assert "`headrace pack --recode` would give 3.0×" in said
    assert not any(f.topic == "kinds of JPEG" for f in diagnose(make_bench(), None).findings)


def test_recoding_that_gives_nothing_is_not_advised() -> None:
    data = {
        "kinds": {"baseline": 999, "progressive": 1},
        "kind_ms": {"baseline": 0.3, "progressive": 2.0},
        "recoded_ms": 0.3,
    }
    (finding,) = (
        f for f in diagnose(make_bench(data=data), None).findings if f.topic == "kinds of JPEG"
    )
    assert finding.advice == ""


def test_images_with_16_bits_are_reported() -> None:
    found = diagnose(make_bench(data={"kinds": {"baseline": 7, "png-16": 3}}), None)
    assert "3 images have 16 bits per pixel" in advice_on(found, "16 bits")
    assert not any(f.topic == "16 bits" for f in diagnose(make_bench(), None).findings)


def test_large_images_get_the_advice_to_shrink_them() -> None:
    found = diagnose(make_bench(data={"mean_short_side": 1024.0}), needing(20_000))
    assert found.cause is Cause.RENDER
    assert "--resize-short 256` reduces the pixels to read and decode to about 6%" in advice_on(
        found, "image size"
    )
    assert "About 18.8 cores" in advice_on(found, "cores")


def test_a_busy_machine_is_told_apart_from_a_slow_one() -> None:
    bench = make_bench()
    shared = [
        replace(s, cpu_ms=0.3 * s.cpu_ms) if s.name == results.RENDER else s for s in bench.stages
    ]
    found = diagnose(replace(bench, stages=tuple(shared)), needing(20_000))
    assert found.cause is Cause.BUSY and "other programs that use the cores" in found.headline
    assert "only 2.4 of 8 cores" in advice_on(found, "busy machine")


def test_limits_of_memory_shm_and_numa_are_reported() -> None:
    machine = {"memory_limit": 8 * GIB, "shm": 64 << 20, "numa_nodes": 2}
    found = diagnose(make_bench(machine=machine, data={"bytes": 100 * GIB}), needing(1000))
    assert "above 125.0 GiB would keep it in memory" in advice_on(found, "memory")
    assert "0.06 GiB" in advice_on(found, "/dev/shm")
    assert "2 NUMA nodes" in advice_on(found, "NUMA")


def test_without_a_need_the_bottleneck_is_named() -> None:
    found = diagnose(make_bench(), None)
    assert found.headline == "This machine delivers 8,000 images/s; the bottleneck is render."
    assert [c.headroom for c in found.capacities] == [None, None, None]


def test_capacities_are_at_the_thread_count_of_the_setting() -> None:
    bench = make_bench()
    other = make_stage(results.RENDER, 99_999, threads=16)
    bench = type(bench)(**{**vars(bench), "stages": (*bench.stages, other)})
    assert [c.rate for c in diagnose(bench, None).capacities if c.stage == results.RENDER] == [8500]


def test_the_need_follows_from_a_step_or_a_target() -> None:
    assert read_need(None, 128, 256) == Need(2000.0, "2,000 images/s (256 in 128 ms)")
    assert read_need(2500, None, 256) == Need(2500, "2,500 images/s")
    assert read_need(None, None, 256) is None


def test_a_window_too_small_for_a_sorted_source_is_reported() -> None:
    sorted_source = make_bench(data={"samples": 100_000, "window": 900, "mixing": 0.41})
    (found,) = [f for f in diagnose(sorted_source, None).findings if f.topic == "shuffle"]
    assert "window of 900 of 100,000 samples" in found.says and "41% as well" in found.says
    assert "window=None" in found.advice
    for mixing in (0.99, None):
        mixed = make_bench(data={"window": 900, "mixing": mixing})
        assert not [f for f in diagnose(mixed, None).findings if f.topic == "shuffle"]


NFS = "network, nfs4 (server:/data)"


@pytest.mark.parametrize(
    ("loose", "way"), [(True, "(headrace pack)"), (False, "give the page cache enough memory")]
)
def test_data_on_a_network_file_system_are_reported(loose: bool, way: str) -> None:
    bench = make_bench(machine={"disk": NFS}, data={"loose": loose})
    said = advice_on(diagnose(bench, needing(4000)), "network file system")
    assert "on a network file system, nfs4 (server:/data): its speed depends" in said
    assert "Copy the dataset to a local disk" in said and way in said
    assert not any(f.topic == "network file system" for f in diagnose(make_bench(), None).findings)


def test_a_bench_describes_the_disk_and_warns_of_a_network() -> None:
    assert "disk: solid state, ext4;" in describe_bench(make_bench())
    assert "network file system" not in describe_bench(make_bench())
    said = describe_bench(make_bench(machine={"disk": NFS}))
    assert f"disk: {NFS};" in said and "Copy the dataset to a local disk" in said
