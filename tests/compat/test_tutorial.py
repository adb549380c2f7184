"""Every code block of the Efficient DataFlow tutorial runs with only its import line changed.

The blocks are taken from the tutorial's own text. What they leave open is given to them, as it
would have to be with the original: where the data lies (`/path/to/…`, `db`, addresses), NumPy and
OpenCV, `lots_of_augmentors`, `MyLargeData`. Two blocks are not programs, and the test says which.
"""

from __future__ import annotations

import multiprocessing
import re
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from images import encode
from stored import DATA

cv2 = pytest.importorskip("cv2")
cv2.setNumThreads(0)  # its threads do not survive a fork: a child would wait for them
pytest.importorskip("lmdb")
pytest.importorskip("zmq")

from headrace.compat import tensorpack

IMPORT = "from tensorpack.dataflow import *"
OURS = "from headrace.compat.tensorpack import *"
CLASSES, PER_CLASS = 4, 66  # 264 images: one batch of 256
NAMES = [
    "basic",
    "pseudo_reader",
    "resize",
    "runner",
    "thread_map",
    "thread_map_files",
    "save",
    "load",
    "local_shuffle",
    "augment",
    "process_map",
    "sender_1",
    "sender_2",
    "sender_3",
    "receiver",
]


def run(text: str, space: dict[str, Any]) -> None:
    exec(text, space)  # noqa: S102 - running the tutorial is what this file is for


def read_blocks() -> dict[str, str]:
    """Return the fenced blocks of the tutorial, without the directives that mark lines as important."""
    text = (DATA / "efficient-dataflow.md").read_text()
    blocks = []
    for fence in re.findall(r"```[a-z_]*\n(.*?)```", text, re.DOTALL):
        lines = [x for x in fence.splitlines() if not re.match(r"\s*(\.\. code|:emph)", x)]
        blocks.append(textwrap.dedent("\n".join(lines).expandtabs(4)).strip("\n"))
    return dict(zip(NAMES, blocks, strict=True))


@pytest.fixture(scope="module")
def blocks() -> dict[str, str]:
    return read_blocks()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree like ILSVRC12: train/<synset>/<file>.JPEG, images of various sizes."""
    root = tmp_path_factory.mktemp("path")
    for label in range(CLASSES):
        folder = root / "ILSVRC12" / "train" / f"n0{label:07}"
        folder.mkdir(parents=True)
        for number in range(PER_CLASS):
            jpeg = encode(32 + number % 5, 40 + label, seed=label * PER_CLASS + number)
            (folder / f"n0{label:07}_{number}.JPEG").write_bytes(jpeg)
    (root / "ILSVRC").symlink_to(root / "ILSVRC12")
    return root


def run_block(block: str, root: Path, **given: Any) -> dict[str, Any]:
    """Run a block with its import line changed, in the surroundings that it takes for granted."""
    space: dict[str, Any] = {"np": np, "cv2": cv2, "lots_of_augmentors": make_augmentors()}
    run(OURS, space)
    space |= given
    run(block.replace(IMPORT, OURS).replace("/path/to", str(root)), space)
    return space


def make_augmentors() -> list[Any]:
    """The augmentors of the ResNet example, on a small image."""
    aug = tensorpack.imgaug
    return [
        aug.GoogleNetRandomCropAndResize(target_shape=24),
        aug.RandomOrderAug(
            [
                aug.BrightnessScale((0.6, 1.4)),
                aug.Contrast((0.6, 1.4), rgb=False),
                aug.Saturation(0.4, rgb=False),
                aug.Lighting(0.1, eigval=[0.2175, 0.0188, 0.0045], eigvec=np.eye(3).tolist()),
            ]
        ),
        aug.Flip(horiz=True),
    ]


@pytest.fixture(scope="module")
def saved(blocks: dict[str, str], root: Path) -> Path:
    """The LMDB that the tutorial's own block writes."""
    run_block(blocks["save"], root)
    return root / "ILSVRC-train.lmdb"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


def check_batch(ds: Any, shape: tuple[int, ...]) -> None:
    batches = list(ds)
    assert [images.shape for images, _ in batches] == [shape]
    assert batches[0][1].dtype == np.int32 and set(batches[0][1]) <= set(range(CLASSES))


def test_basic(blocks: dict[str, str], root: Path) -> None:
    space = run_block(blocks["basic"], root)
    (batch,) = space["ds1"]
    assert len(batch[0]) == 256 and batch[0][0].dtype == np.uint8 and batch[0][0].shape[2] == 3


def test_the_reader_is_pseudo_code_in_any_python(blocks: dict[str, str]) -> None:
    with pytest.raises(SyntaxError, match="'yield' outside function"):
        run(blocks["pseudo_reader"], {})
    body = "def read():\n" + textwrap.indent(blocks["pseudo_reader"], "  ")
    space: dict[str, Any] = {"np": np, "cv2": cv2, "filelist": [("a", 0)]}
    run(body, space)
    with pytest.raises(TypeError, match="NoneType"):  # np.random.shuffle returns None
        next(space["read"]())


def test_resize(blocks: dict[str, str], root: Path) -> None:
    check_batch(run_block(blocks["resize"], root)["ds"], (256, 224, 224, 3))


def test_runner(blocks: dict[str, str], root: Path) -> None:
    space = run_block(blocks["runner"], root)
    check_batch(space["ds"], (256, 24, 24, 3))
    assert sum(1 for _ in space["ds"].flow.unbatch()) == 256


def test_thread_map(blocks: dict[str, str], root: Path) -> None:
    check_batch(run_block(blocks["thread_map"], root)["ds"], (256, 24, 24, 3))


def test_thread_map_with_the_line_uncommented(blocks: dict[str, str], root: Path) -> None:
    block = blocks["thread_map"].replace("# ds1 =", "ds1 =")
    check_batch(run_block(block, root)["ds"], (256, 24, 24, 3))


def test_thread_map_files(blocks: dict[str, str], root: Path) -> None:
    check_batch(run_block(blocks["thread_map_files"], root)["ds"], (256, 24, 24, 3))


def test_save_keeps_every_file_and_label_once(saved: Path, root: Path) -> None:
    points = list(tensorpack.LMDBSerializer.load(str(saved), shuffle=False))
    files = sorted((root / "ILSVRC12" / "train").rglob("*.JPEG"))
    wanted = sorted((file.read_bytes(), int(file.parent.name[1:])) for file in files)
    assert sorted((jpeg.tobytes(), label) for jpeg, label in points) == wanted


def test_load(blocks: dict[str, str], root: Path, saved: Path) -> None:
    (batch,) = run_block(blocks["load"], root)["ds"]
    assert len(batch[0]) == 256 and bytes(batch[0][0][:2]) == b"\xff\xd8"


def test_local_shuffle(blocks: dict[str, str], root: Path, saved: Path) -> None:
    ds = run_block(blocks["local_shuffle"], root)["ds"]
    first, second = [labels for _, labels in ds], [labels for _, labels in ds]
    assert len(first[0]) == 256 and first != second


def test_augment(blocks: dict[str, str], root: Path, saved: Path) -> None:
    check_batch(run_block(blocks["augment"], root, db=str(saved))["ds"], (256, 24, 24, 3))


def test_process_map_is_not_python_and_runs_when_its_three_slips_are_mended(
    blocks: dict[str, str], root: Path, saved: Path
) -> None:
    block = blocks["process_map"]
    with pytest.raises(SyntaxError, match="positional argument follows keyword"):
        run_block(block, root, db=str(saved))
    mended = block.replace("num_proc=25, f)", "num_proc=3, map_func=f)")
    mended = mended.replace("def f(jpeg_str, label):", "def f(dp):\n    x, label = dp")
    augmentors = tensorpack.AugmentorList(make_augmentors())
    space = run_block(mended, root, db=str(saved), lots_of_augmentors=augmentors)
    check_batch(space["ds"], (256, 24, 24, 3))


class MyLargeData(tensorpack.RNGDataFlow):
    """The tutorial's stand-in for whatever one has."""

    def __iter__(self) -> Iterator[Any]:
        for number in range(50):
            yield [self.rng.rand(16, 16).astype("float32"), number]


def run_sender(block: str) -> None:
    space: dict[str, Any] = {"MyLargeData": MyLargeData}
    run(OURS, space)
    run(block, space)


def test_distributed(
    blocks: dict[str, str],
    root: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    local = f"ipc://@headrace-test-{port}"

    def place(block: str) -> str:
        block = block.replace("1.2.3.4", "127.0.0.1").replace("8877", port)
        return block.replace("ipc://@my-socket", local)

    context = multiprocessing.get_context("fork")
    names = ("sender_1", "sender_2", "sender_3")
    texts = [place(blocks[name]) for name in names]
    senders = [context.Process(target=run_sender, args=(text,), daemon=True) for text in texts]
    for sender in senders:
        sender.start()
    try:
        with pytest.warns(UserWarning, match="anyone who can reach this address"):
            run_block(place(blocks["receiver"]), root)
    finally:
        for sender in senders:  # they never return, as in the original
            sender.terminate()
            sender.join()
    assert capfd.readouterr().out.endswith(" 5000\n")  # items that were measured
