"""What the exported layouts share: which fields are written, and the names of classes and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import PackError
from headrace.sample import Sample
from headrace.store.safe_paths import path_inside
from headrace.store.tar_members import FRAMES, shard_fields

Classes = Sequence[str] | None
_LABEL_DIGITS = 5  # so that numbers in the place of class names sort as they count


def data_fields(sample: Sample) -> dict[str, bytes]:
    """Return the fields without those made of the label or the frame sizes; `json` has the columns."""
    return {n: d for n, d in shard_fields(sample).items() if n != "cls" and not n.endswith(FRAMES)}


def class_name(label: int, classes: Classes) -> str:
    if classes is not None and 0 <= label < len(classes):
        return classes[label]
    return f"{label:0{_LABEL_DIGITS}d}"


def check_classes(classes: Classes) -> None:
    """Raise PackError if two classes have the same name."""
    twice = [name for name, count in Counter(classes or ()).items() if count > 1]
    if twice:
        raise PackError(
            f"two classes are called {twice[0]!r}, and this layout tells classes apart by name"
        )


def strip_padding(frame: bytes) -> bytes:
    """Return a frame without the zeros that GulpIO pads it with."""
    bare = frame.rstrip(b"\0")
    return bare if bare.endswith(b"\xff\xd9") and len(frame) - len(bare) < 4 else frame


def write_new(root: Path, name: str, data: bytes) -> None:
    """Write a new file below `root`. PackError if the name is taken or leads out of it."""
    path = path_inside(root, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as file:
            file.write(data)
    except FileExistsError:
        raise PackError(f"{path.name}: two samples would have this name") from None
