"""The report: one file without network access that shows the numbers of the JSON, also in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from headrace.workbench.bench import results
from headrace.workbench.bench.dataset_advice import diagnose
from headrace.workbench.bench.required_rate import Need
from headrace.workbench.bench.results import Bench
from headrace.workbench.report.bench_page import bench_page
from headrace.workbench.report.page import Page, render_page, write_report
from headrace.workbench.report.svg import choose_ticks
from headrace.workbench.report.watch_page import watch_page
from headrace.workbench.watch.program_advice import judge
from workbench.benches import make_bench, make_stage
from workbench.test_program_advice import WATCHED


def make_full_bench() -> Bench:
    """Return a bench at several thread counts."""
    bench = make_bench()
    more = [
        make_stage(name, 1100.0 * threads**0.9, threads, peak_bytes=400_000_000)
        for name in (results.PIPELINE, results.RENDER)
        for threads in (1, 2, 4)
    ]
    return type(bench)(**{**vars(bench), "stages": (*bench.stages, *more)})


def make_pages() -> dict[str, Page]:
    bench = make_full_bench()
    return {
        "bench": bench_page(bench, None),
        "doctor": bench_page(bench, diagnose(bench, Need(9000.0, "9,000 images/s"))),
        "watch": watch_page(WATCHED, judge(WATCHED, 600.0)),
    }


PAGES = make_pages()


class Marks(HTMLParser):
    """Collects the elements that show a number of the data, and the data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.shown: list[tuple[str, str]] = []
        self.tips: list[str] = []
        self.data: Any = None
        self._in_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if "data-path" in found:
            self.shown.append((found["data-path"] or "", found["data-value"] or ""))
        if "data-tip" in found:
            self.tips.append(found["data-tip"] or "")
        self._in_data = found.get("id") == "headrace-data"

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data = json.loads(data)
            self._in_data = False


def look_up(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, list) else data[part]
    return data


def check_numbers(text: str, expected: dict[str, Any]) -> None:
    """Every number on the page equals the one in its data, and the data equal `--json`."""
    marks = Marks(text)
    assert marks.data == json.loads(json.dumps(expected))
    assert len(marks.shown) >= 10
    for path, value in marks.shown:
        assert float(value) == look_up(marks.data, path), path
    assert marks.tips and all(marks.tips)


@pytest.mark.parametrize("name", PAGES)
def test_the_numbers_equal_the_json(name: str) -> None:
    check_numbers(render_page(PAGES[name]), PAGES[name].data)


@pytest.mark.parametrize("name", PAGES)
def test_a_report_needs_no_network(name: str) -> None:
    text = render_page(PAGES[name])
    assert not re.search(r"""(src|href)=["'](?!data:)|url\(|@import|https?://""", text)


def test_the_verdict_comes_first() -> None:
    text = render_page(PAGES["doctor"])
    assert text.index("<h1>Too slow: 8,000&nbsp;images/s") < text.index("<svg")
    assert 'class="verdict bad"' in text and "need 9,000/s" in text


def test_what_the_user_typed_is_escaped() -> None:
    bench = make_bench(data={"path": "</script><script>alert(1)</script>"})
    assert "<script>alert" not in render_page(bench_page(bench, None))


def test_ticks_are_round_and_reach_the_top() -> None:
    assert choose_ticks(8600) == [0, 2000, 4000, 6000, 8000, 10000]
    assert choose_ticks(1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert choose_ticks(0) == [0, 1]


def test_a_report_is_written_atomically(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", PAGES["watch"])
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium is installed: apt-get install chromium")
    return found


def browse(chromium: str, folder: Path, page: Page, width: int) -> tuple[str, str]:
    """Return the page after its scripts have run, and the log of the browser."""
    write_report(folder / "report.html", page)
    result = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={folder / 'browser'}",
            f"--window-size={width},1200",
            "--dump-dom",
            f"file://{folder / 'report.html'}",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=90,
    )
    return result.stdout, result.stderr


@pytest.mark.browser
@pytest.mark.parametrize(("name", "width"), [("doctor", 1200), ("watch", 500)])
def test_a_browser_shows_it_without_errors(
    chromium: str, tmp_path: Path, name: str, width: int
) -> None:
    text, log = browse(chromium, tmp_path, PAGES[name], width)
    assert 'data-ready="yes"' in text, "the script of the page did not run to its end"
    assert "CONSOLE" not in log, log
    assert text.count("<svg") >= 6
    check_numbers(text, PAGES[name].data)


@pytest.mark.browser
def test_errors_of_a_page_would_be_seen(chromium: str, tmp_path: Path) -> None:
    broken = Page("x", "plain", "x", (), (), (), {})
    write_report(tmp_path / "good.html", broken)
    text = (tmp_path / "good.html").read_text().replace('"use strict";', "missing();")
    (tmp_path / "bad.html").write_text(text)
    result = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--enable-logging=stderr", "--dump-dom",
         f"--user-data-dir={tmp_path / 'browser'}", f"file://{tmp_path / 'bad.html'}"],
        capture_output=True, text=True, check=True, timeout=90,
    )  # fmt: skip
    assert "CONSOLE" in result.stderr and "missing is not defined" in result.stderr


def test_numbers_are_drawn_above_the_line_of_the_need() -> None:
    text = render_page(PAGES["doctor"])
    chart = text[text.index("<svg") : text.index("</svg>")]
    assert chart.index('class="need"') < chart.index('class="value"')


@pytest.mark.browser
def test_a_phone_shows_the_shares_beside_long_places(chromium: str, tmp_path: Path) -> None:
    long = "Python <frozen importlib._bootstrap_external>:_path_stat_of_a_package"
    watched = replace(WATCHED, places=((long, 0.4),))
    page = escape(render_page(watch_page(watched, judge(watched, None))), quote=True)
    script = """
    const tables = [...document.querySelector("iframe").contentDocument.querySelectorAll(".scroll")];
    document.title = "hidden " + tables.map(t => t.scrollWidth - t.clientWidth)[0];
    """
    (tmp_path / "phone.html").write_text(
        f'<title></title><iframe style="width: 390px; height: 900px; border: 0" srcdoc="{page}"></iframe>'
        f"<script>onload = () => {{ {script} }}</script>"
    )
    result = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={tmp_path / 'browser'}", f"file://{tmp_path / 'phone.html'}"],
        capture_output=True, text=True, check=True, timeout=90,
    )  # fmt: skip
    assert "<title>hidden 0</title>" in result.stdout
