"""Every runner keeps the contract; then errors, deaths, signals, memory and randomness."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from flow.functions import (
    die_on_seven,
    draw,
    draw_globals,
    exit_on_seven,
    fail_on_seven,
    get_pid,
    keep_but_fail_on_seven,
    make_image,
    raise_changeling,
    raise_unpicklable,
    square,
)
from headrace import Flow
from headrace.errors import WorkerError
from headrace.testing.flow_contract import COUNT, Broken, FlowContract, read
from headrace.work.seeding import CHOOSE, GLOBALS, MIX, SHUFFLE, item_rng, make_generator
from headrace.work.shared_memory import Segment


class RunnerContract(FlowContract):
    """A map on workers: what holds for every pool."""

    options: Mapping[str, Any]

    def make(self, source: Any, fn: Callable[[Any], Any] = square, **options: Any) -> Flow:
        return Flow.of(source).map(fn, **{**self.options, **options})

    def expect(self) -> list[Any]:
        return [n * n for n in range(COUNT)]

    def test_an_error_has_the_position_the_cause_and_the_traceback(self) -> None:
        with pytest.raises(WorkerError, match=r"failed on item 7: LookupError: seven") as caught:
            read(self.make(range(COUNT), fail_on_seven))
        assert "in fail_on_seven" in str(caught.value)
        assert caught.value.position == 7
        assert isinstance(caught.value.__cause__, LookupError)

    def test_what_came_before_an_error_was_given(self) -> None:
        given: list[Any] = []
        with pytest.raises(WorkerError):
            given.extend(self.make(range(COUNT), fail_on_seven))
        flow = iter(self.make(range(COUNT), fail_on_seven))
        if self.ordered:
            assert list(islice(flow, 7)) == list(range(7))

    def test_what_came_before_an_error_of_the_source_was_given(self) -> None:
        given: list[Any] = []
        with pytest.raises(OSError, match="the disk is gone"):
            given.extend(iter(self.make(Broken(), buffer=4)))
        if self.ordered:
            assert given == [n * n for n in range(10)]

    def test_failed_items_can_be_skipped(self, caplog: pytest.LogCaptureFixture) -> None:
        flow = self.make(range(COUNT), fail_on_seven, on_error="skip")
        assert flow.length() is None
        with caplog.at_level(logging.WARNING, "headrace"):
            self.check(read(flow), [n for n in range(COUNT) if n != 7])
        assert "failed on item 7" in caplog.text

    def test_failed_items_can_be_replaced(self) -> None:
        flow = self.make(range(COUNT), fail_on_seven, on_error=lambda error: -error.position)
        self.check(read(flow), [-7 if n == 7 else n for n in range(COUNT)])

    def test_an_exception_that_cannot_be_pickled_still_arrives(self) -> None:
        with pytest.raises(WorkerError, match="UnpicklableError: 1 and 2"):
            read(self.make(range(COUNT), raise_unpicklable))

    def test_more_workers_than_items(self) -> None:
        assert read(self.make(range(1))) == [0]

    def test_a_large_buffer(self) -> None:
        self.check(read(self.make(range(300), buffer=200)), [n * n for n in range(300)])

    def test_the_randomness_of_an_item_is_the_same_in_every_runner(self) -> None:
        inline = Flow.of(range(COUNT)).map(draw, seed=3)
        pooled = self.make(range(COUNT), draw, seed=3)
        inline.set_epoch(2)
        pooled.set_epoch(2)
        self.check(sorted(read(pooled)), sorted(read(inline)))
        assert len({value for value, _ in inline}) == COUNT

    def test_reads_no_further_ahead_than_the_buffer(self) -> None:
        taken: list[int] = []
        flow = self.make(lambda: (taken.append(n) or n for n in range(1000)), buffer=5)
        passed = iter(flow)
        next(passed)
        next(passed)
        assert len(taken) <= 7


class TestThreads(RunnerContract):
    options = MappingProxyType({"workers": 3, "kind": "threads"})


class TestThreadsUnordered(RunnerContract):
    options = MappingProxyType({"workers": 3, "kind": "threads", "ordered": False})
    ordered = repeatable = False


class ProcessContract(RunnerContract):
    """What holds for worker processes, whatever started them."""

    def test_a_killed_worker_is_an_error_at_once(self) -> None:
        with pytest.raises(WorkerError, match="was killed by SIGKILL .* items .*7.* in hand"):
            read(self.make(range(COUNT), die_on_seven))

    def test_a_worker_that_exits_is_an_error_at_once(self) -> None:
        with pytest.raises(WorkerError, match="ended with exit code 3"):
            read(self.make(range(COUNT), exit_on_seven))

    def test_a_worker_killed_from_outside_is_an_error(self) -> None:
        passed = iter(self.make(range(10**6), get_pid))
        os.kill(next(passed), signal.SIGKILL)
        with pytest.raises(WorkerError, match="was killed by SIGKILL"):
            for _ in passed:
                pass

    def test_global_generators_are_seeded_per_item(self) -> None:
        flow = self.make(range(COUNT), draw_globals, seed=5)
        first = sorted(read(flow))
        assert sorted(read(flow)) == first and len(set(map(tuple, first))) == COUNT
        flow.set_epoch(1)
        assert sorted(read(flow)) != first

    def test_arrays_that_the_consumer_keeps_are_never_overwritten(self) -> None:
        kept = list(self.make(range(600), make_image, buffer=20))
        values = [int(image[0, 0, 0]) for image in kept]
        self.check(values, [n % 251 for n in range(600)])
        assert all((image == image[0, 0, 0]).all() for image in kept)
        kept[0][:] = 1  # the consumer's own, to write to


class TestProcessesByFork(ProcessContract):
    options = MappingProxyType({"workers": 2, "start": "fork"})


class TestProcessesUnordered(ProcessContract):
    options = MappingProxyType({"workers": 2, "start": "fork", "ordered": False})
    ordered = repeatable = False


class TestPrefetch(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(square).prefetch(3)

    def expect(self) -> list[Any]:
        return [n * n for n in range(COUNT)]


class TestInProcess(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(source).map(square).in_process(start="fork")

    def expect(self) -> list[Any]:
        return [n * n for n in range(COUNT)]

    def test_its_death_is_an_error(self) -> None:
        flow = Flow.of(range(COUNT)).map(die_on_seven).in_process(start="fork")
        with pytest.raises(
            WorkerError, match="flow process .* killed by SIGKILL .* before its flow"
        ):
            read(flow)

    def test_an_error_inside_keeps_its_position(self) -> None:
        flow = Flow.of(range(COUNT)).map(fail_on_seven).in_process(start="fork")
        with pytest.raises(WorkerError, match="failed on item 7: LookupError") as caught:
            read(flow)
        assert caught.value.position == 7

    @pytest.mark.parametrize(("start", "step"), [(0, 1), (1, 2), (1, 3)])
    def test_an_error_without_a_position_has_that_of_the_next_item(
        self, start: int, step: int
    ) -> None:
        flow = Flow.of(range(COUNT)).filter(keep_but_fail_on_seven).in_process(start="fork")
        with pytest.raises(WorkerError, match="LookupError: seven") as caught:
            read(flow.shard(start, step))
        assert caught.value.position == 7

    @pytest.mark.parametrize("processes", [2, 3])
    def test_an_error_in_a_share_has_its_position_in_the_whole(self, processes: int) -> None:
        flow = Flow.of(range(COUNT)).filter(keep_but_fail_on_seven)
        with pytest.raises(WorkerError, match="LookupError: seven") as caught:
            read(flow.in_process(processes, start="fork"))
        assert caught.value.position == 7

    @pytest.mark.parametrize("processes", [1, 2, 3])
    def test_an_error_of_the_source_has_the_position_it_came_at(self, processes: int) -> None:
        with pytest.raises(WorkerError, match="the disk is gone") as caught:
            read(Flow.of(Broken()).in_process(processes, start="fork"))
        assert caught.value.position == 10

    def test_an_error_on_item_0_of_a_later_repetition_keeps_its_position(self) -> None:
        calls: list[int] = []

        def fail_on_third(n: int) -> int:
            calls.append(n)
            return 1 // (3 - calls.count(0))

        flow = Flow.of(range(2)).map(fail_on_third).repeat(3).in_process(start="fork")
        with pytest.raises(WorkerError, match="failed on item 0: ZeroDivisionError") as caught:
            read(flow)
        assert caught.value.position == 0

    def test_global_generators_are_seeded_per_item(self) -> None:
        flow = Flow.of(range(6)).map(draw_globals).in_process(start="fork")
        whole = read(flow)
        flow.load_state_dict({**flow.state_dict(), "position": 3})
        assert read(flow) == whole[3:]

    def test_global_generators_of_the_consumer_do_not_matter(self) -> None:
        flow = Flow.of(lambda: (draw_globals(n) for n in range(3))).in_process(start="fork")
        first = read(flow)
        draw_globals(0)
        assert read(flow) == first


class TestNested(FlowContract):
    """Processes that feed threads that feed processes, all in yet another process."""

    def make(self, source: Any) -> Flow:
        flow = Flow.of(source).map(abs, 2, start="fork").map(abs, 2, "threads").prefetch(2)
        return flow.map(square, 2, start="fork").in_process(start="fork")

    def expect(self) -> list[Any]:
        return [n * n for n in range(COUNT)]


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
class TestOtherStartMethods:
    def test_order_errors_and_deaths(self, start: str) -> None:
        flow = Flow.of(range(COUNT)).map(make_image, 2, start=start)
        assert [int(image[0, 0, 0]) for image in flow] == list(range(COUNT))
        with pytest.raises(WorkerError, match="failed on item 7: LookupError"):
            read(Flow.of(range(COUNT)).map(fail_on_seven, 1, start=start))
        with pytest.raises(WorkerError, match="was killed by SIGKILL"):
            read(Flow.of(range(COUNT)).map(die_on_seven, 1, start=start))

    def test_a_lambda_is_refused_with_the_reason(self, start: str) -> None:
        with pytest.raises(TypeError, match=f"started by '{start}'.*need the start method 'fork'"):
            read(Flow.of(range(3)).map(lambda n: n, 1, start=start))
        with pytest.raises(TypeError, match=f"flow before in_process.*started by '{start}'"):
            read(Flow.of(range(3)).map(lambda n: n).in_process(start=start))


def test_a_lambda_works_under_fork() -> None:
    offset = 5
    assert read(Flow.of(range(4)).map(lambda n: n + offset, 2, start="fork")) == [5, 6, 7, 8]


def test_processes_in_a_daemonic_worker_are_refused_with_the_way_out() -> None:
    data = pytest.importorskip("torch.utils.data")
    for flow in (Flow.of(range(8)).map(abs, 1), Flow.of(range(8)).in_process()):
        loader = data.DataLoader(flow.as_torch(), batch_size=None, num_workers=1)
        with pytest.raises(WorkerError, match='daemonic.* num_workers=0 .* kind="threads"'):
            list(loader)


def test_a_result_that_cannot_leave_its_process_is_an_error_with_a_position() -> None:
    flow = Flow.of(range(3)).map(lambda n: threading.Lock(), 1, start="fork")
    with pytest.raises(WorkerError, match="result of .* on item 0 cannot leave its process"):
        read(flow)


def test_an_item_that_cannot_reach_a_worker_is_an_error_with_a_position() -> None:
    flow = iter(Flow.of([1, threading.Lock()]).map(square, 1, start="fork"))
    assert next(flow) == 1
    with pytest.raises(TypeError, match="item 1 cannot be sent to a worker"):
        next(flow)


@pytest.mark.parametrize(
    ("lack", "expected"),
    [
        (OSError(errno.ENOMEM, "Cannot allocate memory"), WorkerError),
        (MemoryError("Cannot allocate memory"), MemoryError),
    ],
)
def test_a_lack_of_memory_is_not_blamed_on_the_item(
    lack: Exception, expected: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Segment, size: int) -> None:
        raise lack

    monkeypatch.setattr(Segment, "grow", fail)
    with pytest.raises(expected, match="Cannot allocate memory") as caught:
        read(Flow.of([np.zeros(1000)]).map(square, 1, start="fork"))
    assert lack in (caught.value, caught.value.__cause__)


@pytest.mark.parametrize(
    "value",
    [
        b"x" * 3_000_000,
        ["text" * 100_000, {"a": (1, 2.5, None)}],
        [np.arange(7), np.zeros((0, 3)), np.float32(1.5)],
        [np.arange(400_000).reshape(100, 4000)[::-2, ::3], np.asfortranarray(np.ones((300, 200)))],
        [np.full(300, n, np.int64) for n in range(300)],
        np.zeros(10, "M8[ns]"),
        (np.arange(100).view("m8[s]"), np.zeros((40, 50), "M8[D]").T, np.array(1, "M8[D]")),
    ],
    ids=["bytes", "text", "small", "strided", "many", "time", "times"],
)
def test_any_value_crosses_both_ways_unchanged(value: Any) -> None:
    flow = Flow.of([value] * 12).map(lambda item: item, 2, buffer=12, start="fork")
    for received in flow:
        assert pickle.dumps(received, 4) == pickle.dumps(pickle.loads(pickle.dumps(value, 4)), 4)


def test_torch_tensors_cross_in_shared_memory() -> None:
    torch = pytest.importorskip("torch")
    flow = Flow.of(range(4)).map(lambda n: torch.full((3, 50, 50), float(n)), 2, start="fork")
    assert [(float(t.mean()), t.dtype) for t in flow] == [
        (float(n), torch.float32) for n in range(4)
    ]


def test_shared_memory_does_not_grow_with_the_number_of_items() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[2])
    for image in Flow.of(range(3000)).map(lambda n: np.zeros(1 << 18, np.uint8), 2, start="fork"):
        assert not image[0]
    grown = int(Path("/proc/self/statm").read_text().split()[2]) - pages
    assert grown * 4096 < 64 << 20  # 3000 images are 750 MiB


@pytest.mark.parametrize(
    "flow",
    [
        Flow.of(range(3)).map(make_image, 2, start="fork"),
        Flow.of(range(3)).map(make_image).in_process(start="fork"),
    ],
    ids=["map", "in_process"],
)
def test_a_pass_leaves_no_descriptor_open(flow: Flow) -> None:
    read(flow)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        read(flow)
    assert len(os.listdir("/proc/self/fd")) <= before


def end_in_the_middle(prepare: Callable[[int], object]) -> bytes:
    """What a process says when its pass is closed in the middle of work; `prepare` gets where to say it."""
    reader, writer = os.pipe()

    def work(n: int) -> int:
        if n:
            prepare(writer)
            os.write(writer, b"begun")
            signal.pause()
        return n

    passed = iter(Flow.of(range(2)).map(work).in_process(start="fork"))
    next(passed)
    os.close(writer)
    with open(reader, "rb") as said:
        assert said.read(5) == b"begun"
        passed.close()
        return said.read()


def test_a_process_in_the_middle_of_work_is_ended_by_sigterm() -> None:
    def say(writer: int) -> None:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(os.write(writer, b"ended")))

    assert end_in_the_middle(say) == b"ended"


def test_a_process_that_does_not_heed_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def ignore(_: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.alarm(10)  # so that it does not outlive a test that fails

    monkeypatch.setattr("headrace.work.child_process.GRACE", 0.05)
    assert end_in_the_middle(ignore) == b""


def test_an_exception_that_comes_out_of_its_pickle_as_another_is_no_cause() -> None:
    with pytest.raises(WorkerError, match="ChangelingError: mine") as caught:
        read(Flow.of([1]).map(raise_changeling))
    assert caught.value.__cause__ is None


def test_the_randomness_of_an_item_is_used_for_nothing_else() -> None:
    (numbers,) = Flow.of([0]).map(lambda n: item_rng().random(4).tolist(), seed=1)
    for use in (SHUFFLE, MIX, CHOOSE, GLOBALS):
        assert make_generator(1, 0, 0, use).random(4).tolist() != numbers


def run_script(text: str, **options: Any) -> subprocess.Popen[str]:
    head = "import os, signal, sys, time, threading\nfrom headrace import Flow\n"
    return subprocess.Popen(
        [sys.executable, "-u", "-c", head + text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


WAIT = """
def wait(n):
    os.write(1, b"%d\\n" % os.getpid())
    signal.pause()
"""


def wait_for_end(pid: int) -> None:
    """Until a process that need not be our child is gone: waits on the kernel, not on a clock."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select

    poll = select.poll()
    poll.register(watched, select.POLLIN)
    assert poll.poll(20_000), f"process {pid} is still there"
    os.close(watched)


def test_workers_die_with_a_parent_that_is_killed() -> None:
    script = run_script(WAIT + "list(Flow.of(range(9)).map(wait, 2, start='fork'))")
    pids = [int(script.stdout.readline()) for _ in range(2)]
    script.kill()
    for pid in pids:
        wait_for_end(pid)
    script.communicate()


def test_spawned_workers_die_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    head = "import os, signal\nfrom headrace import Flow\n"
    main = "if __name__ == '__main__':\n    list(Flow.of(range(9)).map(wait, 1, start='spawn'))\n"
    (tmp_path / "script.py").write_text(head + WAIT + main)
    command = [sys.executable, str(tmp_path / "script.py")]
    script = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    pid = int(script.stdout.readline())
    script.kill()
    wait_for_end(pid)
    script.communicate()


def test_workers_survive_the_end_of_the_thread_that_started_them() -> None:
    script = run_script(
        "passed = iter(Flow.of(range(9)).map(abs, 2, start='fork'))\n"
        "thread = threading.Thread(target=lambda: next(passed)); thread.start(); thread.join()\n"
        "print(list(passed))"
    )
    assert script.communicate(timeout=30) == ("[1, 2, 3, 4, 5, 6, 7, 8]\n", "")


def test_ctrl_c_ends_everything_with_one_traceback() -> None:
    script = run_script(WAIT + "list(Flow.of(range(9)).map(wait, 2, start='fork'))")
    pids = [int(script.stdout.readline()) for _ in range(2)]
    os.killpg(script.pid, signal.SIGINT)
    _, errors = script.communicate(timeout=30)
    assert script.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1 and "KeyboardInterrupt" in errors
    for pid in pids:
        wait_for_end(pid)


@pytest.mark.parametrize("flow", ["map(add, 2, start='fork')", "map(add).in_process(start='fork')"])
def test_torch_computes_in_a_process_forked_from_one_where_it_has_computed(flow: str) -> None:
    pytest.importorskip("torch")
    script = run_script(
        "import torch\n"
        "def add(n): return int(torch.full((200_000,), n).float().mean())\n"
        "torch.set_num_threads(2)\n"
        "add(0)\n"
        f"print(list(Flow.of(range(4)).{flow}))"
    )
    try:
        said = script.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(script.pid, signal.SIGKILL)
        said = script.communicate()
    assert said == ("[0, 1, 2, 3]\n", "")


@pytest.mark.parametrize(
    "flow", ["map(abs, 2, start='fork')", "map(abs, 2, 'threads')", "prefetch(2)", "in_process()"]
)
def test_an_iterator_alive_at_exit_does_not_hold_the_interpreter(flow: str) -> None:
    script = run_script(f"passed = iter(Flow.of(range(99)).{flow})\nprint(next(passed))")
    assert script.communicate(timeout=30) == ("0\n", "")


@pytest.mark.parametrize("flow", ["map(abs, 2, start='fork')", "map(abs, 2, 'threads')"])
def test_an_input_that_is_kept_open_at_exit_does_not_hold_the_interpreter(flow: str) -> None:
    script = run_script(
        f"flow = Flow.of(range(9)).{flow}.repeat().fixed_size(2)\nprint(list(flow))"
    )
    assert script.communicate(timeout=30) == ("[0, 1]\n", "")


def test_a_process_forked_in_the_loop_may_end_without_harm_to_it() -> None:
    script = run_script(
        "for n in Flow.of(range(500)).map(abs, 2, start='fork'):\n"
        "    if n == 20:\n"
        "        pid = os.fork()\n"
        "        if not pid: sys.exit(0)\n"
        "        os.waitpid(pid, 0)\n"
        "print(n)"
    )
    assert script.communicate(timeout=30)[0] == "499\n"


def read_in_fork(passed: Iterator[int]) -> int:
    """What becomes of reading on in a fork: 0 if it went well, 1 if it was refused."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            next(passed)
            os._exit(0)
        except RuntimeError as error:
            os._exit(1 if "belongs to the parent" in str(error) else 2)
        finally:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (Flow.of(range(99)).map(abs, 2, start="fork").batch(1).unbatch(), 1),
        (Flow.of(range(99)).map(abs, 2, "threads"), 1),
        (Flow.of(range(99)).prefetch(2), 1),
        (Flow.of(range(99)).in_process(start="fork"), 1),
        (Flow.of(range(99)).map(abs), 0),
    ],
)
def test_a_pass_with_threads_or_processes_is_refused_in_a_fork(flow: Flow, expected: int) -> None:
    passed = iter(flow)
    next(passed)
    assert read_in_fork(passed) == expected
    assert list(passed) == list(range(1, 99))


def list_shared_memory() -> set[str]:
    """Shared memory with our name or number, or as multiprocessing names it: other programs have theirs there."""
    ours = ("headrace", f"_{os.getpid()}_", "psm_")
    return {name for name in os.listdir("/dev/shm") if any(part in name for part in ours)}


@pytest.mark.parametrize(
    ("flow", "kind"),
    [
        (Flow.of(range(50)).map(square, 2, "threads"), threading.Thread),
        (Flow.of(range(50)).prefetch(2), threading.Thread),
        (Flow.of(range(50)).map(square, 2), multiprocessing.process.BaseProcess),
        (Flow.of(range(50)).in_process(), multiprocessing.process.BaseProcess),
    ],
)
def test_ctrl_c_while_it_starts_is_raised_and_leaves_nothing(
    flow: Flow, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, before = kind.start, set(threading.enumerate())

    def start_and_interrupt(self: Any) -> None:
        start(self)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "start", start_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(iter(flow))
    # Others may end meanwhile: those of a flow that is dropped go when it is collected.
    assert set(threading.enumerate()) <= before and multiprocessing.active_children() == []
    assert len(list(flow)) == 50


@pytest.mark.parametrize(
    ("flow", "starts", "named"),
    [
        (Flow.of(range(9)).map(square, 3, "threads"), 2, "thread 2"),
        (Flow.of(range(9)).prefetch(), 0, "prefetch thread"),
    ],
)
def test_a_thread_that_cannot_start_is_an_error_and_leaves_nothing(
    flow: Flow, starts: int, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, before = threading.Thread.start, set(threading.enumerate())
    open_before = os.listdir("/proc/self/fd")
    left = iter(range(starts))

    def start_some(self: threading.Thread) -> None:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(self)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start_some)
        with pytest.raises(WorkerError, match=re.escape(f"cannot start {named}: can't start new")):
            next(iter(flow))
    assert set(threading.enumerate()) <= before
    assert len(os.listdir("/proc/self/fd")) <= len(open_before)


@pytest.mark.parametrize(
    "flow",
    [
        Flow.of(range(3)).map(abs, 2, start="fork"),
        Flow.of(range(3)).in_process(start="fork"),
    ],
)
def test_too_few_descriptors_are_a_worker_error_wherever_they_end(flow: Flow) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    said = set()
    for more in range(20):
        # Each time, since multiprocessing loses two descriptors when it finds no more.
        used = {int(fd) for fd in os.listdir("/proc/self/fd")}
        end = next(islice((fd for fd in count() if fd not in used), more, None))
        resource.setrlimit(resource.RLIMIT_NOFILE, (end, limits[1]))
        try:
            said.add(str(list(flow)))
        except WorkerError as error:
            said.add(re.sub("[0-9]", "n", str(error)))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    errors = said - {"[0, 1, 2]"}
    assert len(errors) == len(said) - 1
    assert all(re.match("cannot start .*: .* Too many open files", error) for error in errors)
    assert multiprocessing.active_children() == []


def test_a_worker_without_shared_memory_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = iter([os.memfd_create("first")])
    before = os.listdir("/proc/self/fd")

    def make_one(name: str) -> int:
        for fd in left:
            return fd
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", make_one)
    with pytest.raises(
        WorkerError, match="cannot start worker 0: .* Too many open files"
    ) as caught:
        list(Flow.of(range(3)).map(abs, 2, start="fork"))
    assert caught.value.__traceback__  # alive, with all that its frames hold
    assert len(os.listdir("/proc/self/fd")) == len(before) - 1


def test_ctrl_c_while_a_loop_is_left_comes_after_it() -> None:
    def give() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            signal.raise_signal(signal.SIGINT)
            closed.append(True)

    closed: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        for _ in Flow.of(give):
            break
        threading.Event().wait(20)
    assert closed == [True]


def test_nothing_has_a_name_in_shared_memory() -> None:
    before = list_shared_memory()
    passed = iter(Flow.of(range(99)).map(make_image, 2, start="fork"))
    next(passed)
    assert list_shared_memory() <= before
