"""`headrace pack` and `headrace index`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.classes import describe_classes
from headrace.cli.opening import Format
from headrace.cli.terminal import (
    AsJson,
    Workers,
    format_size,
    parse_size,
    print_json,
    print_table,
    say,
    warn_of_depth,
)
from headrace.formats.data_files import find_root
from headrace.formats.limits import DEFAULT_MAX_FILE_SIZE
from headrace.formats.names import printable
from headrace.formats.webdataset import find_tars
from headrace.pack.cut import DEFAULT_SHARD_SIZE
from headrace.pack.encode import Encode
from headrace.pack.inplace import index_dataset
from headrace.pack.packer import PackSummary, pack_dataset
from headrace.pack.progress import progress_bar
from headrace.pack.rejected import NAME as REJECTED
from headrace.pack.rejected import summarise_rejected
from headrace.pack.renumber import read_classes
from headrace.pack.shrink import Shrink
from headrace.read.dataset import Dataset, open_indexed

_SHOWN = 10
_MAX_FILE_SIZE = f"{DEFAULT_MAX_FILE_SIZE >> 30}GiB"

PathColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of a listing with paths, or file names without suffix. Default: path."
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option(help="Column of a listing with labels. Default: label.")
]
MaxFileSize = Annotated[
    str, typer.Option(help="Largest file, record or video that is read; larger ones are rejected.")
]


class Order(str, Enum):
    shuffled = "shuffled"
    source = "source"


class OnError(str, Enum):
    stop = "raise"
    skip = "skip"


class EncodeKind(str, Enum):
    png = "png"
    jpg = "jpg"


class Channels(str, Enum):
    bgr = "bgr"
    rgb = "rgb"


def pack(
    src: Annotated[
        Path,
        typer.Argument(
            help="Image folder, listing, any other layout (see docs/formats.md), or dataset."
        ),
    ],
    dst: Annotated[Path, typer.Argument(help="Folder to create.")],
    listing: Annotated[
        Path | None,
        typer.Option(help="CSV or JSONL with path, label and columns; paths are relative to SRC."),
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Layout of SRC. Detected automatically if omitted.")
    ] = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    max_file_size: MaxFileSize = _MAX_FILE_SIZE,
    shard_size: Annotated[
        str, typer.Option(help="Size of a shard, counted in bytes of the source.")
    ] = f"{DEFAULT_SHARD_SIZE >> 20}MiB",
    order: Annotated[
        Order, typer.Option(help="Order of the samples in the shards.")
    ] = Order.shuffled,
    seed: Annotated[int, typer.Option(help="Seed of the shuffled order.")] = 0,
    workers: Workers = None,
    on_error: Annotated[
        OnError, typer.Option(help="What to do with files that are not readable images.")
    ] = OnError.stop,
    resize_short: Annotated[
        int | None,
        typer.Option(min=1, help="Shrink photos to this many pixels on the shorter side."),
    ] = None,
    max_side: Annotated[
        int | None,
        typer.Option(min=1, help="Shrink photos to this many pixels on the longer side."),
    ] = None,
    quality: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="JPEG quality of shrunk images. Default: 90."),
    ] = None,
    encode: Annotated[
        EncodeKind | None,
        typer.Option(help="Encode raw pixel arrays. Default: store them as .npy."),
    ] = None,
    channels: Annotated[
        Channels | None,
        typer.Option(help="Channel order of the arrays that --encode encodes. Default: bgr."),
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Option(
            help="Dataset, or text file with a name per line, whose class numbers are used."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pack images into tar shards with an index. Run it again to resume a pack that was stopped."""
    shrink = None
    if resize_short is not None or max_side is not None:
        shrink = Shrink(resize_short, max_side, 90 if quality is None else quality)
    elif quality is not None:
        raise typer.BadParameter("--quality needs --resize-short or --max-side")
    encoding = None
    if encode is not None:
        encoding = Encode(encode.value, (channels or Channels.bgr).value)
    elif channels is not None:
        raise typer.BadParameter("--channels needs --encode")
    with progress_bar("packing") as watcher:
        summary = pack_dataset(
            src,
            dst,
            listing=listing,
            format=format.value if format else None,
            path_column=path_column,
            label_column=label_column,
            max_file_size=parse_size(max_file_size),
            shard_size=parse_size(shard_size),
            order=order.value,
            seed=seed,
            shrink=shrink,
            encode=encoding,
            classes=read_classes(classes) if classes else None,
            on_error=on_error.value,
            workers=workers,
            watcher=watcher,
        )
    _report_rejected(summary)
    warn_of_depth(summary.kinds)
    if as_json:
        print_json(_summary_json(summary, open_indexed(summary.path)))
    else:
        _print_summary(summary, open_indexed(summary.path))


def _report_rejected(summary: PackSummary) -> None:
    for line in summarise_rejected(summary.rejected, f"{summary.path / REJECTED} lists all"):
        say(f"rejected {line}")
    if summary.ignored:
        shown = ", ".join(printable(name) for name in summary.ignored[:_SHOWN])
        more = ", ..." if len(summary.ignored) > _SHOWN else ""
        say(f"ignored {len(summary.ignored)}, not part of the dataset: {shown}{more}")


def _summary_json(summary: PackSummary, dataset: Dataset) -> dict[str, object]:
    return {
        "path": str(summary.path),
        "samples": summary.samples,
        "shards": summary.shards,
        "bytes": summary.bytes,
        "source_bytes": summary.source_bytes,
        "classes": dataset.classes,
        "kinds": summary.kinds,
        "rejected": [{"name": name, "reason": reason} for name, reason in summary.rejected],
        "ignored": list(summary.ignored),
        "resumed_shards": summary.resumed,
        "seconds": round(summary.seconds, 3),
    }


def _print_summary(summary: PackSummary, dataset: Dataset) -> None:
    rows = [
        ("samples", f"{summary.samples}"),
        ("shards", f"{summary.shards}, {format_size(summary.bytes)}"),
        ("classes", describe_classes(dataset)),
        ("kinds", ", ".join(f"{count} {kind}" for kind, count in summary.kinds.items())),
        ("time", _rates(summary)),
    ]
    if summary.resumed:
        rows.append(("resumed", f"{summary.resumed} shards were there already"))
    if summary.rejected:
        rows.append(("rejected", f"{len(summary.rejected)}, listed in {REJECTED}"))
    print_table(str(summary.path), rows)


def _rates(summary: PackSummary) -> str:
    seconds = max(summary.seconds, 1e-3)
    samples, megabytes = summary.samples / seconds, summary.source_bytes / seconds / 1e6
    return f"{summary.seconds:.1f} s, {samples:.0f} samples/s, {megabytes:.0f} MB/s"


def _find_place(path: Path) -> Path:
    """Return where index and manifest are if they lie beside the data."""
    if path.exists():
        return path if path.is_dir() else path.parent
    return find_root(find_tars(path))


def index(
    path: Annotated[
        Path,
        typer.Argument(
            help="WebDataset tars, a gulp directory, TFRecords, an LMDB database, an image folder or a listing."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for index and manifest. Default: beside the data.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Layout of PATH. Detected automatically if omitted.")
    ] = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    max_file_size: MaxFileSize = _MAX_FILE_SIZE,
    on_error: Annotated[
        OnError, typer.Option(help="What to do with samples that cannot be read.")
    ] = OnError.stop,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Index existing data in place, without copying it."""
    with progress_bar("indexing") as watcher:
        manifest = index_dataset(
            path,
            format=format.value if format else None,
            path_column=path_column,
            label_column=label_column,
            max_file_size=parse_size(max_file_size),
            out=out,
            on_error=on_error.value,
            workers=workers,
            watcher=watcher,
        )
    warn_of_depth(manifest.kinds)
    target = out if out is not None else _find_place(path)
    if as_json:
        print_json(
            {
                "path": str(target),
                "samples": manifest.samples,
                "shards": len(manifest.shards),
                "bytes": manifest.bytes,
                "fields": list(manifest.fields),
                "classes": manifest.classes,
                "kinds": dict(manifest.kinds),
            }
        )
    else:
        rows = [
            ("samples", f"{manifest.samples}"),
            ("shards", f"{len(manifest.shards)}, {format_size(manifest.bytes)}"),
            ("fields", ", ".join(manifest.fields)),
            ("classes", describe_classes(open_indexed(target))),
        ]
        print_table(str(target), rows)
