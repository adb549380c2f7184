"""A child process of a flow: started by any method, watched, and never left behind.

Guaranteed: its death is seen at once, whatever killed it; it dies when its parent does; it ignores
Ctrl-C, which the parent handles; closing is idempotent; the interpreter never waits for it at exit.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, util
from multiprocessing.context import BaseContext
from typing import Any

from headrace.arguments import check_choice
from headrace.errors import WorkerError
from headrace.work.channel import Channel, open_channel
from headrace.work.seeding import own_process

GRACE = 5.0  # seconds from SIGTERM to SIGKILL; nothing waits this long unless a handler blocks
_PR_SET_PDEATHSIG = 1


class Child:
    """A process that runs `main(channel, *args)`, and the channel to talk to it."""

    def __init__(
        self, name: str, main: Callable[..., None], args: tuple[Any, ...], start: str | None
    ) -> None:
        self.name = name
        _check_not_daemonic(name)
        context: Any = get_context(start)
        try:
            self._start(context, main, args)
        except OSError as error:
            raise WorkerError(f"cannot start {name}: {error}") from error
        self.pid: int = self._process.pid
        self.busy = False
        self.death_fd = _open_death_fd(self._process)
        # At exit multiprocessing joins its children: they have to be told to go before that.
        self._finalizer = util.Finalize(None, _close, (self,), exitpriority=10)

    def _start(self, context: Any, main: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.channel, there = open_channel()
        try:
            ours = os.getpid(), self.channel.connection, _find_listener(context)
            everything = (*ours, main, there, args)
            self._process = context.Process(target=_run, args=everything, name=self.name)
            with _sigint_blocked():
                self._process.start()
        except BaseException:
            self.channel.close()
            raise
        finally:
            there.close_here()

    def describe_death(self) -> str:
        """Say what ended the process."""
        self._process.join()
        code = self._process.exitcode or 0
        if code >= 0:
            return f"{self.name} (pid {self.pid}) ended with exit code {code}"
        killed = f"{self.name} (pid {self.pid}) was killed by {signal.Signals(-code).name}"
        return killed + (" (out of memory?)" if code == -signal.SIGKILL else "")

    def close(self) -> None:
        """End the process: at once if it is idle, by SIGTERM if it is in the middle of work."""
        self._finalizer()


def _close(child: Child) -> None:
    child.channel.close()
    if child.busy:
        child._process.terminate()
    child._process.join(GRACE)
    if child._process.exitcode is None:
        child._process.kill()
        child._process.join()
    os.close(child.death_fd)
    child._process.close()


def _check_not_daemonic(name: str) -> None:
    if multiprocessing.current_process().daemon:
        raise WorkerError(
            f"cannot start {name}: this process is daemonic, as the workers of a DataLoader are, and "
            'may start no others. Use num_workers=0 there, or kind="threads" in the flow'
        )


def get_context(start: str | None) -> BaseContext:
    """Return the multiprocessing context of a start method; None is Python's default."""
    if start is not None:
        check_choice("start", start, tuple(multiprocessing.get_all_start_methods()))
    return multiprocessing.get_context(start)


def check_crosses(value: Any, what: str, start: str | None) -> None:
    """Raise TypeError if the start method has to pickle a value and cannot."""
    method = get_context(start).get_start_method()
    if method == "fork":
        return
    try:
        pickle.dumps(value)
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to a process started by {method!r}: {error}. Lambdas and "
            "functions defined inside functions need the start method 'fork'; otherwise define them at "
            "the top level of a module"
        ) from error


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT, so that a child cannot get it before it ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _open_death_fd(process: Any) -> int:
    """Return a descriptor that becomes readable when the process is dead.

    The sentinel alone is not enough: it is a pipe, which a sibling may inherit and hold open.
    """
    if hasattr(os, "pidfd_open"):
        try:
            return os.pidfd_open(process.pid)
        except OSError:  # dead and gone already, or an old kernel
            pass
    return os.dup(process.sentinel)


def _find_listener(context: Any) -> str | None:
    """Return the path of the socket of Python's fork server, which only our exit would remove."""
    if context.get_start_method() != "forkserver":
        return None
    forkserver.ensure_running()
    address: str | None = getattr(forkserver._forkserver, "_forkserver_address", None)
    return address


def _run(
    parent: int,
    their_end: Any,
    listener: str | None,
    main: Callable[..., None],
    channel: Channel,
    args: tuple[Any, ...],
) -> None:
    """Run the child process."""
    their_end.close()  # under fork we have it too, and would keep it open
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _die_with(parent)
    watch = None if listener is None else _watch_parent(listener)
    own_process()
    try:
        main(channel, *args)
    except (BrokenPipeError, ConnectionResetError):  # the consumer is gone
        pass
    finally:
        channel.close()
        if watch is not None and not channel.dismissed:
            watch.join(GRACE)  # the parent died, and this process ends in there


def _watch_parent(listener: str) -> threading.Thread:
    """Leave when the parent process has died, and remove what its fork server leaves in the temporary folder.

    A child of a fork server is not told by the kernel. Under other methods there is no such folder.
    """

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        with suppress(OSError):  # one of its other children was first, or more of it is in use
            os.unlink(listener)
        with suppress(OSError):
            os.rmdir(os.path.dirname(listener))
        os._exit(1)

    watch = threading.Thread(target=wait, name="watch-parent", daemon=True)
    watch.start()
    return watch


def _die_with(parent: int) -> None:
    """Leave when the parent process has died, even in the middle of work (Linux).

    The kernel sends the signal when the parent *thread* ends; the handler looks whether the
    process is still there. Elsewhere the closed socket says the same when the item in hand is done.
    """
    if not sys.platform.startswith("linux") or os.getppid() != parent:
        return
    number = signal.SIGRTMAX - 3  # intentional: one that neither users nor schedulers send

    def look(signum: int, frame: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    signal.signal(number, look)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
