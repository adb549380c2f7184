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
from headrace.cli.describe_kinds import list_kinds
from headrace.cli.describe_videos import describe_video_files
from headrace.cli.open_path import SourceView, open_samples
from headrace.cli.recoding import find_recoding, measure_recodable
from headrace.cli.source_options import (
    Annotations,
    AnyPath,
    Fields,
    LayoutOption,
    parse_fields,
)
from headrace.cli.terminal import AsJson
from headrace.errors import SourceError
from headrace.formats.source import state_kinds
from headrace.formats.video_files import VideoFiles
from headrace.image_header import RECODABLE
from headrace.kinds import Kind
from headrace.pack.describe_images import describe_sample
from headrace.store.field_kinds import join_kinds
from headrace.store.index_schema import DAMAGED, ArrayNote, Described

_SAMPLED = 100


def info(
    path: AnyPath,
    layout: LayoutOption = None,
    field: Fields = None,
    annotations: Annotations = None,
    as_json: AsJson = False,
) -> None:
    """Show what a dataset contains."""
    samples = open_samples(
        path,
        layout.value if layout else None,
        fields=parse_fields(field),
        annotations=annotations,
    )
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
    field_kinds: dict[str, Kind | None] = {}
    for row in rows:
        try:
            described = describe_sample(view[row])
        except SourceError:
            kinds[DAMAGED] += 1
            continue
        fields |= set(described.sample)
        join_kinds(field_kinds, described.field_kinds)
        images = list_encoded(described)
        kinds.update(images.values())
        recodable += [described.sample[n] for n, kind in images.items() if kind in RECODABLE]
    known = fields.union(view.source.columns.names)
    field_kinds |= {n: kind for n, kind in state_kinds(view.source).items() if n in known}
    content = _describe_view(view, sorted(fields), kinds, rows)
    content["field_kinds"] = list_kinds(field_kinds)
    return {**content, "recoding": measure_recodable(kinds, recodable)}


def list_encoded(described: Described) -> dict[str, str]:
    """Return the kind of each image and video of a sample."""
    notes = described.notes.items()
    return {name: note.header.kind for name, note in notes if not isinstance(note, ArrayNote)}


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
