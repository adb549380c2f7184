"""The HTML page around the charts: verdict, sections, and the data as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from headrace.workbench.bench.dataset_bottleneck import Finding
from headrace.workbench.report.svg import WIDTHS


@dataclass(frozen=True)
class Section:
    """A heading, a sentence on how to read the section, and its HTML."""

    title: str
    lead: str
    body: str


@dataclass(frozen=True)
class Page:
    """A report. `tone` colours the verdict: good, tight, bad or plain. `data` equals the output of `--json`."""

    title: str
    tone: str
    headline: str
    findings: Sequence[Finding]
    sections: Sequence[Section]
    facts: Sequence[tuple[str, str]]
    data: dict[str, Any]


def draw_both(draw: Callable[[int], str]) -> str:
    """Draw a chart at both widths; the style sheet shows the one that fits."""
    drawn = (f'<div class="chart {name}">{draw(width)}</div>' for name, width in WIDTHS.items())
    return "".join(drawn)


def make_cell(text: str, path: str = "", value: float | None = None) -> str:
    """Return a table cell; `path` and `value` say which number of the data it shows."""
    if not path:
        return f"<td>{escape(text)}</td>"
    return (
        f'<td class="number" data-path="{escape(path)}" data-value="{value!r}">{escape(text)}</td>'
    )


def make_number_cells(path: str, thing: object, formats: dict[str, str]) -> list[str]:
    """Return a cell for each named attribute, in the given format."""
    values = {name: getattr(thing, name) for name in formats}
    return [make_cell(f"{values[n]:{formats[n]}}", f"{path}.{n}", values[n]) for n in formats]


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells from `make_cell`."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def render_page(page: Page) -> str:
    """Return the HTML of a report: one file without links to others."""
    findings = "".join(map(_render_finding, page.findings))
    sections = "".join(map(_render_section, page.sections))
    facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in page.facts)
    data = json.dumps(page.data, ensure_ascii=True).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)}</title>
<link rel="icon" href="data:,">
<style>{_read("report.css")}</style>
</head>
<body>
<main>
<header><p class="kicker">{escape(page.title)}</p></header>
<section class="verdict {page.tone}"><h1>{_keep_units(page.headline)}</h1><ul>{findings}</ul></section>
{sections}
<section><h2>Setting</h2><dl>{facts}</dl></section>
</main>
<div id="tip" role="status" hidden></div>
<script type="application/json" id="headrace-data">{data}</script>
<script>{_read("report.js")}</script>
</body>
</html>
"""


def _keep_units(text: str) -> str:
    """Escape the text and keep numbers on one line with their units."""
    return escape(text).replace(" images/s", "&nbsp;images/s").replace(" ms", "&nbsp;ms")


def _mark_code(text: str) -> str:
    """Escape the text and format what is between backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _render_finding(finding: Finding) -> str:
    advice = f" <strong>{_mark_code(finding.advice)}</strong>" if finding.advice else ""
    return f'<li><span class="topic">{escape(finding.topic)}</span><span>{escape(finding.says)}{advice}</span></li>'


def _render_section(section: Section) -> str:
    return (
        f"<section><h2>{escape(section.title)}</h2>"
        f'<p class="lead">{escape(section.lead)}</p>{section.body}</section>'
    )


def _read(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def write_report(path: Path, page: Page) -> None:
    """Write the report atomically."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(render_page(page), encoding="utf-8")
    fresh.replace(path)
