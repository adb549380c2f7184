"""The report of `headrace doctor -- command`."""

from __future__ import annotations

from headrace.workbench.probe.timeline import BETWEEN, COMPUTE, FIRST, STARTUP, WAIT
from headrace.workbench.report.page import (
    Page,
    Section,
    draw_both,
    make_cell,
    make_number_cells,
    make_table,
)
from headrace.workbench.report.timeline_chart import draw_shares, draw_timeline
from headrace.workbench.watch.program_bottleneck import DATA_BOUND, Judgement, Limit
from headrace.workbench.watch.watched_program import Watched

_ORDER = (WAIT, COMPUTE, FIRST, BETWEEN, STARTUP)


def watch_page(watched: Watched, judgement: Judgement) -> Page:
    """Return the page of a watched program."""
    sections = [_show_timeline(watched), _show_spans(watched)]
    if watched.work:
        sections.append(_show_work(watched))
    if watched.loaders:
        sections.append(_show_loaders(watched))
    if watched.ranks:
        sections.append(_show_ranks(watched))
    return Page(
        title=f"Headrace report · {watched.command}",
        tone=_choose_tone(watched, judgement),
        headline=judgement.headline,
        findings=judgement.findings,
        sections=sections,
        facts=_list_facts(watched),
        data={"judgement": judgement.to_json(), "watched": watched.to_json()},
    )


def _choose_tone(watched: Watched, judgement: Judgement) -> str:
    if judgement.limit in (Limit.UNSEEN, Limit.EMPTY):
        return "plain"
    if judgement.limit is Limit.COMPUTE:
        return "good"
    if judgement.limit is Limit.CRASHED:
        return "bad"
    starts = judgement.limit is Limit.FIRST_BATCHES
    share = watched.first_share if starts else watched.data_share
    return "tight" if share < 4 * DATA_BOUND else "bad"


def _show_timeline(watched: Watched) -> Section:
    def draw(width: int) -> str:
        return draw_timeline(watched.bins, watched.bin_seconds, _ORDER, width)

    lead = "What the training loop did, from start to end; orange is waiting for data."
    return Section("Timeline", lead, draw_both(draw))


def _show_spans(watched: Watched) -> Section:
    spans = {kind: watched.spans[kind] for kind in _ORDER}
    body = draw_both(lambda width: draw_shares(spans, "s", width, "watched.spans"))
    lead = f"{watched.wall:,.2f} s in total; {watched.attributed:.1%} of it is accounted for."
    return Section("Where the wall time went", lead, body)


def _show_work(watched: Watched) -> Section:
    body = draw_both(lambda width: draw_shares(watched.work, "%", width, "watched.work", False))
    rows = []
    for number, (place, share) in enumerate(watched.places):
        kind, _, name = place.partition(" ")
        cell = make_cell(f"{share:.1%}", f"watched.places.{number}.1", share)
        rows.append([make_cell(name), make_cell(kind), cell])
    if rows:
        body += make_table(("place", "kind", "of their time"), rows)
    return Section("What loading consisted of", f"The time of {watched.who_loads}, sampled.", body)


def _show_loaders(watched: Watched) -> Section:
    formats = {"workers": "", "batch_size": ",", "batches": ","}
    rows = [
        [
            make_cell(loader.kind),
            make_cell(loader.dataset),
            *make_number_cells(f"watched.loaders.{number}", loader, formats),
        ]
        for number, loader in enumerate(watched.loaders)
    ]
    header = ("loader", "data", "workers", "batch size", "batches")
    lead = "Loaders that gave batches; the workers of a Headrace loader are threads."
    return Section("Loaders", lead, make_table(header, rows))


def _show_ranks(watched: Watched) -> Section:
    seconds = dict.fromkeys(("starting", "waiting", "computing"), ",.2f")
    formats = {"rank": "", **seconds, "workers": ",", "batches": ","}
    rows = [
        make_number_cells(f"watched.ranks.{number}", rank, formats)
        for number, rank in enumerate(watched.ranks)
    ]
    header = ("rank", "first batches, s", "waiting, s", "computing, s", "workers", "batches")
    lead = f"All ranks; the charts above show rank {watched.rank}, which waited the longest."
    return Section("Ranks", lead, make_table(header, rows))


def _list_facts(watched: Watched) -> list[tuple[str, str]]:
    system, gib = watched.system, 1 << 30
    used = f"{watched.cores_used:.2f} of {system.cores:g} cores"
    return [
        ("command", watched.command),
        ("exit code", f"{watched.exit_code}"),
        ("processes", f"up to {system.most_processes}, {watched.loops} with a loop"),
        ("CPU", f"{used}; threads waited for {watched.cores_missed:.2f} more"),
        ("I/O wait", f"{system.io_wait:.1%} of all cores"),
        ("memory", f"{system.peak_bytes / gib:.2f} of {system.memory_bytes / gib:.1f} GiB"),
        ("watching", f"{watched.cost:.2%} of the CPU time"),
    ]
