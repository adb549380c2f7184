"""Batches reach the device one ahead. Without a GPU, the logic of the streams runs on a fake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headrace.errors import WorkerError
from headrace.render import Output
from headrace.transforms import Normalize, RandomResizedCrop

torch = pytest.importorskip("torch")

from headrace.serve import device
from headrace.torch import Loader, fast_collate, prefetch_to_device

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_floats_made_on_the_device_equal_those_of_the_core(dtype: Any, reciprocal: bool) -> None:
    output = Output(dtype, MEAN, STD, reciprocal=reciprocal)
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 1, 256).expand(1, 3, 1, 256)
    table = output.table()
    assert table is not None
    expected = torch.from_numpy(table)
    if dtype == "bfloat16":
        expected = expected.view(torch.bfloat16)
    assert torch.equal(device.make_normalizer(output)(levels)[0, :, 0], expected)


def test_only_images_in_bytes_are_normalised() -> None:
    normalize = device.make_normalizer(Output("float32", MEAN, STD))
    labels, floats = torch.arange(3), torch.rand(2, 3, 4, 4)
    assert normalize(labels) is labels and normalize(floats) is floats


def test_any_structure_of_any_loader_goes_through() -> None:
    batches = [{"image": torch.ones(2), "rest": ([torch.zeros(1)], "name", 3)} for _ in range(4)]
    found = list(prefetch_to_device(batches, "cpu"))
    assert len(found) == 4
    assert torch.equal(found[3]["image"], torch.ones(2))
    assert found[0]["rest"][1:] == ("name", 3)


def test_the_next_batch_is_in_flight_while_one_is_in_use() -> None:
    asked: list[int] = []

    def batches() -> Iterator[torch.Tensor]:
        for number in range(3):
            asked.append(number)
            yield torch.tensor(number)

    received = []
    for batch in prefetch_to_device(batches(), "cpu"):
        received.append(int(batch))
        assert asked == list(range(min(len(received) + 1, 3)))
    assert received == [0, 1, 2]


class FakeCuda:
    """Records the calls that CUDA would get, in order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.finished = False
        outer = self

        class Stream:
            def __init__(self, *_: Any) -> None:
                pass

            def wait_event(self, event: Any) -> None:
                outer.log.append("the loop's stream waits")

        class Event:
            def record(self, stream: Any) -> None:
                outer.log.append("event")

            def query(self) -> bool:
                return outer.finished

            def synchronize(self) -> None:
                outer.log.append("waited for")

        @contextmanager
        def stream(_: Any) -> Iterator[None]:
            outer.log.append("side stream")
            yield
            outer.log.append("main stream")

        patch.setattr(torch.cuda, "Stream", Stream)
        patch.setattr(torch.cuda, "Event", Event)
        patch.setattr(torch.cuda, "stream", stream)
        patch.setattr(torch.cuda, "current_stream", Stream)
        patch.setattr(torch.Tensor, "is_pinned", lambda _: True)
        patch.setattr(torch.Tensor, "record_stream", lambda *_: outer.log.append("recorded"))


def test_copies_run_on_a_stream_of_their_own_and_are_waited_for_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = FakeCuda(monkeypatch)
    copies = device._CudaCopies(torch.device("cpu"))
    started = copies.start(torch.zeros(2), lambda batch: batch)
    assert cuda.log == ["side stream", "event", "main stream"]
    cuda.log.clear()
    assert torch.equal(copies.wait(started), torch.zeros(2))
    assert cuda.log == ["the loop's stream waits", "recorded"]


def test_the_hosts_memory_is_held_until_the_copy_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    copies = device._CudaCopies(torch.device("cpu"))
    for _ in range(3):
        copies.start(torch.zeros(2), lambda batch: batch)
    assert len(copies._in_flight) == 3
    cuda.finished = True
    copies.start(torch.zeros(2), lambda batch: batch)
    assert len(copies._in_flight) == 0


def test_an_iteration_that_ends_waits_for_its_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    copies = device._CudaCopies(torch.device("cpu"))
    for limit in (1, None):
        cuda.log.clear()
        iterator = device._prefetch([torch.zeros(2)] * 3, copies, lambda batch: batch)
        for _ in islice(iterator, limit):
            pass
        iterator.close()  # type: ignore[attr-defined]
        assert cuda.log.count("waited for") == cuda.log.count("event") >= 2
        assert not copies._in_flight


def test_normalize_after_something_else_than_an_image_is_refused_on_a_device_too(
    packed: Path,
) -> None:
    steps = [RandomResizedCrop(8), lambda image: image.convert("L"), Normalize()]
    for place in ("cpu", "meta"):
        loader = Loader(packed, 4, transform=steps, num_workers=0, device=place)
        with pytest.raises(WorkerError, match="Normalize at the end needs RGB images"):
            next(iter(loader))


def test_a_loader_for_a_device_sends_bytes_and_gives_floats(packed: Path) -> None:
    loader = Loader(packed, 16, transform=[RandomResizedCrop(8), Normalize()], device="meta")
    images, labels = next(iter(loader))
    assert images.device.type == labels.device.type == "meta"
    assert images.dtype == torch.float32 and images.shape == (16, 3, 8, 8)
    assert str(loader).endswith("batches are copied to meta one ahead, and normalised there")


def test_the_state_is_what_was_received_and_not_what_was_copied_ahead(packed: Path) -> None:
    loader = Loader(packed, 16, transform=[RandomResizedCrop(8)], device="meta")
    batches = iter(loader)
    next(batches)
    assert loader.state_dict()["step"] == 1
    next(batches)
    assert loader.state_dict()["step"] == 2


def test_fast_collate_gives_bytes_channels_last_and_makes_grey_rgb() -> None:
    colours = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    grey = Image.fromarray(np.full((4, 4), 7, np.uint8))
    images, labels = fast_collate([(colours, 3), (grey, 5)])
    assert images.shape == (2, 3, 4, 4) and images.dtype == torch.uint8
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images[0], torch.from_numpy(np.array(colours)).permute(2, 0, 1))
    assert (images[1] == 7).all() and labels.tolist() == [3, 5]


def test_masks_are_not_normalised_on_a_device_either(packed: Path, torchvision: Any) -> None:
    v2 = torchvision.transforms.v2
    last = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)]

    def add_mask(image: Any) -> dict[str, Any]:
        mask = torch.full((3, 16, 16), 7, dtype=torch.uint8)
        return {"image": image, "mask": torchvision.tv_tensors.Mask(mask)}

    steps = v2.Compose([v2.RandomResizedCrop(16), add_mask, *last])
    for place in ("cpu", "meta"):
        found = next(iter(Loader(packed, 4, transform=steps, num_workers=0, device=place)))[0]
        assert (found["image"].dtype, found["mask"].dtype) == (torch.float32, torch.uint8), place


def test_fast_collate_makes_rgb_of_every_pil_image() -> None:
    colour = (200, 30, 10)
    palette = Image.new("RGB", (4, 4), colour).quantize(8)
    pictures = [palette, Image.new("RGBA", (4, 4), (*colour, 9)), Image.new("RGB", (4, 4), colour)]
    images, _ = fast_collate([(picture, 0) for picture in pictures])
    assert images.shape == (3, 3, 4, 4) and (images[:, :, 0, 0] == torch.tensor(colour)).all()


def test_fast_collate_refuses_channels_first() -> None:
    with pytest.raises(TypeError, match="leave PILToTensor out"):
        fast_collate([(torch.zeros(3, 4, 5, dtype=torch.uint8), 0)])


def test_fast_collate_refuses_floats() -> None:
    with pytest.raises(TypeError, match="leave ToTensor out"):
        fast_collate([(np.zeros((4, 4, 3), np.float32), 0)])
