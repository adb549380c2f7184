"""What belongs to the flow as a whole: describing, measuring, torch, imports."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flow.functions import fail_on_threes, is_even, make_image, square
from headrace import Flow
from headrace.work.progress import Progress


def test_describe_names_order_exactness_length_and_place() -> None:
    flow = Flow.of(range(10)).shuffle(4, seed=1).map(square, 2, ordered=False).filter(is_even)
    rows = flow.batch(3, remainder=False).prefetch(2).repeat().describe().rows
    assert [row.stage.partition("(")[0] for row in rows] == [
        "of", "shuffle", "map", "filter", "batch", "prefetch", "repeat",
    ]  # fmt: skip
    assert [row.length for row in rows] == ["10"] * 3 + ["unknown"] * 4
    assert rows[1].order == "within 4" and rows[2].order == "as they finish"
    assert rows[2].runs_in == "2 processes" and rows[5].runs_in == "1 thread, with all before it"
    assert (rows[0].resumes, rows[2].resumes, rows[3].resumes) == ("yes", "no", "by replay")
    assert "up to 2 dropped at end" in rows[4].items


def test_a_flow_can_be_asked_for_its_truth_and_shown() -> None:
    flow = Flow.of(range(3)).filter(is_even)
    assert flow
    assert repr(flow) == "Flow(of(range) → filter(is_even))"


def test_building_on_a_flow_leaves_it_as_it_was() -> None:
    flow = Flow.of(range(4))
    flow.batch(2)
    flow.map(square)
    assert list(flow) == [0, 1, 2, 3]


def test_speed_measures_each_stage_after_its_warm_up() -> None:
    flow = Flow.of(range(200)).map(make_image).batch(10)
    speed = flow.speed(size=10, warmup=5)
    assert [row.stage for row in speed.stages] == [
        "of(range)", "map(make_image)", "batch(10, remainder=True)",
    ]  # fmt: skip
    assert all(row.items == 10 and row.warmed_up and row.seconds > 0 for row in speed.stages)
    assert speed.stages[1].bytes == 10 * 64 * 64 * 3 and speed.stages[2].bytes == 100 * 64 * 64 * 3
    assert speed.items_per_second == speed.stages[-1].items_per_second > 0
    assert speed.megabytes_per_second == pytest.approx(
        speed.stages[2].bytes / 1e6 / speed.stages[2].seconds
    )
    assert str(speed).splitlines()[0].split() == [
        "up",
        "to",
        "and",
        "with",
        "items/s",
        "MB/s",
        "µs/item",
        "items",
    ]


def test_speed_of_a_flow_shorter_than_the_warm_up_says_so() -> None:
    speed = Flow.of(range(3)).speed(size=10, warmup=5, stages=False)
    assert speed.stages[0].items == 3 and not speed.stages[0].warmed_up
    assert "ended within the warm-up" in str(speed)


def test_speed_and_save_report_to_their_callback_and_draw_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    seen: list[Progress] = []
    Flow.of(range(9)).speed(5, 2, progress=seen.append)
    assert [(now.samples, now.total_samples) for now in seen][-1] == (7, 7)
    seen.clear()
    Flow.of(range(9)).save(tmp_path / "out", progress=seen.append)
    assert [(now.samples, now.total_samples) for now in seen][-1] == (9, 9)
    assert capsys.readouterr().err == ""


def test_speed_does_not_move_the_flow() -> None:
    flow = Flow.of(range(9))
    flow.load_state_dict({**flow.state_dict(), "position": 4})
    flow.speed(5, 0)
    assert list(flow) == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_data_loader_gives_each_item_once(workers: int) -> None:
    data = pytest.importorskip("torch.utils.data")
    flow = Flow.of(range(25)).shuffle(10, seed=1).map(square)
    flow.set_epoch(2)
    loader = data.DataLoader(flow.as_torch(), batch_size=None, num_workers=workers)
    assert isinstance(loader.dataset, data.IterableDataset) and len(loader) == 25
    assert list(loader) == list(flow)  # two workers in turn give the order of one


def test_torch_workers_refuse_what_they_would_get_wrong() -> None:
    data = pytest.importorskip("torch.utils.data")
    flow = Flow.of(range(9)).shuffle(seed=1)
    lasting = data.DataLoader(
        flow.as_torch(), batch_size=None, num_workers=1, persistent_workers=True
    )
    assert list(lasting) == list(flow)
    flow.set_epoch(1)
    with pytest.raises(RuntimeError, match="leave persistent_workers off"):
        list(lasting)
    flow.load_state_dict({**flow.state_dict(), "position": 4})
    with pytest.raises(RuntimeError, match="cannot resume in the middle of an epoch"):
        list(data.DataLoader(flow.as_torch(), batch_size=None, num_workers=1))
    rest = list(data.DataLoader(flow.as_torch(), batch_size=None))
    assert rest == list(flow)[4:]


def test_batches_become_tensors_in_torch() -> None:
    data = pytest.importorskip("torch.utils.data")
    flow = Flow.of(range(6)).map(make_image).batch(3)
    shapes = [tuple(batch.shape) for batch in data.DataLoader(flow.as_torch(), batch_size=None)]
    assert shapes == [(3, 64, 64, 3)] * 2


def test_importing_headrace_imports_nothing_optional_and_starts_nothing() -> None:
    text = (
        "import sys, threading, headrace\n"
        "print([m for m in ('torch', 'zmq', 'lmdb', 'cv2', 'rich') if m in sys.modules])\n"
        "print(threading.active_count())"
    )
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n1\n"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for module in ("lmdb", "zmq"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install '.\[lmdb\]'"):
        Flow.of([1]).save(f"{tmp_path}/x.lmdb")
    with pytest.raises(ImportError, match=r"pip install '.\[zmq\]'"):
        Flow.of([1]).send("tcp://127.0.0.1:1")


def test_several_processes_run_a_flow_in_its_order() -> None:
    flow = Flow.of(range(23)).map(make_image).in_process(3, start="fork")
    assert len(flow) == 23
    assert [int(image[0, 0, 0]) for image in flow] == list(range(23))


def test_several_processes_share_the_buffer() -> None:
    flow = Flow.of(range(23)).in_process(3, buffer=8, start="fork")
    assert [part._stage.buffer for part in flow._inputs] == [2, 2, 2]


def test_several_processes_skip_the_same_items_as_one() -> None:
    flow = Flow.of(range(20)).map(fail_on_threes, on_error="skip")
    assert list(flow.in_process(2, start="fork")) == list(flow) == [n for n in range(20) if n % 3]
    assert flow.describe().rows[-1].resumes == "by replay"


def test_interleave_undoes_shard() -> None:
    flow = Flow.of(range(11))
    again = Flow.interleave(*(flow.shard(rank, 3) for rank in range(3)))
    assert list(again) == list(range(11)) and len(again) == 11
    assert Flow.interleave(flow, flow.filter(is_even)).length() is None
    assert Flow.interleave(flow.repeat(), flow.repeat()).length() == math.inf


def test_a_batch_of_arrays_from_processes_is_the_consumers_own() -> None:
    batches = list(Flow.of(range(40)).map(make_image, 2, start="fork").batch(4))
    assert np.array_equal(np.concatenate(batches)[:, 0, 0, 0], np.arange(40))


def test_the_state_is_that_of_the_pass_begun_last() -> None:
    flow = Flow.of(range(9))
    first, second = iter(flow), iter(flow)
    next(second)
    for _ in range(5):
        next(first)
    assert flow.state_dict()["position"] == 1
    flow.set_epoch(1)
    assert flow.state_dict() == {"epoch": 1, "position": 0, "flow": "of(range)"}
