"""Video files as JPEG frames: counts, orientation, colours, times, parts, and files that break."""

from __future__ import annotations

import io
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from formats.making_videos import draw_frames, write_video
from headrace.errors import SourceError
from headrace.formats.codecs.jpeg_frames import encode_frame, find_turn, make_picture
from headrace.formats.codecs.video_file import open_video, read_fraction, read_video_header
from headrace.formats.codecs.video_frames import JpegVideo, Span, read_video
from headrace.formats.video_options import VideoOptions

ODD = {  # frames, width and height as shown, frames per second
    "av1_video.mkv": (125, 640, 360, 25),
    "bt601_full_range.mp4": (60, 320, 240, 30),
    "bt601_limited_range.mp4": (60, 320, 240, 30),
    "bt709_full_range.mp4": (30, 1280, 720, 30),
    "discard_first_keyframe.mp4": (25, 64, 64, 25),
    "h264_10bits.mp4": (30, 200, 200, 30),
    "h265_video.mp4": (10, 128, 128, 10),
    "nasa_13013_rotated.mp4": (17, 270, 480, 30000 / 1001),
    "test_non_zero_start.mp4": (12, 200, 112, 30),
    "testsrc2_444_8bit_hevc.mp4": (25, 321, 241, 25),
    "testsrc2_mpeg4.mp4": (1, 64, 64, 25),
    "testsrc2_odd_height_and_width_444.mp4": (25, 321, 241, 25),
    "testsrc2_odd_width_mpeg2.mp4": (10, 121, 80, 25),
    "testsrc2_vp8.webm": (30, 1280, 720, 30),
    "testsrc2_vp9.webm": (30, 1280, 720, 30),
}


WHOLE = Span()


def read(path: Path, span: Span = WHOLE, limit: int = 1 << 30, **options: Any) -> JpegVideo:
    fd = os.open(path, os.O_RDONLY)
    try:
        return read_video(fd, VideoOptions(**options), span, limit)
    finally:
        os.close(fd)


def decode(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def number_of(data: bytes) -> int:
    """The number that `draw_frames` painted into the background."""
    return round((np.median(decode(data)) - 16) / 7)


def numbers_of(video: JpegVideo) -> list[int]:
    return [number_of(frame) for frame in video.frames]


@pytest.mark.parametrize("name", sorted(ODD))
def test_odd_videos_have_all_their_frames_upright(beside: Path, name: str) -> None:
    count, width, height, fps = ODD[name]
    video = read(beside / "fixtures/odd-videos" / name)
    assert len(video.frames) == count
    assert video.fps == pytest.approx(fps)
    assert video.times is None
    for frame in (video.frames[0], video.frames[-1]):
        with Image.open(io.BytesIO(frame)) as image:
            assert (image.size, image.mode) == ((width, height), "RGB")
            image.load()


def test_every_odd_video_is_expected(beside: Path) -> None:
    files = {path.name for path in (beside / "fixtures/odd-videos").iterdir()}
    assert files - {"LICENSE", "README.txt"} == set(ODD)


def reference_rgb(frame: Any) -> np.ndarray:
    """The pixels of a frame by the formulas of BT.601 and BT.709, chroma repeated."""
    bits = frame.format.components[0].bits
    dtype, unit = (np.uint8, 1.0) if bits == 8 else (np.dtype("<u2"), 2.0 ** (bits - 8))
    planes = []
    for plane, part in zip(frame.planes, frame.format.components, strict=True):
        rows = np.frombuffer(memoryview(plane), dtype).reshape(-1, plane.line_size // dtype().itemsize if bits == 8 else plane.line_size // 2)  # fmt: skip
        values = rows[: part.height, : part.width].astype(float) / unit
        times = (-(-frame.height // part.height), -(-frame.width // part.width))
        planes.append(values.repeat(times[0], 0).repeat(times[1], 1)[: frame.height, : frame.width])
    red, blue = (0.2126, 0.0722) if frame.colorspace == 1 else (0.299, 0.114)
    if frame.color_range == 2:
        luma, cb, cr = planes[0], planes[1] - 128, planes[2] - 128
    else:
        luma = (planes[0] - 16) * 255 / 219
        cb, cr = ((plane - 128) * 255 / 224 for plane in planes[1:])
    r, b = luma + 2 * (1 - red) * cr, luma + 2 * (1 - blue) * cb
    g = (luma - red * r - blue * b) / (1 - red - blue)
    return np.rint(np.clip(np.stack([r, g, b], -1), 0, 255))


@pytest.mark.parametrize(
    "name",
    [
        "bt601_full_range.mp4",
        "bt601_limited_range.mp4",
        "bt709_full_range.mp4",
        "h264_10bits.mp4",
        "testsrc2_444_8bit_hevc.mp4",
        "testsrc2_odd_width_mpeg2.mp4",
        "test_non_zero_start.mp4",
        "av1_video.mkv",
    ],
)
def test_colours_of_odd_videos_are_within_two_levels_of_the_formulas(
    beside: Path, name: str
) -> None:
    with av.open(str(beside / "fixtures/odd-videos" / name)) as container:
        for frame in list(container.decode(video=0))[:9:4]:
            picture = make_picture(frame, VideoOptions()).convert("RGB")
            wrong = np.abs(np.asarray(picture).astype(float) - reference_rgb(frame))
            assert wrong.max() <= 2


def test_the_jpeg_is_the_picture_in_one_lossy_step(beside: Path) -> None:
    with av.open(str(beside / "fixtures/odd-videos/test_non_zero_start.mp4")) as container:
        frame = next(container.decode(video=0))
    out = io.BytesIO()
    pixels = Image.fromarray(reference_rgb(frame).astype(np.uint8))
    pixels.save(out, "JPEG", quality=90, subsampling="4:2:0")
    ours = decode(encode_frame(frame, VideoOptions(quality=90)))
    assert np.abs(ours - decode(out.getvalue())).max() <= 2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.mp4", {}),
        ("a.mkv", {"codec": "mpeg4"}),
        ("a.avi", {"codec": "mpeg4"}),
        ("a.webm", {"codec": "libvpx"}),
        ("a.ts", {}),
        ("a.mpg", {"codec": "mpeg2video"}),
        ("a.mov", {"pix_fmt": "yuv420p10le"}),
        ("a.m4v", {"pix_fmt": "yuv444p"}),
        ("b.mp4", {"pix_fmt": "yuv422p"}),
        ("c.mkv", {"codec": "ffv1", "pix_fmt": "gray"}),
        ("d.mkv", {"codec": "ffv1", "pix_fmt": "bgr0"}),
        ("e.mkv", {"codec": "ffv1", "pix_fmt": "yuv420p16le"}),
        ("f.mp4", {"colour": (1, 2)}),
        ("g.mp4", {"colour": (1, 1)}),
        ("h.mp4", {"colour": (5, 2)}),
    ],
)
def test_every_container_and_pixel_format_gives_the_pictures_that_were_encoded(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    frames = draw_frames(12)
    if options.get("pix_fmt") == "gray":
        frames = [frame[:, :, :1].repeat(3, 2) for frame in frames]
    video = read(write_video(tmp_path / name, frames, **options))
    assert numbers_of(video) == list(range(12))
    assert video.fps == 25
    assert video.times is None
    if options.get("pix_fmt") != "gray":
        colour = decode(video.frames[0])[7:9, 3:5].mean((0, 1))
        assert np.abs(colour - frames[0][8, 4]).max() < 30  # within the square


TURNS = {  # by the angle against the clock that PyAV reports
    90: Image.Transpose.ROTATE_90,
    -90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    -180: Image.Transpose.ROTATE_180,
}


@pytest.mark.parametrize("rotation", [90, 180, -90])
def test_a_video_is_turned_as_its_display_matrix_says(tmp_path: Path, rotation: int) -> None:
    plain = read(write_video(tmp_path / "a.mp4", draw_frames(2)), quality=100)
    path = write_video(tmp_path / "b.mp4", draw_frames(2), rotation=rotation)
    with av.open(str(path)) as container:
        turn = TURNS[next(container.decode(video=0)).rotation]
    upright = Image.fromarray(decode(plain.frames[0]).astype(np.uint8)).transpose(turn)
    found = decode(read(path, quality=100).frames[0])
    assert np.abs(np.asarray(upright).astype(int) - found).max() < 8


class Turned:
    """A frame that has nothing but a display matrix."""

    def __init__(self, a: int, b: int, c: int, d: int) -> None:
        matrix = np.array([a, b, 0, c, d, 0, 0, 0, 1 << 14], np.int32) << 16
        self.side_data = {"DISPLAYMATRIX": matrix.tobytes()}


@pytest.mark.parametrize(
    ("matrix", "turn"),
    [
        ((1, 0, 0, 1), None),
        ((-1, 0, 0, 1), Image.Transpose.FLIP_LEFT_RIGHT),
        ((1, 0, 0, -1), Image.Transpose.FLIP_TOP_BOTTOM),
        ((-1, 0, 0, -1), Image.Transpose.ROTATE_180),
        ((0, 1, 1, 0), Image.Transpose.TRANSPOSE),
        ((0, -1, -1, 0), Image.Transpose.TRANSVERSE),
        ((0, -1, 1, 0), Image.Transpose.ROTATE_90),
        ((0, 1, -1, 0), Image.Transpose.ROTATE_270),
    ],
)
def test_the_eight_display_matrices_map_pixels_as_they_say(
    matrix: tuple[int, int, int, int], turn: Image.Transpose | None
) -> None:
    """(x, y) goes to (a x + c y, b x + d y), up to a shift."""
    frame: Any = Turned(*matrix)
    assert find_turn(frame) == turn
    if turn is None:
        return
    a, b, c, d = matrix
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    moved = {(a * x + c * y, b * x + d * y): pixels[y, x] for y in range(2) for x in range(3)}
    left, top = (min(place[k] for place in moved) for k in (0, 1))
    shown = np.asarray(Image.fromarray(pixels).transpose(turn))
    assert all(shown[y - top, x - left] == value for (x, y), value in moved.items())


def test_frames_are_only_ever_made_smaller(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", draw_frames(2, 96, 64))
    for options, size in (({"short": 32}, (48, 32)), ({"longest": 33}, (33, 22)), ({"short": 99}, (96, 64))):  # fmt: skip
        with Image.open(io.BytesIO(read(path, **options).frames[0])) as image:
            assert image.size == size
    shrunk = Image.fromarray(draw_frames(1, 96, 64)[0]).resize((48, 32), Image.Resampling.BICUBIC)
    found = decode(read(path, short=32, quality=100).frames[0])
    assert np.abs(found - np.asarray(shrunk)).mean() < 3


def test_a_lower_quality_has_fewer_bytes(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", draw_frames(2))
    sizes = [sum(map(len, read(path, quality=quality).frames)) for quality in (95, 90, 50)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


def test_a_varying_rate_has_the_average_rate_and_times(tmp_path: Path) -> None:
    ticks = [7, 8, 9, 12, 13, 16, 19, 20, 27, 28]
    path = write_video(tmp_path / "a.mp4", draw_frames(10), ticks=ticks, unit=Fraction(1, 25))
    video = read(path)
    assert video.times == pytest.approx([(tick - 7) / 25 for tick in ticks])
    assert video.fps == pytest.approx(9 / (21 / 25))
    resampled = read(path, fps=25)
    shown = [max(k for k in range(10) if ticks[k] <= tick) for tick in range(7, 29)]
    assert numbers_of(resampled) == shown
    assert (resampled.fps, resampled.times) == (25, None)


@pytest.mark.parametrize("fps", [1, 5, 12, 12.5, 24, 25, 29.97, 50])
def test_resampling_takes_the_frame_that_is_shown_at_each_tick(tmp_path: Path, fps: float) -> None:
    path = write_video(tmp_path / "a.mp4", draw_frames(30))
    expected, k = [], 0
    while Fraction(k) / Fraction(str(fps)) < Fraction(30, 25):
        expected.append(int(Fraction(k) / Fraction(str(fps)) * 25))
        k += 1
    assert numbers_of(read(path, fps=fps)) == expected


def test_a_part_has_the_frames_that_begin_in_it(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", draw_frames(30))
    assert numbers_of(read(path, Span(0.4, 0.8))) == list(range(10, 20))
    assert numbers_of(read(path, Span(1.0))) == list(range(25, 30))
    assert numbers_of(read(path, Span(0.41, 0.43))) == [10]  # no frame begins in it
    assert numbers_of(read(path, Span(0.2, 1.0), fps=5)) == [5, 10, 15, 20]
    assert numbers_of(read(path, Span(1.0, 99.0))) == list(range(25, 30))
    with pytest.raises(SourceError, match="has no frames from 1.2 s on"):
        read(path, Span(1.2, 2))


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.avi"])
@pytest.mark.parametrize("start", [0, 1.96, 2.0, 3.1, 4.5])
def test_a_late_part_is_what_decoding_from_the_start_gives(
    tmp_path: Path, name: str, start: float
) -> None:
    """Also where the file is searched for a keyframe, and timestamps do not begin with zero."""
    frames = [*draw_frames(31), *draw_frames(31, seed=1)] * 2
    options = {"g": "20", "bf": "2"}
    codec = "mpeg4" if name == "a.avi" else "libx264"
    ticks = list(range(40, 40 + len(frames)))
    path = write_video(tmp_path / name, frames, ticks=ticks, options=options, codec=codec)
    whole, first = read(path).frames, -(-round(start * 100) // 4)
    assert read(path, Span(start, start + 0.4)).frames == whole[first : first + 10]


def test_frames_to_discard_at_the_start_are_not_counted(beside: Path) -> None:
    path = beside / "fixtures/odd-videos/discard_first_keyframe.mp4"
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.frames == 30
        assert sum(packet.is_discard for packet in container.demux(stream)) == 5
    assert len(read(path).frames) == 25


def test_metadata_that_is_not_utf8_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "QQQQ"
        stream: Any = container.add_stream("libx264", rate=25)
        stream.width, stream.height = 48, 32
        for pixels in draw_frames(3):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    data = path.read_bytes()
    assert data.count(b"QQQQ") == 1
    path.write_bytes(data.replace(b"QQQQ", b"\xff\xfe\xe9\x80"))
    with pytest.raises(UnicodeDecodeError):
        av.open(str(path)).close()
    assert len(read(path).frames) == 3


def test_pyav_19_with_rationals_of_its_own_and_no_metadata_errors_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Rational:
        def __init__(self, numerator: int, denominator: int) -> None:
            self.numerator, self.denominator = numerator, denominator

        def __bool__(self) -> bool:
            return self.numerator != 0

    assert read_fraction(Rational(30000, 1001)) == Fraction(30000, 1001)
    assert read_fraction(Rational(0, 1)) is None
    assert read_fraction(None) is None
    path, original = write_video(tmp_path / "a.mp4", draw_frames(3)), av.open
    monkeypatch.setattr("av.open", lambda name, *, options: original(name, options=options))
    monkeypatch.setattr("av.__version__", "19.0.2")
    assert len(read(path).frames) == 3


def test_the_number_of_decoding_threads_does_not_matter(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", draw_frames(40), options={"bf": "3"})
    with av.open(str(path)) as container:
        container.streams.video[0].thread_type = "AUTO"
        container.streams.video[0].codec_context.thread_count = 4
        frames = [encode_frame(frame, VideoOptions()) for frame in container.decode(video=0)]
    assert read(path).frames == frames


def test_a_damaged_file_names_the_frame(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", draw_frames(40), options={"g": "1", "bf": "0"})
    with av.open(str(path)) as container:
        packets = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    data = bytearray(path.read_bytes())
    start, size = packets[17]
    data[start + 4 : start + size] = b"\xff" * (size - 4)
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"^broke at frame 1[67]: \w+"):
        read(path)
    assert len(read(path, Span(0, 0.4)).frames) == 10  # the part before it is whole


@pytest.mark.parametrize("name", ["a.mkv", "a.webm", "a.avi", "a.mp4"])
def test_a_truncated_file_names_the_frame_after_its_last(tmp_path: Path, name: str) -> None:
    codec = {"a.webm": "libvpx", "a.avi": "mpeg4"}.get(name, "libx264")
    muxing = {"movflags": "faststart"} if name == "a.mp4" else {}
    path = write_video(tmp_path / name, draw_frames(60, 96, 64), codec=codec, muxing=muxing)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 7 // 10])
    with pytest.raises(SourceError, match=r"broke at frame \d+: "):
        read(path)


def test_frames_of_several_sizes_are_an_error_that_names_the_first_other_one(
    tmp_path: Path,
) -> None:
    write_video(tmp_path / "a.ts", draw_frames(12))
    write_video(tmp_path / "b.ts", draw_frames(12, 64, 48))
    (tmp_path / "c.ts").write_bytes(
        (tmp_path / "a.ts").read_bytes() + (tmp_path / "b.ts").read_bytes()
    )
    with pytest.raises(SourceError, match=r"frame 12: it has 64 x 48 pixels, .* 48 x 32; cut"):
        read(tmp_path / "c.ts")


@pytest.mark.parametrize("content", [b"", b"no video", b"\0" * 5000, b"#EXTM3U\n#EXT-X-VERSION:3\nfile.ts\n"])  # fmt: skip
def test_something_else_is_not_a_video(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.mp4").write_bytes(content)
    with pytest.raises(SourceError, match=r"not a video that can be opened|has no"):
        read(tmp_path / "a.mp4")


def test_a_list_of_other_files_is_not_followed(tmp_path: Path) -> None:
    write_video(tmp_path / "secret.mp4", draw_frames(2))
    (tmp_path / "a.mp4").write_text("ffconcat version 1.0\nfile secret.mp4\n")
    with pytest.raises(SourceError, match="not a video that can be opened"):
        read(tmp_path / "a.mp4")


def test_sound_alone_is_not_a_video(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        sound: Any = container.add_stream("aac", rate=8000)
        silence = av.AudioFrame.from_ndarray(
            np.zeros((1, 1024), np.float32), format="fltp", layout="mono"
        )
        silence.sample_rate = 8000
        container.mux(sound.encode(silence))
        container.mux(sound.encode(None))
    with pytest.raises(SourceError, match="has no video stream"):
        read(tmp_path / "a.mp4")


def test_more_bytes_than_the_limit_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", draw_frames(30))
    size = sum(map(len, read(path).frames))
    assert len(read(path, limit=size).frames) == 30
    with pytest.raises(SourceError, match=r"first \d+ frames .*--max-file-size.*--fps"):
        read(path, limit=size // 2)


def test_the_header_is_read_without_decoding(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", draw_frames(30), audio=True)
    fd = os.open(path, os.O_RDONLY)
    header = read_video_header(fd)
    with open_video(fd) as (_, stream):
        assert stream.codec_context.thread_count == 1
    os.close(fd)
    assert header[:3] == ("h264", 48, 32)
    assert (header.seconds, header.fps, header.has_audio) == (pytest.approx(1.2), 25.0, True)


@pytest.mark.parametrize(
    "options", [{"fps": 0}, {"fps": -1}, {"short": 0}, {"quality": 0}, {"quality": 101}, {"fps": float("nan")}]
)  # fmt: skip
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} is"):
        VideoOptions(**options)


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mp4", "libx264"), ("a.mkv", "mpeg4"), ("a.avi", "mpeg4"), ("a.webm", "libvpx"), ("a.ts", "libx264")],
)  # fmt: skip
def test_random_damage_gives_frames_or_a_source_error(
    tmp_path: Path, name: str, codec: str
) -> None:
    whole = write_video(tmp_path / name, draw_frames(12), codec=codec).read_bytes()
    outcomes = set()
    for seed in range(40):
        random = np.random.default_rng(seed)
        data = bytearray(whole)
        for place in random.integers(0, len(data), random.choice([1, 3, 20])):
            data[place] = random.integers(256)
        (tmp_path / name).write_bytes(data)
        try:
            video = read(tmp_path / name, limit=1 << 24, fps=random.choice([None, 10]))
            outcomes.add(len(video.frames) > 0)
        except SourceError:
            outcomes.add(False)
    assert outcomes == {True, False}


def test_a_timestamp_that_lies_far_ahead_does_not_fill_the_memory(tmp_path: Path) -> None:
    ticks = [0, 1, 2, 1 << 40]
    path = write_video(tmp_path / "a.mkv", draw_frames(4), ticks=ticks, unit=Fraction(1, 1000))
    assert len(read(path).frames) == 4
    with pytest.raises(SourceError, match="--max-file-size"):
        read(path, fps=25)
