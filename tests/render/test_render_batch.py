"""A batch equals Pillow, sample by sample, for every kind of input and any number of threads."""

from __future__ import annotations

import io
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from headrace import _core
from headrace.render import Arena, Status, build_seek, render_batch, status_message
from images import encode, make_pixels
from jpegs import join_segment
from own_process import run_python
from render import reference
from stored import read_photos


def render_with_pillow(images, boxes, size, flips, resample="bilinear"):
    return np.stack(
        [
            reference.render(reference.decode(image), box, size, flip=flip, resample=resample)
            for image, box, flip in zip(images, boxes, flips, strict=True)
        ]
    )


def draw_boxes(images, seed=0):
    rng = np.random.default_rng(seed)
    boxes = []
    for image in images:
        width, height = Image.open(io.BytesIO(image)).size
        left, top = rng.integers(0, width), rng.integers(0, height)
        boxes.append(
            (left, top, rng.integers(1, width - left + 1), rng.integers(1, height - top + 1))
        )
    return np.array(boxes, np.int32)


@pytest.fixture(scope="module")
def batch():
    """Make JPEGs of several kinds and a PNG, with boxes, flips and seek tables."""
    images = [
        encode(64 + 7 * seed, 90 - 5 * seed, seed, subsampling=seed % 3, quality=50 + 5 * seed)
        for seed in range(10)
    ]
    images.append(encode(50, 60, 11, format="PNG"))
    images.append(encode(50, 60, 12, progressive=True))
    return images, draw_boxes(images), np.arange(12) % 3 == 0, [build_seek(i) for i in images]


@settings(max_examples=60, deadline=None)
@given(
    height=st.integers(1, 70),
    width=st.integers(1, 70),
    subsampling=st.integers(0, 2),
    quality=st.integers(1, 100),
    progressive=st.booleans(),
    seed=st.integers(0, 99),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    flip=st.booleans(),
    resample=st.sampled_from(["bilinear", "bicubic"]),
)
def test_any_jpeg_box_and_size_equals_pillow(
    height, width, subsampling, quality, progressive, seed, size, flip, resample
):
    image = encode(
        height, width, seed, subsampling=subsampling, quality=quality, progressive=progressive
    )
    boxes = draw_boxes([image], seed)
    expected = render_with_pillow([image], boxes, size, [flip], resample)
    for simd in ("auto", "portable"):
        for seeks in (None, [build_seek(image)]):
            _core.set_simd(simd)
            try:
                out, status = render_batch(
                    [image], boxes, size, flips=[flip], seeks=seeks, resample=resample
                )
            finally:
                _core.set_simd("auto")
            assert status.tolist() == [0]
            np.testing.assert_array_equal(out, expected, f"{simd}, {seeks}")


def test_photos_equal_pillow():
    images = read_photos()
    boxes, flips = draw_boxes(images), np.arange(len(images)) % 2 == 0
    seeks = [build_seek(image) for image in images]
    expected = render_with_pillow(images, boxes, (224, 224), flips)
    for tables in (None, seeks):
        out, status = render_batch(images, boxes, (224, 224), flips=flips, seeks=tables)
        assert not status.any()
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("threads", [1, 2, 7, 40])
def test_the_result_does_not_depend_on_the_number_of_threads(batch, threads):
    images, boxes, flips, seeks = batch
    expected = render_with_pillow(images, boxes, (24, 31), flips)
    for _ in range(5):
        out, status = render_batch(
            images, boxes, (24, 31), flips=flips, seeks=seeks, threads=threads
        )
        assert not status.any()
        np.testing.assert_array_equal(out, expected)


def make_arena(parts):
    sizes = np.array([len(part) for part in parts])
    return Arena(b"".join(parts), np.cumsum(sizes) - sizes, sizes)


def test_an_arena_gives_what_its_samples_give(batch):
    images, boxes, flips, seeks = batch
    expected, _ = render_batch(images, boxes, (20, 20), flips=flips)
    out, status = render_batch(
        make_arena(images), boxes, (20, 20), flips=flips, seeks=make_arena(seeks)
    )
    assert not status.any()
    np.testing.assert_array_equal(out, expected)


def test_samples_may_lie_in_several_buffers(batch):
    images, boxes, flips, seeks = batch
    expected, _ = render_batch(images, boxes, (20, 20), flips=flips)
    numbers = np.arange(len(images)) % 3
    arenas = []
    for parts in (images, seeks):
        buffers = [bytearray(), bytearray(), bytearray()]
        offsets = []
        for number, part in zip(numbers, parts, strict=True):
            offsets.append(len(buffers[number]))
            buffers[number] += part
        sizes = np.array([len(part) for part in parts])
        arenas.append(Arena(buffers, np.array(offsets), sizes, numbers))
    assert [bytes(data) for data in arenas[0]] == [bytes(image) for image in images]
    out, status = render_batch(arenas[0], boxes, (20, 20), flips=flips, seeks=arenas[1])
    assert not status.any()
    np.testing.assert_array_equal(out, expected)


def test_any_buffer_is_accepted(batch):
    images, boxes, _, _ = batch
    expected, _ = render_batch(images, boxes, (20, 20))
    for kind in (bytearray, memoryview, lambda image: np.frombuffer(image, np.uint8)):
        out, _ = render_batch([kind(image) for image in images], boxes, (20, 20))
        np.testing.assert_array_equal(out, expected)


def test_decoded_pixels_and_encoded_bytes_may_be_mixed(batch):
    images, boxes, flips, _ = batch
    mixed = [reference.decode(im) if row % 2 else im for row, im in enumerate(images)]
    out, status = render_batch(mixed, boxes, (20, 20), flips=flips)
    assert not status.any()
    np.testing.assert_array_equal(out, render_with_pillow(images, boxes, (20, 20), flips))


def test_a_given_array_is_filled_and_returned(batch):
    images, boxes, _, _ = batch
    expected, _ = render_batch(images, boxes, (20, 20))
    mine = np.full_like(expected, 9)
    out, _ = render_batch(images, boxes, (20, 20), out=mine)
    assert out is mine
    np.testing.assert_array_equal(mine, expected)


def test_a_bad_sample_is_a_status_and_zeros_and_the_others_are_fine(batch):
    images, boxes, flips, _ = batch
    expected, _ = render_batch(images, boxes, (20, 20), flips=flips)
    images, boxes = list(images), boxes.copy()
    images[1] = images[1][: len(images[1]) // 2]
    images[2] = b""
    images[3] = b"no image at all"
    images[4] = images[10][:-60]  # of the PNG
    boxes[5] = (0, 0, 91, 10)
    boxes[6] = (-1, 0, 5, 5)
    boxes[7] = (3, 3, 0, 5)
    boxes[10] = (0, 0, 2**31 - 1, 1)
    out, status = render_batch(images, boxes, (20, 20), flips=flips)
    bad = [1, 2, 3, 4, 5, 6, 7, 10]
    assert np.flatnonzero(status).tolist() == bad
    assert status[1] == Status.TRUNCATED
    assert {int(code) for code in status[[5, 6, 7, 10]]} == {Status.BAD_BOX}
    assert not out[bad].any()
    good = np.flatnonzero(status == 0)
    np.testing.assert_array_equal(out[good], expected[good])


def test_every_status_has_a_message():
    messages = {status_message(code) for code in range(8)}
    assert len(messages) == len(Status) == 8
    with pytest.raises(ValueError, match="77"):
        status_message(77)


def test_an_empty_batch_is_an_empty_array():
    out, status = render_batch([], np.zeros((0, 4), np.int32), (8, 9))
    assert out.shape == (0, 8, 9, 3)
    assert status.shape == (0,)


PIXELS = make_pixels(6, 6)
BOX = (0, 0, 6, 6)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("boxes", {"boxes": [(0, 0, 6)]}),
        ("boxes", {"boxes": [(0.0, 0.0, 6.0, 6.0)]}),
        ("images", {"images": []}),
        ("images", {"images": [PIXELS[:, :, 0].copy()]}),
        ("images", {"images": [PIXELS[:0].copy()]}),
        ("images", {"images": Arena(b"abc", np.array([1]), np.array([3]))}),
        ("images", {"images": Arena(b"abc", np.array([-1]), np.array([1]))}),
        ("images", {"images": Arena(b"abc", np.array([1]), np.array([-1]))}),
        ("images", {"images": Arena([b"abc"], np.array([0]), np.array([1]), np.array([1]))}),
        ("images", {"images": Arena([b"abc"], np.array([0]), np.array([1]), np.array([-1]))}),
        ("seeks", {"seeks": [b"", b""]}),
        ("size", {"size": (0, 5)}),
        ("size", {"size": (5, 70000)}),
        ("flips", {"flips": [True, False]}),
        ("resample", {"resample": "nearest"}),
        ("threads", {"threads": 0}),
        ("out", {"out": np.zeros((1, 5, 6, 3), np.uint8)}),
        ("out", {"out": np.zeros((1, 5, 5, 3), np.float32)}),
        ("out", {"out": np.zeros((1, 5, 5, 6), np.uint8)[..., ::2]}),
    ],
)
def test_an_invalid_argument_is_named(name, change):
    arguments = {"images": [PIXELS], "boxes": [BOX], "size": (5, 5)} | change
    with pytest.raises(ValueError, match=name):
        render_batch(**arguments)


def test_an_arena_whose_lists_differ_in_length_is_refused():
    with pytest.raises(ValueError, match="offsets and sizes"):
        Arena(b"abc", np.array([0, 1]), np.array([1]))
    with pytest.raises(ValueError, match="numbers"):
        Arena([b"abc"], np.array([0, 1]), np.array([1, 1]), np.array([0]))


def test_two_threads_may_render_at_once(batch):
    images, boxes, flips, seeks = batch
    expected, _ = render_batch(images, boxes, (24, 31), flips=flips, threads=1)

    def render_often(threads):
        for _ in range(30):
            out, status = render_batch(
                images, boxes, (24, 31), flips=flips, seeks=seeks, threads=threads
            )
            if status.any() or not np.array_equal(out, expected):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(render_often, [2, 3, 1, 4]))


SETUP = """
import os, threading
import numpy as np
import pyarrow  # starts a thread of its own
from PIL import Image
count = lambda: len(os.listdir("/proc/self/task"))
before = count()
from headrace.render import render_batch
assert count() == before, "importing started a thread"
pixels = [np.full((40, 50, 3), level, np.uint8) for level in range(20)]
boxes = np.tile([0, 0, 50, 40], (20, 1))
def render(threads=3):
    out, status = render_batch(pixels, boxes, (8, 8), threads=threads)
    assert not status.any() and (out[:, 0, 0, 0] == np.arange(20)).all()
"""


def test_threads_are_started_at_first_use_and_kept():
    done = run_python(
        SETUP
        + """
render(1)
assert count() == before, "one thread is the calling one"
for _ in range(10): render(3)
assert count() == before + 2, count() - before
"""
    )
    assert done.returncode == 0, done.stderr


def test_rendering_works_with_fewer_threads_than_it_asks_for():
    done = run_python(
        SETUP
        + """
import resource
pixels = [np.full((8, 8, 3), n, np.uint8) for n in range(200)]
boxes = np.tile([0, 0, 8, 8], (200, 1))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), -1))
out, status = render_batch(pixels, boxes, (4, 4), threads=200)
assert not status.any() and (out[:, 0, 0, 0] == range(200)).all()
assert count() < 100, "there was room for them all"
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("threads", [1, 4])
def test_pillow_works_with_fewer_threads_than_it_asks_for(threads):
    done = run_python(
        SETUP
        + f"""
import io, resource
file = io.BytesIO()
Image.new("RGB", (8, 8), (7, 7, 7)).save(file, "PNG")
Image.open(file).load()  # what Pillow imports for it needs memory
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (6 << 20), -1))
out, status = render_batch([file.getvalue()] * 4, [(0, 0, 8, 8)] * 4, (4, 4), threads={threads})
assert not status.any() and (out == 7).all()
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def make_flat_multiscan(size):
    """Make three scans of empty blocks of two bits: the only code of either table is a zero."""
    frame = struct.pack(">BHHB", 8, size, size, 3) + bytes([1, 17, 0, 2, 17, 0, 3, 17, 0])
    code = bytes([1] + [0] * 15 + [0])
    segments = [(0xDB, b"\0" + b"\1" * 64), (0xC0, frame), (0xC4, b"\0" + code + b"\x10" + code)]
    data = b"\xff\xd8" + b"".join(join_segment(*segment) for segment in segments)
    for component in 1, 2, 3:
        data += join_segment(0xDA, bytes([1, component, 0, 0, 63, 0])) + bytes(
            (size // 8) ** 2 // 4
        )
    return data + b"\xff\xd9"


@pytest.mark.parametrize("kind", ["one scan", "several scans"])
def test_the_memory_of_a_giant_picture_is_freed(kind, tmp_path):
    file = tmp_path / "giant.jpg"
    if kind == "one scan":
        Image.new("RGB", (5200, 5200)).save(file)
    else:
        file.write_bytes(make_flat_multiscan(5200))
    done = run_python(
        SETUP
        + f"""
def resident(): return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
file = open({str(file)!r}, "rb").read()
before = resident()
status = render_batch([file], [(0, 0, 5200, 5200)], (8, 8), threads=1)[1]
assert not status.any()
assert resident() - before < 40 << 20, (resident() - before) >> 20
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_running_out_of_memory_raises_instead_of_blaming_the_picture(format):
    done = run_python(
        SETUP
        + f"""
import io, resource
file = io.BytesIO()
Image.new("RGB", (6000, 6000)).save(file, {format!r})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), -1))
try:
    render_batch([file.getvalue()], [(0, 0, 6000, 6000)], (8, 8), threads=1)
except MemoryError:
    print("no memory")
"""
    )
    assert (done.stdout, done.stderr) == ("no memory\n", "")


def test_leaving_the_interpreter_while_a_thread_renders_is_quiet():
    done = run_python(
        SETUP
        + """
pixels = [np.zeros((2000, 2000, 3), np.uint8)] * 20
boxes = np.tile([0, 0, 2000, 2000], (20, 1))
started = threading.Event()
def keep_rendering():
    while True:
        started.set()
        render_batch(pixels, boxes, (1500, 1500), threads=2)
threading.Thread(target=keep_rendering, daemon=True).start()
started.wait()
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_renders_with_its_own_threads():
    done = run_python(
        SETUP
        + """
render()
stop = threading.Event()
def keep_rendering():
    while not stop.is_set(): render()
busy = threading.Thread(target=keep_rendering)
busy.start()  # so that the fork finds the pool at work
try:
    for _ in range(20):
        child = os.fork()
        if child == 0:
            render()
            assert count() == 3
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
finally:
    stop.set()
    busy.join()
"""
    )
    assert done.returncode == 0, done.stderr


def test_an_image_with_a_wrong_checksum_is_not_rendered():
    images = [encode(20, 30, seed=1), encode(20, 30, seed=2, format="PNG")]
    images += [encode(20, 30, seed=3)]
    sums = np.array([_core.crc32c(image) for image in images])
    whole = [[0, 0, 30, 20]] * 3
    expected, _ = render_batch(images, whole, (20, 30))
    out, status = render_batch(images, whole, (20, 30), checksums=sums)
    assert np.array_equal(out, expected) and not status.any()
    out, status = render_batch(images, whole, (20, 30), checksums=sums ^ [1, 1 << 31, 0])
    assert status.tolist() == [Status.CHANGED, Status.CHANGED, Status.OK]
    assert not out[:2].any() and np.array_equal(out[2], expected[2])
    with pytest.raises(ValueError, match="checksums"):
        render_batch(images, whole, (20, 30), checksums=sums[:2])
