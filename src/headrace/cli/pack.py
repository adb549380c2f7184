"""`headrace pack`."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.dataset_summary import describe_classes, describe_dataset, print_summary
from headrace.cli.progress_bar import progress_bar
from headrace.cli.source_options import (
    MAX_FILE_SIZE,
    Annotations,
    Fields,
    LabelColumn,
    LayoutOption,
    MaxFileSize,
    OnError,
    PathColumn,
    parse_fields,
)
from headrace.cli.terminal import AsJson, Workers, parse_size, say
from headrace.cli.video_estimate import print_estimate
from headrace.formats.video_files import VideoFiles
from headrace.pack.class_map import read_classes
from headrace.pack.encode_arrays import Encode
from headrace.pack.estimate_videos import estimate_videos
from headrace.pack.packer import PackSummary, open_to_pack, pack_dataset
from headrace.pack.shard_plan import DEFAULT_SHARD_SIZE
from headrace.pack.shrink_images import Shrink
from headrace.pack.video_arguments import choose_video_options
from headrace.read.dataset import open_indexed
from headrace.store.rejected import NAME as REJECTED
from headrace.store.rejected import summarise_rejected


class Order(str, Enum):
    shuffled = "shuffled"
    source = "source"


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
            help="Image or video folder, listing, any other layout (see docs/reference/layouts.md), or dataset."
        ),
    ],
    dst: Annotated[Path, typer.Argument(help="Folder to create.")],
    listing: Annotated[
        Path | None,
        typer.Option(help="CSV or JSONL with path, label and columns; paths are relative to SRC."),
    ] = None,
    layout: LayoutOption = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    field: Fields = None,
    annotations: Annotations = None,
    max_file_size: MaxFileSize = MAX_FILE_SIZE,
    shard_size: Annotated[
        str,
        typer.Option(help="Size of a shard, in bytes of the source; of videos, about its own."),
    ] = f"{DEFAULT_SHARD_SIZE >> 20}MiB",
    order: Annotated[
        Order, typer.Option(help="Order of the samples in the shards.")
    ] = Order.shuffled,
    seed: Annotated[int, typer.Option(help="Seed of the shuffled order.")] = 0,
    workers: Workers = None,
    on_error: Annotated[
        OnError, typer.Option(help="Action for files that are not readable images.")
    ] = OnError.stop,
    resize_short: Annotated[
        int | None,
        typer.Option(
            min=1, help="Shrink photos and videos to this many pixels on the shorter side."
        ),
    ] = None,
    max_side: Annotated[
        int | None,
        typer.Option(
            min=1, help="Shrink photos and videos to this many pixels on the longer side."
        ),
    ] = None,
    quality: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="JPEG quality of shrunk photos, videos, and what --encode encodes. Default: 90, of arrays 95.",
        ),
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(help="Frames per second to resample video files to. Default: every frame."),
    ] = None,
    encode: Annotated[
        EncodeKind | None,
        typer.Option(
            help="Encode raw pixel arrays (default: store them as .npy), or PNG and WebP frames as jpg."
        ),
    ] = None,
    channels: Annotated[
        Channels | None,
        typer.Option(help="Channel order of the arrays that --encode encodes. Default: bgr."),
    ] = None,
    recode: Annotated[
        bool,
        typer.Option(
            "--recode",
            help="Rewrite progressive, arithmetic and non-interleaved JPEGs as baseline: same pixels, faster.",
        ),
    ] = False,
    classes: Annotated[
        Path | None,
        typer.Option(
            help="Dataset, or text file with a name per line, whose class numbers are used."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pack images and videos into tar shards with an index. Run it again to resume a pack that was stopped."""
    shrink = None
    if resize_short is not None or max_side is not None:
        shrink = Shrink(resize_short, max_side, 90 if quality is None else quality)
    encoding = _choose_encoding(encode, channels, quality)
    largest, shard = parse_size(max_file_size), parse_size(shard_size)
    source = open_to_pack(
        src,
        dst,
        video=choose_video_options(fps, shrink, quality),
        listing=listing,
        format=layout.value if layout else None,
        path_column=path_column,
        label_column=label_column,
        fields=parse_fields(field),
        annotations=annotations,
        max_file_size=largest,
    )
    if isinstance(source, VideoFiles):
        print_estimate(estimate_videos(source), workers)
    elif fps is not None:
        raise typer.BadParameter("--fps needs video files")
    elif quality is not None and shrink is None and encoding is None:
        raise typer.BadParameter("--quality needs --resize-short, --max-side, --encode, or videos")
    with progress_bar("packing") as progress:
        summary = pack_dataset(
            source,
            dst,
            max_file_size=largest,
            shard_size=shard,
            order=order.value,
            seed=seed,
            shrink=shrink,
            encode=encoding,
            recode=recode,
            classes=read_classes(classes) if classes else None,
            on_error=on_error.value,
            workers=workers,
            progress=progress,
        )
    for line in summarise_rejected(summary.rejected, f"{summary.path / REJECTED} lists all"):
        say(f"rejected {line}")
    dataset = open_indexed(summary.path)
    content = {**describe_dataset(dataset), **_describe_work(summary)}
    rows = [("time", _rates(summary))]
    if summary.resumed:
        rows.append(("resumed", f"{summary.resumed} shards existed already"))
    if summary.rejected:
        rows.append(("rejected", f"{len(summary.rejected)}, listed in {REJECTED}"))
    print_summary(summary.path, content, describe_classes(dataset), as_json, rows)


def _choose_encoding(
    kind: EncodeKind | None, channels: Channels | None, quality: int | None
) -> Encode | None:
    if kind is None:
        if channels is not None:
            raise typer.BadParameter("--channels needs --encode")
        return None
    encoding = Encode(kind.value, (channels or Channels.bgr).value)
    return encoding if quality is None else replace(encoding, quality=quality)


def _describe_work(summary: PackSummary) -> dict[str, object]:
    return {
        "source_bytes": summary.source_bytes,
        "rejected": [{"name": name, "reason": reason} for name, reason in summary.rejected],
        "ignored": list(summary.ignored),
        "resumed_shards": summary.resumed,
        "seconds": round(summary.seconds, 3),
    }


def _rates(summary: PackSummary) -> str:
    seconds = max(summary.seconds, 1e-3)
    samples, megabytes = summary.samples / seconds, summary.source_bytes / seconds / 1e6
    return f"{summary.seconds:.1f} s, {samples:.0f} samples/s, {megabytes:.0f} MB/s"
