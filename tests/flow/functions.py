"""Functions that cross to spawned processes, in a module that imports little."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.work.seeding import item_rng


def get_key(sample: Mapping[str, bytes]) -> str:
    return sample.key  # type: ignore[attr-defined,no-any-return]


def name_item(item: Any) -> str | int:
    """The key of a sample, the label of a datapoint."""
    return item.key if hasattr(item, "key") else item[1]  # type: ignore[no-any-return]


def square(n: int) -> int:
    return n * n


def is_even(n: int) -> bool:
    return n % 2 == 0


def pair(n: int) -> list[int]:
    return [n, -n]


def record(n: int) -> dict[str, int]:
    return {"a": n, "b": -n}


def shaped(n: int) -> np.ndarray:
    return np.full((n % 3 + 1,), n)


def fail_on_seven(n: int) -> int:
    if n == 7:
        raise LookupError("seven")
    return n


def keep_but_fail_on_seven(n: int) -> bool:
    return fail_on_seven(n) == n


def fail_on_threes(n: int) -> int:
    if n % 3 == 0:
        raise LookupError(f"{n} is a multiple of three")
    return n


def die_on_seven(n: int) -> int:
    if n == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def exit_on_seven(n: int) -> int:
    if n == 7:
        os._exit(3)
    return n


def make_image(n: int) -> np.ndarray:
    return np.full((64, 64, 3), n % 251, np.uint8)


def draw(n: int) -> tuple[float, int]:
    return item_rng().random(), n


def draw_globals(n: int) -> tuple[float, float]:
    return random.random(), float(np.random.random())


def get_pid(n: int) -> int:
    return os.getpid()


class UnpicklableError(Exception):
    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"{left} and {right}")


def raise_unpicklable(n: int) -> None:
    raise UnpicklableError(1, 2)


class ChangelingError(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        return ValueError, ("another",)


def raise_changeling(n: int) -> None:
    raise ChangelingError("mine")
