"""Seed 000's dataset over LMDB, in all the ways that it and its forks have written."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from headrace import open_source
from headrace.compat.efficient_pytorch import ImageFolderLMDB
from headrace.torch import Loader, fast_collate
from headrace.transforms import Resize

WRITERS = ["", "-msgpack", "-pa0.11", "-pa1.0", "-pickle"]


def database(shared: Path, writer: str) -> Path:
    (path,) = (shared / "fixtures" / f"efficient-pytorch{writer}").glob("*.lmdb")
    return path


def shrink(image: Image.Image) -> Image.Image:
    return image.resize((16, 16))


@pytest.mark.parametrize("writer", WRITERS)
def test_every_image_and_label_is_what_was_written(shared: Path, writer: str) -> None:
    path = database(shared, writer)
    expected = json.loads((path.parent / "expected.json").read_text())["samples"]
    dataset, source = ImageFolderLMDB(path), open_source(path)
    assert len(dataset) == len(expected)
    for i, sample in enumerate(expected):
        image, target = dataset[i]
        assert image.mode == "RGB" and target == sample["label"]
        (data,) = source.read(i).fields.values()
        assert hashlib.sha256(data).hexdigest() == sample["sha256"]
        assert image.tobytes() == Image.open(io.BytesIO(data)).convert("RGB").tobytes()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_torchs_dataloader_takes_it(shared: Path, method: str) -> None:
    dataset = ImageFolderLMDB(database(shared, ""), shrink, str)
    loader: Any = torch.utils.data.DataLoader(
        dataset, 16, num_workers=1, multiprocessing_context=method, collate_fn=collate
    )
    images, targets = zip(*loader)
    assert sum(map(len, images)) == len(dataset)
    assert all(isinstance(target, str) for batch in targets for target in batch)


def collate(samples: list[Any]) -> tuple[Any, list[str]]:
    return fast_collate([(image, 0) for image, _ in samples])[0], [t for _, t in samples]


def test_negative_numbers_count_from_the_end_and_others_end_iteration(shared: Path) -> None:
    dataset = ImageFolderLMDB(database(shared, ""))
    assert dataset[-1][1] == dataset[len(dataset) - 1][1]
    with pytest.raises(IndexError):
        dataset[len(dataset)]


def test_it_crosses_to_other_processes(shared: Path) -> None:
    dataset = pickle.loads(pickle.dumps(ImageFolderLMDB(database(shared, ""))))
    assert dataset[3][1] == ImageFolderLMDB(database(shared, ""))[3][1]


def test_a_loader_reads_the_same_file(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    path = database(shared, "")
    dataset = ImageFolderLMDB(path)
    for _ in range(2):
        loader = Loader(path, 16, transform=[Resize((20, 20))], fields=("key", "image", "label"))
        found = {k: (i, t) for keys, i_, t_ in loader for k, i, t in zip(keys, i_, t_)}
        assert len(found) == len(dataset)
        for number in range(len(dataset)):
            image, label = found[str(number)]
            pixels = torch.tensor(list(dataset[number][0].resize((20, 20), 2).tobytes()))
            assert int(label) == dataset[number][1]
            assert torch.equal(image.permute(1, 2, 0).flatten().long(), pixels)
    assert len(list(tmp_path.glob("*/headrace.json"))) == 1
