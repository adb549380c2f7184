"""Batches rendered in the background are the same as rendered at once, oldest first, and can be dropped."""

from __future__ import annotations

import time

import numpy as np
import pytest

from headrace.render import Crew, Draws, Jobs, RenderRequest, Target, build_seek, render_batch
from images import encode
from own_process import run_python

SIZE = (24, 20)


def begin(images, boxes, crew, *, seeks=None, out=None):
    return RenderRequest(Jobs(images, Draws(boxes), seeks), Target(SIZE, out=out)).begin(crew)


def make_images(seed):
    images = [encode(40 + 3 * i, 50 - i, seed + i, subsampling=i % 3) for i in range(8)]
    return [*images, encode(30, 30, seed, format="PNG"), b"no image"]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_a_crew_renders_the_same_batches_as_a_call(threads):
    batches = [make_images(seed) for seed in range(5)]
    boxes = [(0, 0, 20, 25)] * 10
    crew = Crew(threads)
    begun = [
        begin(images, boxes, crew, seeks=[build_seek(image) for image in images[:8]] + [b"", b""])
        for images in batches
    ]
    for number in 3, 0, 4, 1, 2:  # in any order
        out, status = begun[number].finish()
        expected, codes = render_batch(batches[number], boxes, SIZE, threads=1)
        assert np.array_equal(out, expected)
        assert status.tolist() == codes.tolist()
        assert status[-1] != 0


def test_a_crew_begins_the_next_batch_when_the_last_has_no_jobs_left():
    render_batch([encode(20, 20)] * 8, [(0, 0, 20, 20)] * 8, SIZE, threads=8)  # threads to spare
    crew, images, boxes = Crew(1), [encode(200, 200)] * 40, [(0, 0, 200, 200)] * 40
    expected, _ = render_batch(images, boxes, SIZE)
    for _ in range(5):
        outs = [np.zeros((40, *SIZE, 3), np.uint8) for _ in range(3)]
        begun = [begin(images, boxes, crew, out=out) for out in outs]
        begun[-1].finish()
        assert all(np.array_equal(out, expected) for out in outs)


def test_dropping_a_batch_cancels_the_jobs_that_have_not_begun():
    pixels = [np.zeros((1000, 1000, 3), np.uint8)] * 2000
    out = np.full((2000, *SIZE, 3), 7, np.uint8)
    crew = Crew(2)
    rendering = begin(pixels, [(0, 0, 1000, 1000)] * 2000, crew, out=out)
    del rendering
    kept = out.copy()
    assert (kept[:, 0, 0, 0] == 7).any(), "all of it was rendered"
    next_one = begin(pixels[:4], [(0, 0, 9, 9)] * 4, crew)
    assert not next_one.finish()[1].any()
    assert np.array_equal(out, kept), "it went on after it was dropped"


def test_a_crew_keeps_to_its_number_of_threads():
    done = run_python(
        SETUP
        + """
for rendering in [begin() for _ in range(4)]:
    check(rendering)
assert count() == before + 2, count() - before

render_batch([np.zeros((9, 9, 3), np.uint8)] * 7, [(0, 0, 9, 9)] * 7, (8, 8), threads=7)
def read_times():  # the clock of a thread's own time, as clock_getcpuclockid(3) makes it of a number
    return {task: time.clock_gettime(~int(task) << 3 | 6) for task in os.listdir("/proc/self/task")}
make_pixels(900)
times, crew = read_times(), Crew(1)
assert len(times) == before + 6
for rendering in [begin(900) for _ in range(4)]:
    check(rendering)
del times[str(os.getpid())]
worked = [now - times[task] for task, now in read_times().items() if task in times]
# One thread, or another for a batch that was begun when all before it were done: not all six at once.
assert sum(seconds > sum(worked) / 10 for seconds in worked) < 3, worked
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_each_crew_has_its_own_threads():
    slow, boxes = [np.zeros((1000, 1000, 3), np.uint8)] * 2000, [(0, 0, 1000, 1000)] * 2000
    busy, idle = Crew(1), Crew(1)
    out = np.full((2000, *SIZE, 3), 7, np.uint8)
    begun = [
        begin(slow, boxes, busy),
        begin(slow, boxes, busy, out=out),
    ]
    begin(slow[:2], boxes[:2], idle).finish()
    assert (out == 7).all(), "it waited for the batches of another crew"
    begun.clear()


def test_a_crew_without_threads_is_refused():
    with pytest.raises(ValueError, match="at least one thread"):
        Crew(0)


def test_the_time_of_a_batch_is_the_time_of_its_threads():
    pixels = [np.zeros((900, 900, 3), np.uint8)] * 20
    before = time.process_time()
    rendering = begin(pixels, [(0, 0, 900, 900)] * 20, Crew(1))
    assert rendering.seconds == 0
    rendering.finish()
    assert rendering.seconds > (time.process_time() - before) / 2


def test_the_calling_thread_renders_if_the_system_gives_no_other():
    done = run_python(
        SETUP
        + """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), -1))
for rendering in [begin(), begin()]:
    check(rendering)
assert count() == before, "there was room for a thread"
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_child_of_a_fork_can_drop_what_its_parent_renders():
    done = run_python(
        SETUP
        + """
for _ in range(10):
    rendering = begin(400)
    child = os.fork()
    if child == 0:
        try:
            rendering.finish()
        except RuntimeError as error:
            assert "parent process" in str(error)
        else:
            os._exit(1)
        del rendering
        check(begin())  # by the same crew, whose threads were at work
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    check(rendering)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_leaving_the_interpreter_with_batches_in_flight_is_quiet():
    done = run_python(SETUP + "kept = [begin(400), begin(400)]")
    assert (done.returncode, done.stderr) == (0, "")


SETUP = """
import os, time
from functools import cache
import numpy as np
from headrace.render import Crew, Draws, Jobs, RenderRequest, Target, render_batch
def count(): return len(os.listdir("/proc/self/task"))
before = count()
crew = Crew(2)
@cache
def make_pixels(size): return [np.full((size, size, 3), level, np.uint8) for level in range(20)]
def begin(size=40):
    jobs = Jobs(make_pixels(size), Draws([(0, 0, size, size)] * 20))
    return RenderRequest(jobs, Target((8, 8))).begin(crew)
def check(rendering):
    out, status = rendering.finish()
    assert not status.any() and (out[:, 0, 0, 0] == np.arange(20)).all()
"""
