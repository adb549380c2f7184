"""Rank and world size: given, or found when an epoch begins."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import Loader
from headrace.serve import rank as rank_module

SAMPLES = 61


@pytest.fixture(autouse=True)
def _log_again() -> None:
    rank_module.log_place.cache_clear()


def make(path: Path, batch_size: int = 4, **options: Any) -> Loader:
    return Loader(path, batch_size, shuffle=True, fields=("label",), **options)


def set_variables(monkeypatch: pytest.MonkeyPatch, **variables: int | str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))


def pretend_group(monkeypatch: pytest.MonkeyPatch, rank: int, world_size: int) -> None:
    """Make torch.distributed report a process group."""
    torch = pytest.importorskip("torch")
    for name, value in (
        ("is_initialized", True),
        ("get_rank", rank),
        ("get_world_size", world_size),
    ):
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)


def read_rows(loader: Loader) -> list[int]:
    batches = list(loader)
    return np.concatenate([batch.rows[batch.valid] for batch in batches]).tolist()


def assert_rank(loader: Loader, rank: int, world_size: int) -> None:
    assert (loader.rank, loader.world_size) == (rank, world_size)
    assert len(loader) == -(-SAMPLES // (loader.batch_size * world_size))
    loader.set_epoch(0)
    given = make(loader.dataset, loader.batch_size, rank=rank, world_size=world_size)
    assert read_rows(loader) == read_rows(given)


def load_as_rank(rank: int, loader: Any, folder: Path) -> None:
    """Load as a function started by mp.spawn or ddp_spawn does: the loader was made in the parent."""
    import torch

    group = {"init_method": f"file://{folder / 'group'}", "rank": rank, "world_size": 2}
    torch.distributed.init_process_group("gloo", **group)
    try:
        iter(loader)  # as Lightning checks
        rows = [read_rows(loader) for _ in range(2)]
        (folder / f"rank{rank}").write_bytes(pickle.dumps((rows, len(loader), loader.state_dict())))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("variables", [{}, {"WORLD_SIZE": 2, "NODE_RANK": 0, "LOCAL_RANK": 0}])
def test_spawned_ranks_read_disjoint_parts_though_the_loader_was_made_before_them(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, int]
) -> None:
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader as TorchLoader

    set_variables(monkeypatch, **variables)
    loader = TorchLoader(packed, 4, shuffle=True, fields=("label",))
    assert len(loader) == (8 if variables else 16)
    torch.multiprocessing.spawn(load_as_rank, (loader, tmp_path), nprocs=2)
    ranks = [pickle.loads((tmp_path / f"rank{rank}").read_bytes()) for rank in range(2)]
    for epoch in range(2):
        first, second = (rows[epoch] for rows, _, _ in ranks)
        assert sorted(first + second) == list(range(SAMPLES))
    assert [length for _, length, _ in ranks] == [8, 8]
    assert ranks[0][2] == ranks[1][2] and ranks[0][2]["global_batch"] == 8


def test_a_process_group_that_was_made_between_two_epochs_counts_from_the_next(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make(packed)
    assert len(read_rows(loader)) == SAMPLES
    pretend_group(monkeypatch, 1, 2)
    assert len(loader) == 8
    expected = make(packed, rank=1, world_size=2)
    expected.set_epoch(1), loader.set_epoch(1)
    assert loader.state_dict() == expected.state_dict()
    assert read_rows(loader) == read_rows(expected)
    assert loader.state_dict() == expected.state_dict()


def test_a_process_group_that_comes_after_iter_counts(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterator = iter(loader := make(packed))
    pretend_group(monkeypatch, 1, 2)
    assert next(iterator).rows.tolist() == read_rows(make(packed, rank=1, world_size=2))[:4]
    assert loader.state_dict()["global_batch"] == 8


def test_an_epoch_keeps_the_ranks_that_it_was_begun_with(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make(packed)
    iterator = iter(loader)
    next(iterator)
    with monkeypatch.context() as patch:
        pretend_group(patch, 1, 2)
        next(iterator)
        assert loader.state_dict()["global_batch"] == 4
        loader.set_epoch(0)
        assert loader.state_dict()["global_batch"] == 8
        next(iter(loader))
    assert len(loader) == 16
    assert loader.state_dict()["global_batch"] == 8, "though the group is gone"
    assert len(list(iterator)) == 14


def test_the_sampler_counts_the_ranks_that_there_are_now(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from headrace.torch import Loader as TorchLoader

    loader = TorchLoader(packed, 4, fields=("label",))
    sampler = loader.sampler
    assert len(sampler) == SAMPLES
    pretend_group(monkeypatch, 0, 2)
    assert len(sampler) == 31 and "rank 0 of 2" in repr(loader)


def test_ranks_that_were_given_win(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, RANK=5, WORLD_SIZE=8)
    pretend_group(monkeypatch, 3, 4)
    assert_rank(make(packed, rank=1, world_size=2), 1, 2)
    copy = pickle.loads(pickle.dumps(make(packed, rank=1, world_size=2)))
    assert_rank(copy, 1, 2)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RANK": 1, "WORLD_SIZE": 3}, (1, 3)),
        ({"SLURM_PROCID": 2, "SLURM_STEP_NUM_TASKS": 3}, (2, 3)),
        ({"SLURM_PROCID": 0, "SLURM_STEP_NUM_TASKS": 1, "SLURM_NTASKS": 8}, (0, 1)),
        ({"SLURM_PROCID": 0, "SLURM_NTASKS": 8}, (0, 1)),
        ({"OMPI_COMM_WORLD_RANK": 1, "OMPI_COMM_WORLD_SIZE": 2}, (1, 2)),
        ({"OMPI_COMM_WORLD_RANK": 0, "OMPI_COMM_WORLD_SIZE": 1}, (0, 1)),
        ({"SLURM_PROCID": 1, "SLURM_STEP_NUM_TASKS": 2, "RANK": 5, "WORLD_SIZE": 6}, (5, 6)),
        ({"RANK": 0}, (0, 1)),
        ({"RANK": "", "WORLD_SIZE": ""}, (0, 1)),
    ],
)
def test_the_rank_is_found_in_the_environment_and_logged_once(
    packed: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variables: dict[str, int],
    expected: tuple[int, int],
) -> None:
    loader = make(packed)
    set_variables(monkeypatch, **variables)
    with caplog.at_level(logging.INFO, "headrace"):
        assert_rank(loader, *expected)
        assert_rank(loader, *expected)
    (message,) = [record.message for record in caplog.records if "loading as" in record.message]
    assert message.startswith("loading as rank {} of {} (".format(*expected))


def test_tasks_of_slurm_that_start_several_ranks_do_not_disagree(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2)
    pretend_group(monkeypatch, 3, 4)
    assert_rank(make(packed), 3, 4)


@pytest.mark.parametrize(
    "variables",
    [{"RANK": 1, "WORLD_SIZE": 2}, {"RANK": 0, "WORLD_SIZE": 4}, {"RANK": 1}, {"WORLD_SIZE": 4}],
)
def test_variables_that_disagree_with_the_process_group_are_an_error(
    packed: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, int]
) -> None:
    loader = make(packed)
    set_variables(monkeypatch, **variables)
    pretend_group(monkeypatch, 0, 2)
    match = "rank 0 of 2 in the process group of torch.distributed, but RANK="
    with pytest.raises(ValueError, match=match):
        next(iter(loader))
    with pytest.raises(ValueError, match=match):
        len(loader)
    assert "give rank and world_size" in repr(loader)
    assert_rank(make(packed, rank=0, world_size=2), 0, 2)


def test_variables_that_agree_with_the_process_group_are_fine(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, RANK=1, WORLD_SIZE=2)
    pretend_group(monkeypatch, 1, 2)
    assert_rank(make(packed), 1, 2)


def test_a_world_size_without_a_rank_is_an_error_when_an_epoch_begins(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, WORLD_SIZE=4)
    loader = make(packed)
    assert (len(loader), loader.world_size) == (4, 4)
    assert "4 steps, rank unknown of 4" in repr(loader)
    assert loader.state_dict()["global_batch"] == 16
    for begin in (lambda: next(iter(loader)), lambda: loader.rank):
        with pytest.raises(ValueError, match="WORLD_SIZE is 4 .*RANK is not set"):
            begin()
    pretend_group(monkeypatch, 1, 4)
    assert_rank(loader, 1, 4)


@pytest.mark.parametrize(
    ("variables", "match"),
    [
        ({"RANK": 5, "WORLD_SIZE": 3}, r"rank 5 of 3 \(RANK and WORLD_SIZE\)"),
        ({"RANK": "one", "WORLD_SIZE": 3}, "RANK is 'one' in the environment"),
        ({"RANK": 2}, "rank 2 of 1"),
    ],
)
def test_variables_that_make_no_sense_are_an_error(
    packed: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, Any], match: str
) -> None:
    set_variables(monkeypatch, **variables)
    with pytest.raises(ValueError, match=match):
        next(iter(make(packed)))


def test_a_pickled_loader_finds_the_rank_of_where_it_is_used(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make(packed)
    read_rows(loader)
    copy = pickle.loads(pickle.dumps(loader))
    set_variables(monkeypatch, RANK=1, WORLD_SIZE=2)
    assert copy.state_dict() == {**copy.state_dict(), "epoch": 1, "global_batch": 8}
    assert_rank(copy, 1, 2)


@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize("pickled", [False, True])
def test_a_state_that_was_loaded_for_other_ranks_is_refused_when_the_epoch_begins(
    packed: Path, monkeypatch: pytest.MonkeyPatch, pickled: bool, step: int
) -> None:
    loader = make(packed)
    loader.load_state_dict({**loader.state_dict(), "step": step})
    if pickled:
        loader = pickle.loads(pickle.dumps(loader))
    pretend_group(monkeypatch, 0, 2)
    with pytest.raises(ValueError, match="loaded for world_size=1, which is 2 now; load it after"):
        next(iter(loader))
    loader.set_epoch(1)
    assert next(iter(loader)).step == 0


def test_a_state_is_resumed_by_the_ranks_that_it_was_taken_with(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make(packed)
    pretend_group(monkeypatch, 1, 2)
    rows = read_rows(loader)
    again = make(packed)
    again.load_state_dict({**again.state_dict(), "step": 3})
    assert read_rows(again) == rows[12:]
