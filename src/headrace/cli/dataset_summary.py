"""Describes a dataset, for `headrace info`, `index` and `pack`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.cli.describe_kinds import format_column, format_fields, list_kinds
from headrace.cli.describe_videos import describe_videos, format_videos
from headrace.cli.print_table import print_table
from headrace.cli.recoding import describe_recoding
from headrace.cli.terminal import format_size, print_json, warn_of_depth
from headrace.image_header import describe_turned
from headrace.read.dataset import Dataset
from headrace.sample import is_image_field
from headrace.store.index_schema import LABEL, field_names, user_columns
from headrace.store.keys import printable

_CLASSES = 8
_NAMES = 10


def describe_dataset(dataset: Dataset) -> dict[str, Any]:
    """Return the content of a dataset, for JSON."""
    manifest, schema = dataset.manifest, dataset.index.schema
    return {
        "samples": manifest.samples,
        "shards": len(manifest.shards),
        "bytes": manifest.bytes,
        "fields": list(manifest.fields),
        "columns": name_types(schema, user_columns(schema)),
        "classes": None if manifest.classes is None else list(manifest.classes),
        "kinds": dict(manifest.kinds),
        "field_kinds": list_kinds(manifest.field_kinds),
        "turned": count_turned(dataset.index),
        "recoded": count_recoded(dataset.index),
        **describe_videos(dataset.index),
    }


def count_turned(index: pa.Table) -> int:
    """Return how many images are stored turned or mirrored."""
    fields = filter(is_image_field, field_names(index.schema))
    return sum(int(pc.sum(pc.greater(index[f"{n}.orientation"], 1)).as_py() or 0) for n in fields)


def count_recoded(index: pa.Table) -> dict[str, int]:
    """Return how many images were recoded when they were packed, by the kind that they had."""
    found: Counter[str] = Counter()
    for name in filter(is_image_field, field_names(index.schema)):
        for entry in pc.value_counts(index[f"{name}.recoded"].cast(pa.string())).to_pylist():
            found[entry["values"]] += entry["counts"]
    return {kind: count for kind, count in sorted(found.items(), key=str) if kind is not None}


def describe_recoded(recoded: Mapping[str, int]) -> str | None:
    """Say which images were recoded, in a sentence for users; None if there are none."""
    if not recoded:
        return None
    listed = " and ".join(f"{count:,} {kind}" for kind, count in recoded.items())
    return f"{listed} JPEGs were rewritten as baseline when packed: the same pixels, not the same bytes"


def name_types(schema: pa.Schema, names: Iterable[str]) -> dict[str, str]:
    """Return the names of types of columns."""
    return {name: str(schema.field(name).type) for name in names}


def describe_classes(dataset: Dataset) -> str:
    """Return the number and names of its classes, or why there are none."""
    if dataset.classes is None and dataset.index[LABEL].null_count == len(dataset):
        return "none: the samples are unlabelled"
    return format_classes(dataset.classes)


def format_classes(classes: Sequence[str] | None) -> str:
    """Return `2: cat, dog`."""
    return "not named" if classes is None else _list_some(classes, _CLASSES)


def _list_some(names: Sequence[str], most: int) -> str:
    """Return the number of names and the first of them; nothing for none."""
    more = ["..."] if len(names) > most else []
    return f"{len(names)}: {', '.join([*map(printable, names[:most]), *more])}" if names else ""


def print_summary(
    path: Path,
    content: dict[str, Any],
    classes: str,
    as_json: bool,
    more: Sequence[tuple[str, str]] = (),
) -> None:
    """Print the content of a dataset or a source as JSON, or as a table with `more` rows."""
    warn_of_depth(content["kinds"])
    if as_json:
        print_json({"path": str(path), **content})
        return
    kinds = f"kinds of {content['looked_at']}" if "looked_at" in content else "kinds"
    columns = [
        f"{printable(name)} ({kind}{format_column(content.get('field_kinds', {}), name)})"
        for name, kind in content["columns"].items()
    ]
    rows = [
        *(
            (name, f"{content[name]}")
            for name in ("format", "samples", "shards")
            if name in content
        ),
        ("bytes", format_size(content["bytes"])),
        *format_fields(content["fields"], content.get("field_kinds", {})),
        ("columns", ", ".join(columns)),
        ("classes", classes),
        ("videos", format_videos(content.get("videos"))),
        (kinds, ", ".join(f"{count} {kind}" for kind, count in content["kinds"].items())),
        ("turned", describe_turned(content.get("turned", 0)) or ""),
        ("recoded", describe_recoded(content.get("recoded", {})) or ""),
        ("to recode", describe_recoding(content.get("recoding")) or ""),
        ("ignored", _list_some(content.get("ignored", ()), _NAMES)),
        *more,
    ]
    print(path)
    print_table([row for row in rows if row[1]])
