"""A render request is a list of jobs and one target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headrace.render import (
    Arena,
    Color,
    Draws,
    Jobs,
    Output,
    RenderRequest,
    Status,
    Target,
    Viewport,
    build_seek,
    decode_jpeg,
    render_batch,
)
from images import encode, make_pixels
from render import reference

IMAGE = encode(50, 60, seed=1, subsampling=2)
BOXES = [(0, 0, 20, 25), (10, 20, 40, 30), (0, 0, 60, 50)]
TARGET = Target((12, 16))


def test_several_jobs_may_share_their_bytes() -> None:
    spans = np.zeros(3, np.int64), np.full(3, len(IMAGE))
    jobs = Jobs(Arena(IMAGE, *spans), Draws(BOXES, flips=[True, False, True]))
    out, status = RenderRequest(jobs, TARGET).render()
    pixels = decode_jpeg(IMAGE)
    assert not status.any()
    for view, box, flip in zip(out, BOXES, [True, False, True], strict=True):
        assert np.array_equal(view, reference.render(pixels, box, (12, 16), flip=flip))


def test_a_request_renders_what_the_call_with_the_same_options_renders() -> None:
    images, seeks = [IMAGE] * 3, [build_seek(IMAGE)] * 3
    viewport = Viewport(np.full((3, 2), 20), np.full((3, 2), 3))
    color = Color(lighting=np.full((3, 3), 7, np.float32))
    options = {"output": Output("float16", layout="channels_first"), "resample": "bicubic"}
    jobs = Jobs(images, Draws(BOXES, viewport, color=color), seeks)
    out, _ = RenderRequest(jobs, replace(TARGET, **options)).render()
    expected, _ = render_batch(
        images, BOXES, (12, 16), viewport=viewport, color=color, seeks=seeks, **options
    )
    assert np.array_equal(out, expected)


def test_draws_of_some_jobs_give_their_results() -> None:
    rng = np.random.default_rng(0)
    color = Color(rng.random((3, 3)), lighting=10 * rng.random((3, 3)))
    draws = Draws(
        BOXES, Viewport(np.full((3, 2), 20), np.arange(6).reshape(3, 2)), [1, 0, 1], color
    )
    whole, _ = RenderRequest(Jobs([IMAGE] * 3, draws), TARGET).render()
    part, _ = RenderRequest(Jobs([IMAGE] * 2, draws.take(slice(1, 3))), TARGET).render()
    assert np.array_equal(part, whole[1:])


def test_each_job_has_its_own_status() -> None:
    jobs = Jobs([IMAGE, b"", make_pixels(9, 9)], Draws(BOXES))
    out, status = RenderRequest(jobs, TARGET).render()
    assert status.tolist() == [Status.OK, Status.CORRUPT, Status.BAD_BOX]
    assert out[0].any() and not out[1:].any()


def test_a_request_does_not_keep_itself_alive() -> None:
    import weakref

    request = RenderRequest(Jobs([IMAGE] * 3, Draws(BOXES)), TARGET)
    request.render()
    gone = weakref.ref(request)
    del request
    assert gone() is None


@pytest.mark.parametrize("name", ["images", "seeks"])
def test_jobs_need_bytes_for_every_box(name: str) -> None:
    given = {"images": [IMAGE] * 3, "seeks": [b""] * 3} | {name: [b""]}
    with pytest.raises(ValueError, match=f"{name} holds 1 samples, but there are 3 boxes"):
        Jobs(given["images"], Draws(BOXES), given["seeks"])
