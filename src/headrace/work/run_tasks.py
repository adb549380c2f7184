"""Runs numbered tasks in a pool of threads or processes, with a bounded number in flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol


class Pool(Protocol):
    """The workers that `run_tasks` needs: threads or processes."""

    def submit(self, number: int, position: int, item: Any) -> None: ...
    def take(self) -> tuple[int, Any]: ...


def run_tasks(
    pool: Pool, items: Iterable[Any], positions: Iterable[int], buffer: int, ordered: bool
) -> Iterator[Any]:
    """Keep the pool busy with up to `buffer` tasks; yield results, in the order of the items if asked.

    The pool is refilled when half of its tasks are done, not one by one: workers and consumer
    wake each other less often, which is most of what a small item costs.
    """
    finished: dict[int, Any] = {}
    failed: list[Exception] = []
    submitted = given = 0

    def take() -> Any:
        while ordered and given not in finished:
            number, result = pool.take()
            finished[number] = result
        return finished.pop(given) if ordered else pool.take()[1]

    tasks = _submit_each(pool, items, positions)
    for submitted in _until_error(tasks, failed) if ordered else tasks:
        if submitted - given >= buffer:
            while submitted - given > buffer // 2:
                yield take()
                given += 1
    while given < submitted:
        yield take()
        given += 1
    if failed:
        raise failed.pop()


def _submit_each(pool: Pool, items: Iterable[Any], positions: Iterable[int]) -> Iterator[int]:
    """Submit the items one by one; yield their number so far."""
    for number, (item, position) in enumerate(zip(items, positions)):
        pool.submit(number, position, item)
        yield number + 1


def _until_error(tasks: Iterator[int], failed: list[Exception]) -> Iterator[int]:
    """Yield the tasks up to an error of their input, which waits in `failed` for its turn."""
    try:
        yield from tasks
    except Exception as error:  # noqa: BLE001 - raised after the results that come before it
        failed.append(error)
