"""`headrace info`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from headrace.cli.dataset_summary import (
    describe_classes,
    describe_dataset,
    format_classes,
    name_types,
    print_summary,
)
from headrace.cli.describe_videos import describe_video_files
from headrace.cli.open_path import SourceView, open_samples
from headrace.cli.recoding import find_recoding, measure_recodable
from headrace.cli.source_options import AnyPath, LayoutOption
from headrace.cli.terminal import AsJson
from headrace.errors import SourceError
from headrace.formats.video_files import VideoFiles
from headrace.image_header import RECODABLE
from headrace.pack.describe_images import describe_sample
from headrace.store.index_schema import DAMAGED

_SAMPLED = 100


def info(path: AnyPath, layout: LayoutOption = None, as_json: AsJson = False) -> None:
    """Show what a dataset contains."""
    samples = open_samples(path, layout.value if layout else None)
    if isinstance(samples, SourceView):
        content, classes = _describe_source(samples), format_classes(samples.classes)
    else:
        content, classes = describe_dataset(samples), describe_classes(samples)
        content["recoding"] = find_recoding(samples)
    print_summary(path, content, classes, as_json)


def _describe_source(view: SourceView) -> dict[str, Any]:
    """Describe a source without reading all of it: fields and kinds come from a few samples."""
    rows = sorted({i * len(view) // _SAMPLED for i in range(_SAMPLED)})
    if isinstance(view.source, VideoFiles):
        return _describe_video_files(view, view.source, rows)
    fields: set[str] = set()
    kinds: Counter[str] = Counter()
    recodable: list[bytes] = []
    for row in rows:
        try:
            sample, images = describe_sample(view[row])
        except SourceError:
            kinds[DAMAGED] += 1
            continue
        fields |= set(sample)
        kinds.update(note.header.kind for note in images.values())
        recodable += [sample[n] for n, note in images.items() if note.header.kind in RECODABLE]
    content = _describe_view(view, sorted(fields), kinds, rows)
    return {**content, "recoding": measure_recodable(kinds, recodable)}


def _describe_video_files(view: SourceView, source: VideoFiles, rows: list[int]) -> dict[str, Any]:
    """Describe video files by their headers: to decode them takes as long as to pack them."""
    kinds = Counter(source.read_header(row).codec or DAMAGED for row in rows)
    content = _describe_view(view, ["mjpg"], kinds, rows)
    return {**content, **describe_video_files(source, rows)}


def _describe_view(
    view: SourceView, fields: list[str], kinds: Counter[str], rows: list[int]
) -> dict[str, Any]:
    return {
        "format": view.format,
        "samples": len(view),
        "bytes": int(view.source.sizes.sum()),
        "fields": fields,
        "columns": name_types(view.source.columns, view.source.columns.names),
        "classes": None if view.classes is None else list(view.classes),
        "looked_at": len(rows),
        "kinds": dict(sorted(kinds.items())),
        "ignored": list(view.source.ignored),
    }
