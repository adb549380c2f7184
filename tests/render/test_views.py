"""Several views of an image are what a request for each view gives, however they are decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _core
from headrace.render import (
    Color,
    Crew,
    Draws,
    Jobs,
    Output,
    RenderRequest,
    Status,
    Target,
    View,
    Viewport,
    build_seek,
)
from images import encode, make_pixels

HEIGHT, WIDTH = 90, 131
IMAGES = {
    "4:2:0": encode(HEIGHT, WIDTH, 1, subsampling=2),
    "4:2:2": encode(HEIGHT, WIDTH, 2, subsampling=1),
    "4:4:4": encode(HEIGHT, WIDTH, 3, subsampling=0),
    "grey": encode(HEIGHT, WIDTH, 4, mode="L"),
    "progressive": encode(HEIGHT, WIDTH, 5, progressive=True),
    "PNG": encode(HEIGHT, WIDTH, 6, format="PNG"),
    "GIF": encode(HEIGHT, WIDTH, 7, format="GIF"),
    "pixels": make_pixels(HEIGHT, WIDTH, 8),
}
OUTPUTS = [
    Output(),
    Output(layout="channels_first"),
    Output("float32", (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)),
    Output("float16", layout="channels_first"),
    Output("bfloat16"),
]
BOX = (0, 0, WIDTH, HEIGHT)


@contextmanager
def decode_views(how: str) -> Iterator[None]:
    _core.set_sharing(how)
    try:
        yield
    finally:
        _core.set_sharing("auto")


def render_each(jobs: Jobs, views: list[View]) -> list[Any]:
    """Render every view by a request of its own."""
    return [RenderRequest(replace(jobs, draws=view.draws), view.target).render() for view in views]


def assert_same(results: list[Any], expected: list[Any]) -> None:
    assert len(results) == len(expected)
    for (out, status), (wanted, wanted_status) in zip(results, expected, strict=True):
        assert status.tolist() == wanted_status.tolist()
        assert out.dtype == wanted.dtype and np.array_equal(out, wanted)


@st.composite
def draw_view(draw: st.DrawFn, width: int, height: int) -> View:
    """Draw a view of one image of this size."""
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    box = left, top, draw(st.integers(1, width - left)), draw(st.integers(1, height - top))
    viewport = None
    if draw(st.booleans()):
        sizes = [[draw(st.integers(1, 150)), draw(st.integers(1, 150))]]
        offsets = [[draw(st.integers(-20, 60)), draw(st.integers(-20, 60))]]
        viewport = Viewport(np.array(sizes), np.array(offsets))
    color = None
    if draw(st.booleans()):
        levels = np.random.default_rng(draw(st.integers(0, 99))).random((2, 1, 3), np.float32)
        color = Color(2 * levels[0], lighting=50 * levels[1])
    flips = draw(st.tuples(st.booleans(), st.booleans()))
    target = Target(
        draw(st.sampled_from([(12, 16), (40, 33), (1, 70), (height, width)])),
        draw(st.sampled_from(OUTPUTS)),
        draw(st.sampled_from(["bilinear", "bicubic"])),
        fill=draw(st.sampled_from([(0, 0, 0), (1, 2, 3)])),
    )
    return View(Draws([box], viewport, [flips[0]], color, [flips[1]]), target)


@pytest.mark.parametrize("name", IMAGES)
@given(
    st.data(),
    st.integers(1, 8),
    st.sampled_from(["auto", "never", "always"]),
    st.sampled_from(["auto", "portable"]),
    st.booleans(),
)
def test_views_are_what_a_request_for_each_renders(
    name: str, data: st.DataObject, orientation: int, how: str, simd: str, seeking: bool
) -> None:
    image: Any = IMAGES[name]
    sides = (WIDTH, HEIGHT) if orientation < 5 else (HEIGHT, WIDTH)
    views = data.draw(st.lists(draw_view(*sides), min_size=2, max_size=4))
    seeks = [build_seek(image)] if seeking else None
    turned = np.array([orientation], np.uint8)
    jobs = Jobs([image], views[0].draws, seeks, orientations=turned)
    _core.set_simd(simd)
    try:
        with decode_views(how):
            results = RenderRequest(jobs, views[0].target, views[1:]).render_all()
        assert_same(results, render_each(jobs, views))
    finally:
        _core.set_simd("auto")
    assert not any(status.any() for _, status in results)


def make_views(boxes: list[Any], count: int) -> list[View]:
    """Return a view with each box, the same for `count` images, in sizes that differ."""
    return [
        View(Draws([box] * count), Target((10 + number, 12))) for number, box in enumerate(boxes)
    ]


@pytest.mark.parametrize("how", ["never", "always"])
def test_a_box_outside_of_the_image_spoils_no_other_view(how: str) -> None:
    views = make_views([BOX, (100, 0, 40, 10), (5, 5, 50, 60), (0, 0, 0, 9)], len(IMAGES))
    jobs = Jobs(list(IMAGES.values()), views[0].draws)
    for first in (views, views[1:] + views[:1]):
        with decode_views(how):
            results = RenderRequest(
                replace(jobs, draws=first[0].draws), first[0].target, first[1:]
            ).render_all()
        assert_same(results, render_each(jobs, first))
        for view, (out, status) in zip(first, results, strict=True):
            bad = view in (views[1], views[3])
            assert set(status.tolist()) == {Status.BAD_BOX if bad else Status.OK}
            assert out.any() != bad


@pytest.mark.parametrize("how", ["never", "always"])
def test_an_image_that_does_not_decode_has_one_status_in_all_views(how: str) -> None:
    sound, png = IMAGES["4:2:0"], IMAGES["PNG"]
    images = [sound[: len(sound) // 2], b"", png[: len(png) // 2], sound]
    views = make_views([(0, 0, 8, 8), BOX, (0, 80, 10, 10)], 4)
    with decode_views(how):
        results = RenderRequest(
            Jobs(images, views[0].draws), views[0].target, views[1:]
        ).render_all()
    for out, status in results:
        assert status.tolist() == results[0][1].tolist()
        assert np.all(status[:3]) and not status[3]
        assert not out[:3].any() and out[3].any()


def test_damage_where_no_view_looks_is_not_found_by_decoding_at_once() -> None:
    image = bytearray(encode(400, 96, 1, quality=95, restart_marker_rows=1))
    image[-len(image) // 6 : -len(image) // 7] = b"\xff\xd9" * 9
    views = make_views([(0, 0, 90, 40), (0, 60, 90, 40)], 1)
    jobs = Jobs([bytes(image)], views[0].draws)
    results = []
    for how in ("never", "always"):
        with decode_views(how):
            results.append(RenderRequest(jobs, views[0].target, views[1:]).render_all())
    assert_same(*results)


def test_checksums_sizes_and_arenas_hold_for_all_views() -> None:
    image = IMAGES["4:2:0"]
    sums = [_core.crc32c(image), 5, _core.crc32c(image)]
    sizes = [[HEIGHT, WIDTH], [HEIGHT, WIDTH], [WIDTH, HEIGHT]]
    views = make_views([BOX, (3, 4, 50, 50)], 3)
    jobs = Jobs([image] * 3, views[0].draws, None, np.array(sums, np.uint32), np.array(sizes))
    for _, status in RenderRequest(jobs, views[0].target, views[1:]).render_all():
        assert status.tolist() == [Status.OK, Status.CHANGED, Status.OTHER_SIZE]


def test_a_crew_renders_all_views_into_the_memory_that_is_given() -> None:
    views = make_views([BOX, (3, 4, 50, 50), (60, 20, 70, 70)], len(IMAGES))
    expected = render_each(jobs := Jobs(list(IMAGES.values()), views[0].draws), views)
    outs = [np.empty_like(out) for out, _ in expected]
    given = [
        View(view.draws, replace(view.target, out=out))
        for view, out in zip(views, outs, strict=True)
    ]
    request = RenderRequest(jobs, given[0].target, given[1:])
    results = request.begin(Crew(2)).finish_all()
    assert_same(results, expected)
    assert all(result is out for (result, _), out in zip(results, outs, strict=True))
    assert np.array_equal(request.begin(Crew(1)).finish()[0], expected[0][0])


def test_other_images_are_decoded_once_for_all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.render import fallback

    calls: list[Any] = []
    decode = fallback.decode_with_pillow
    monkeypatch.setattr(
        fallback, "decode_with_pillow", lambda *given: calls.append(given) or decode(*given)
    )
    views = make_views([BOX, (3, 4, 50, 50), (60, 20, 70, 70)], 1)
    jobs = Jobs([IMAGES["GIF"]], views[0].draws)
    RenderRequest(jobs, views[0].target, views[1:]).render_all()
    assert len(calls) == 1


def test_a_view_needs_a_box_for_every_image() -> None:
    view = View(Draws([BOX]), Target((9, 9)))
    with pytest.raises(ValueError, match="a view has 1 boxes, but there are 2 images"):
        RenderRequest(Jobs([IMAGES["grey"]] * 2, Draws([BOX] * 2)), Target((8, 8)), [view])


def test_the_way_of_decoding_views_has_a_name() -> None:
    with pytest.raises(ValueError, match="'auto', 'never' or 'always'"):
        _core.set_sharing("sometimes")
