"""Calls the user's function on one item, and describes its failure."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import WorkerError
from headrace.work.seeding import go_back_to, seed_globals, set_item


@dataclass(frozen=True)
class Failure:
    """An exception on its way to the consumer, possibly in another process, and its traceback."""

    what: str
    where: str
    traceback: str
    error: BaseException | None
    position: int | None = None

    def make_error(self) -> WorkerError:
        """Return the error to raise at the consumer; its cause is the original exception."""
        text = f"{self.what}\n\n{self.where}:\n{self.traceback}"
        error = WorkerError(text)
        error.position = self.position
        error.__cause__ = self.error
        return error


def make_failure(error: BaseException, what: str, where: str, position: int | None) -> Failure:
    """Return a failure that can be sent to another process, without an exception that cannot be pickled."""
    text = "".join(traceback.format_exception(error))
    summary = f"{what}: {type(error).__name__}: {error}"
    return Failure(summary, where, text, _crossing(error), position)


def _crossing(error: BaseException) -> BaseException | None:
    try:
        clone = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - an exception may do anything when pickled
        return None
    return clone if type(clone) is type(error) else None


@dataclass(frozen=True)
class Task:
    """A function with the seed, epoch and stream of the stage that calls it."""

    fn: Callable[[Any], Any]
    name: str
    seed: int
    epoch: int
    stream: int = 0
    seeds_globals: bool = False  # only where the process belongs to the flow
    noun: str = "item"  # what a position counts, in reports about workers

    def call(self, position: int, item: Any, where: str) -> Any:
        """Return `fn(item)`, called with its random state set, or its Failure."""
        before = set_item(self.seed, self.epoch, self.stream, position)
        try:
            if self.seeds_globals:
                seed_globals(self.seed, self.epoch, position, self.stream)
            return self.fn(item)
        except Exception as error:  # noqa: BLE001 - raised again at the consumer
            return self.fail(error, position, where)
        finally:
            go_back_to(before)

    def fail(self, error: BaseException, position: int, where: str) -> Failure:
        """Return the failure of this task on the item at `position`."""
        return make_failure(error, f"{self.name} failed on item {position}", where, position)


def name_of(fn: object) -> str:
    """Return the name of a function for descriptions and errors."""
    names = (getattr(fn, name, None) for name in ("__qualname__", "__name__"))
    name = next(filter(None, names), type(fn).__qualname__)
    return str(name).replace("<locals>.", "")
