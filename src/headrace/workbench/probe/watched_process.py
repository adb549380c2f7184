"""One watched process: its timeline, its samples, and the file that it writes them to."""

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

from .classify_stack import BLOCKED, IDLE, PYTHON, READ, classify, is_worker
from .timeline import BETWEEN, COMPUTE, WAIT, Timeline

PERIOD = 0.1
_WRITE_EVERY = 25
_PLACES = 20
_ERROR = 300  # characters
_SWITCH = 1e-4
"""Switch interval in seconds while sampling; within the usual 5 ms the main thread would move on."""

_SERVICES = ("multiprocessing.queues", "multiprocessing.resource_sharer")


def _count_sleeps() -> int:
    """Return how often this thread waited: once in every pause, once more for the GIL."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _is_interval(seconds: float) -> bool:
    """Return whether this is the current switch interval, which Python rounds to microseconds."""
    return abs(sys.getswitchinterval() - seconds) < 1e-5


def _is_service(thread: threading.Thread) -> bool:
    """Return whether multiprocessing started the thread to send batches or shared memory."""
    target = getattr(thread, "_target", None)  # names differ: "Thread-1 (_serve)"
    return getattr(target, "__module__", None) in _SERVICES


def _find_rank() -> int | None:
    """Return the rank of this process, from torch.distributed or torchrun."""
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        return int(os.environ["RANK"])
    except (KeyError, ValueError, RuntimeError):
        return None


def _describe_error() -> str | None:
    """Return the exception that ended the program, as in the last line of its traceback."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return None
    try:
        return f"{type(error).__name__}: {error}"[:_ERROR]
    except Exception:  # noqa: BLE001 - user code
        return type(error).__name__


class Process:
    """Samples the main thread every 100 ms; the patched loaders add to the timeline.

    Sampling needs the GIL. While the main thread runs Python, the sampler gets the GIL only where the main
    thread releases it, often in the next read: the stack then shows something else than what was running. So a
    sample that had to wait for the GIL counts as Python, unless the switch interval was short.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._usual: float | None = None  # the switch interval to restore
        self._may_prompt = True
        self._reset()

    def _reset(self) -> None:
        self._main = threading.main_thread().ident or 0
        self._parent = os.getppid()  # later it may have ended
        self.timeline = Timeline()
        self.depth = 0
        self._loop: object = None
        self.loaders: list[Callable[[], dict[str, Any]]] = []
        self.kinds: Counter[str] = Counter()
        self.places: Counter[str] = Counter()
        self.worker = False
        self.rank: int | None = None
        self._children: dict[int, float] = {}  # time each was last seen
        self._prompt = False
        self._cost = 0.0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._marking = threading.RLock()  # the sampler may be the one that deletes an iterator

    def begin(self) -> None:
        """Start the sampling thread."""
        self._stat = os.open("/proc/thread-self/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._sample, name="headrace-probe", daemon=True)
        self._thread.start()

    def begin_forked(self) -> None:
        """Start over in a forked child."""
        self._give_back()
        self._reset()
        self.begin()

    def finish(self) -> None:
        """Stop sampling and write the last record."""
        self._end.set()
        self.timeline.close()
        self.write()

    def mark_worker(self) -> None:
        """Record at once that this process is a worker: a signal may end it."""
        self.worker = True
        self.write()

    def add_loader(self, tell: Callable[[], dict[str, Any]]) -> None:
        """Add a loader that `tell` describes. The first is recorded at once."""
        self.rank = _find_rank()
        self.loaders.append(tell)
        if len(self.loaders) == 1:
            self.write()

    def enter(self, kind: str) -> int:
        """Enter a call of a loader; return how deep it is nested in others, from 1, or 0 in other threads."""
        if threading.get_ident() != self._main:
            return 0
        with self._marking:
            self.depth += 1
            if self.depth == 1:
                self.timeline.mark(kind)
            return self.depth

    def leave(self, depth: int, kind: str, loop: object = None) -> None:
        """Leave a call that was entered as `kind`, with a batch for `loop` or without one."""
        if not depth:
            return
        with self._marking:
            self.depth -= 1
            if depth > 1:
                return
            if kind == WAIT and loop is None:
                self.timeline.rename(BETWEEN)  # the end of an epoch, in which workers end
            self._loop = loop
            self.timeline.mark(BETWEEN if loop is None else COMPUTE)
        if loop is not None:
            self._see_children()

    def _see_children(self) -> None:
        """Note which children live: workers that a signal ends cannot record their end."""
        processes = sys.modules.get("multiprocessing.process")
        children = list(getattr(processes, "_children", ()))
        self._children.update(dict.fromkeys((child.pid for child in children), time.monotonic()))

    def end_loop(self, loop: object) -> None:
        """End `loop`: what follows its last batch is not a step of it.

        Thread-safe: while the sampler looks at a frame of the main thread, it keeps the frame's iterator
        alive, and may be the last to let go of it.
        """
        with self._marking:
            if self._loop is loop and not self.depth:
                self._loop = None
                self.timeline.mark(BETWEEN)

    def _sample(self) -> None:
        number, slept = 0, _count_sleeps()
        while not self._pause():
            number += 1
            late = _count_sleeps() - slept > 1
            seen = self._look()  # before anything releases the GIL, and with it the main thread
            if seen is not None:
                self._count(*seen, late=late)
            self._prompt = seen is not None and self._is_alone()
            self._cost = time.thread_time()
            if number % _WRITE_EVERY == 0:
                self.write()
            slept = _count_sleeps()

    def _pause(self) -> bool:
        """Wait until the next sample is due; return whether sampling ended."""
        self._prompt = self._prompt and self._shorten_interval()
        try:
            return self._end.wait(PERIOD)
        finally:
            self._give_back()  # sampling itself must not be interrupted

    def _shorten_interval(self) -> bool:
        """Make the main thread release the GIL at once, unless the program sets the switch interval itself."""
        if self._usual is None:
            self._usual = sys.getswitchinterval()
        self._give_back()
        if self._may_prompt:
            sys.setswitchinterval(_SWITCH)
        return self._may_prompt

    def _give_back(self) -> None:
        """Restore the switch interval; keep one that the program has set meanwhile.

        A program that read ours during a pause may set it again: that one is restored too.
        """
        if self._usual is None:
            return
        if _is_interval(_SWITCH):
            sys.setswitchinterval(self._usual)
        elif not _is_interval(self._usual):
            self._may_prompt = False

    def _is_alone(self) -> bool:
        """Return whether no other Python threads would be disturbed by a short switch interval."""
        others = (t for t in threading.enumerate() if t.ident != self._main)
        return all(t.name.startswith("headrace") or _is_service(t) for t in others)

    def _look(self) -> tuple[str, str] | None:
        """Return what the main thread does, and where; None if it is not loading."""
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
        """Return the kind of a sample after checking how the main thread was waiting."""
        if late and not self._prompt:
            return PYTHON
        state = self._read_state()
        if state == "D":
            return READ  # it waits for a disk
        sleeps = state == "S" and not late  # after a late sample it waits for the GIL
        return BLOCKED if kind == PYTHON and sleeps else kind

    def _read_state(self) -> str:
        """Return the state of the main thread from /proc: D waits for a disk, S for anything else but a core."""
        try:
            return os.pread(self._stat, 256, 0).rpartition(b")")[2][1:2].decode()
        except OSError:
            return "?"  # daemons close all files

    def write(self) -> None:
        """Replace the record of this process."""
        with self._lock:
            path = os.path.join(self.folder, f"{os.getpid()}.json")
            try:
                with open(f"{path}.new", "w") as file:
                    json.dump(self._tell(), file)
                os.replace(f"{path}.new", path)
            except OSError:
                return  # the folder is gone: the doctor has ended

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
