"""Rounds: turns, warm-up, Ctrl-C and spread; and the page cache."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from headrace.workbench.bench.page_cache import (
    Residency,
    count_resident,
    drop_pages,
    explain_warmth,
)
from headrace.workbench.bench.results import Rate
from headrace.workbench.bench.rounds import Job, Turn, repeat, take_turns
from workbench.benches import agree


def scripted(rates: list[float], turns: list[str], name: str) -> Job:
    """Return a job whose rounds have the given rates."""
    left = iter(rates)

    def run(seconds: float) -> Turn:
        turns.append(name)
        return Turn(int(next(left)), 1.0, 0.5)

    return Job(name, 1, run)


def test_jobs_take_turns_and_the_first_round_is_not_counted() -> None:
    turns: list[str] = []
    jobs = [scripted([1, 100, 300, 200], turns, "a"), scripted([1, 10, 10, 10], turns, "b")]
    (a, b), complete = take_turns(jobs, rounds=3, seconds=1.0)
    assert turns == ["a", "b"] * 4 and complete
    assert (a.rate.median, a.rate.low, a.rate.high) == (200, 100, 300)
    assert a.cpu_ms == pytest.approx(1.5 / 600 * 1e3)
    assert b.rate.rounds == (10, 10, 10)


def test_ctrl_c_ends_with_what_was_measured() -> None:
    turns: list[str] = []

    def interrupt(seconds: float) -> Turn:
        if len(turns) > 2:
            raise KeyboardInterrupt
        return Turn(5, 1.0, 0.0)

    jobs = [scripted([1, 100, 300, 200], turns, "a"), Job("b", 1, interrupt)]
    stages, complete = take_turns(jobs, rounds=3, seconds=1.0)
    assert not complete
    assert {stage.name: stage.rate.rounds for stage in stages} == {"a": (100, 300), "b": (5,)}


def test_the_report_is_called_for_every_turn() -> None:
    heard: list[tuple[int, int, str]] = []
    jobs = [scripted([1, 2], [], "a")]
    take_turns(jobs, rounds=1, seconds=1.0, report=lambda *now: heard.append(now))
    assert heard == [(0, 2, "a, 1 thread"), (1, 2, "a, 1 thread")]


def test_a_turn_works_at_least_once() -> None:
    assert repeat(lambda: 7, seconds=0.0).images == 7


@pytest.mark.parametrize("rounds", [3, 5, 15])
def test_the_spread_holds_in_95_of_100_repetitions(rounds: int) -> None:
    """Two benches of a machine whose rounds scatter by 10 % agree; one on a machine half as fast does not."""
    rng = np.random.default_rng(0)

    def run(speed: float) -> Rate:
        return Rate.of((speed * rng.lognormal(0, 0.1, rounds)).tolist())

    pairs = [(run(100), run(100)) for _ in range(2000)]
    stated = sum(
        max(a.median, b.median) <= min(a.median, b.median) * (1 + a.spread) for a, b in pairs
    )
    assert 0.94 <= stated / 2000 <= 0.985
    assert not any(agree(run(100), run(50)) for _ in range(20 if rounds > 3 else 0))


def test_a_single_round_has_no_spread() -> None:
    assert Rate.of([100]).spread is None


def test_pages_of_a_file_are_dropped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20))
    with open(path, "rb") as file:
        assert count_resident(file.fileno()) == Residency(256, 256)
    kept = drop_pages([path])
    if kept.share == 1:
        pytest.skip("the file system of the temporary folder keeps its pages")
    assert kept.pages == 256 and explain_warmth(kept) is None


def test_a_system_that_keeps_pages_is_reported() -> None:
    said = explain_warmth(Residency(50, 100))
    assert said is not None and "kept 50% of the pages" in said and "not cold" in said


def test_an_empty_file_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert drop_pages([tmp_path / "empty"]) == Residency(0, 0)
