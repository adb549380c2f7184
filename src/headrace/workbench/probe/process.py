"""One watched process: its timeline, its samples, and the file that it tells them in."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from .classify import BLOCKED, IDLE, PYTHON, READ, classify, is_worker
from .timeline import BETWEEN, COMPUTE, WAIT, Timeline

PERIOD = 0.1
_WRITE_EVERY = 25
_PLACES = 20
_ERROR = 300  # characters
_SWITCH = 1e-4
"""Seconds after which Python lets the GIL go to a look; in the usual 5 ms it would be somewhere else."""

_SERVICES = ("multiprocessing.queues", "multiprocessing.resource_sharer")


def _count_sleeps() -> int:
    """How often this thread gave up its core to wait: once in every pause, once more for the GIL."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _is_interval(seconds: float) -> bool:
    """Whether that is the switch interval now: Python rounds it down to microseconds whenever it is set."""
    return abs(sys.getswitchinterval() - seconds) < 1e-5


def _is_service(thread: threading.Thread) -> bool:
    """Whether multiprocessing started it to send batches, or the memory that tensors lie in, as in torch's workers."""
    target = getattr(thread, "_target", None)  # names differ: "Thread-1 (_serve)"
    return getattr(target, "__module__", None) in _SERVICES


def _find_rank() -> int | None:
    """Return the rank of this process in a distributed training, as torchrun or torch.distributed tells it."""
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        return int(os.environ["RANK"])
    except (KeyError, ValueError, RuntimeError):
        return None


def _describe_error() -> str | None:
    """Return the exception that ended the program, as the last line of its traceback says it."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return None
    try:
        return f"{type(error).__name__}: {error}"[:_ERROR]
    except Exception:  # noqa: BLE001 - the text of an exception is the user's code
        return type(error).__name__


class Process:
    """Samples the main thread every 100 ms; the patched loaders add to the timeline.

    The sampling thread needs the GIL to look. Woken while the main thread runs Python, it gets the GIL
    only where that lets it go, often in the next read: what it sees then is not what went on. So a look
    that had to wait for the GIL counts as Python, whatever work it sees, unless the main thread was made to
    let it go at once.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._usual: float | None = None  # the switch interval to give back
        self._may_prompt = True
        self._reset()

    def _reset(self) -> None:
        self._main = threading.main_thread().ident or 0
        self._parent = os.getppid()  # later it may be gone
        self.timeline = Timeline()
        self.depth = 0
        self._loop: object = None
        self.loaders: list[Callable[[], dict[str, Any]]] = []
        self.kinds: Counter[str] = Counter()
        self.places: Counter[str] = Counter()
        self.worker = False
        self.rank: int | None = None
        self._children: dict[int, float] = {}  # when each was there last
        self._prompt = False
        self._cost = 0.0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Starts the thread that samples."""
        self._stat = os.open("/proc/thread-self/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._sample, name="headrace-probe", daemon=True)
        self._thread.start()

    def begin_forked(self) -> None:
        """The same in a child: what the parent did is not the child's."""
        self._give_back()
        self._reset()
        self.begin()

    def finish(self) -> None:
        """Ends the sampling and writes the last word."""
        self._end.set()
        self.timeline.close()
        self.write()

    def mark_worker(self) -> None:
        """This process is a worker of a loader. That is told at once: it may be ended by a signal."""
        self.worker = True
        self.write()

    def add_loader(self, tell: Callable[[], dict[str, Any]]) -> None:
        """A loader is used, which `tell` describes. The first is told at once: no end comes before that."""
        self.rank = _find_rank()
        self.loaders.append(tell)
        if len(self.loaders) == 1:
            self.write()

    def enter(self, kind: str) -> int:
        """A loader is asked for something: how deep inside other loaders, from 1; 0 in other threads."""
        if threading.get_ident() != self._main:
            return 0
        self.depth += 1
        if self.depth == 1:
            self.timeline.mark(kind)
        return self.depth

    def leave(self, depth: int, kind: str, loop: object = None) -> None:
        """It has answered, what was asked as `kind`; with a batch for `loop`, or with none."""
        if not depth:
            return
        self.depth -= 1
        if depth > 1:
            return
        if kind == WAIT and loop is None:
            self.timeline.rename(BETWEEN)  # it was the end of the epoch, in which workers are ended
        self._loop = loop
        self.timeline.mark(BETWEEN if loop is None else COMPUTE)
        if loop is not None:
            self._see_children()

    def _see_children(self) -> None:
        """Note who is there: workers that are ended by a signal, as persistent ones are, cannot tell their end."""
        processes = sys.modules.get("multiprocessing.process")
        children = list(getattr(processes, "_children", ()))
        self._children.update(dict.fromkeys((child.pid for child in children), time.monotonic()))

    def end_loop(self, loop: object) -> None:
        """`loop` was left: what follows its last batch is no step of it any more."""
        if self._loop is loop and not self.depth and threading.get_ident() == self._main:
            self._loop = None
            self.timeline.mark(BETWEEN)

    def _sample(self) -> None:
        number, slept = 0, _count_sleeps()
        while not self._pause():
            number += 1
            late = _count_sleeps() - slept > 1
            seen = self._look()  # before anything that lets the GIL go, and with it the main thread
            if seen is not None:
                self._count(*seen, late=late)
            self._prompt = seen is not None and self._is_alone()
            self._cost = time.thread_time()
            if number % _WRITE_EVERY == 0:
                self.write()
            slept = _count_sleeps()

    def _pause(self) -> bool:
        """Waits until the next look is due; whether that is never."""
        self._prompt = self._prompt and self._shorten_interval()
        try:
            return self._end.wait(PERIOD)
        finally:
            self._give_back()  # nor is the look itself to be interrupted

    def _shorten_interval(self) -> bool:
        """Makes the main thread let the GIL go at once; not if the program has set the switch interval meanwhile."""
        if self._usual is None:
            self._usual = sys.getswitchinterval()
        self._give_back()
        if self._may_prompt:
            sys.setswitchinterval(_SWITCH)
        return self._may_prompt

    def _give_back(self) -> None:
        """The switch interval is as it was; one that the program has set meanwhile stays, from then on.

        Unless that is ours, which a program restores that has read it in a pause.
        """
        if self._usual is None:
            return
        if _is_interval(_SWITCH):
            sys.setswitchinterval(self._usual)
        elif not _is_interval(self._usual):
            self._may_prompt = False

    def _is_alone(self) -> bool:
        """Whether the program has no threads of its own here, which would take turns more often."""
        others = (t for t in threading.enumerate() if t.ident != self._main)
        return all(t.name.startswith("headrace") or _is_service(t) for t in others)

    def _look(self) -> tuple[str, str] | None:
        """What the main thread is doing, and where; None if it is not loading."""
        frame = sys._current_frames().get(self._main)
        if frame is None:
            return None
        if not self.worker and not self.depth:
            self.worker = is_worker(frame)
            if not self.worker:
                return None
        return classify(frame)

    def _count(self, kind: str, place: str, *, late: bool) -> None:
        if kind != IDLE:
            kind = self._correct(kind, late=late)
            if place:
                self.places[f"{kind} {place}"] += 1
        self.kinds[kind] += 1

    def _correct(self, kind: str, *, late: bool) -> str:
        """What the main thread was doing that was seen doing `kind`."""
        if late and not self._prompt:
            return PYTHON
        state = self._read_state()
        if state == "D":
            return READ  # it waits for a disk, whatever for
        sleeps = state == "S" and not late  # a late look has taken the GIL, for which it waits then
        return BLOCKED if kind == PYTHON and sleeps else kind

    def _read_state(self) -> str:
        """The letter that /proc gives the main thread: D waits for a disk, S for anything else but a core."""
        try:
            return os.pread(self._stat, 256, 0).rpartition(b")")[2][1:2].decode()
        except OSError:
            return "?"  # programs that become daemons close all files

    def write(self) -> None:
        """Replaces the file of this process by what is known now."""
        with self._lock:
            path = os.path.join(self.folder, f"{os.getpid()}.json")
            try:
                with open(f"{path}.new", "w") as file:
                    json.dump(self._tell(), file)
                os.replace(f"{path}.new", path)
            except OSError:
                return  # the folder is gone: nobody listens any more

    def _tell(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "parent": self._parent,
            "end": time.monotonic(),
            "ended": self._end.is_set(),
            "error": _describe_error(),
            "rank": self.rank,
            "timeline": self.timeline.snapshot(),
            "loaders": [tell() for tell in list(self.loaders)],
            "worker": self.worker,
            "children": dict(self._children),
            "kinds": dict(self.kinds),
            "places": dict(self.places.most_common(_PLACES)),
            "cost": self._cost,
        }
