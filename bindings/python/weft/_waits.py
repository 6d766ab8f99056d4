"""Waits that Ctrl-C ends.

Python's handler of a signal runs between two calls of C, so the main thread waits in short parts. A wait that
can't be taken up again after a timeout runs on a thread of its own instead, and the main thread waits for that."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any, Callable, TypeVar

from . import _handles
from ._native import lib
from .errors import bad_argument

Result = TypeVar("Result")

#: The longest part of a wait: an interrupt is served within it.
PART = 0.1
TIMEOUT: int = lib.WEFT_CODE_TIMEOUT
UNDER_WAY: int = lib.WEFT_CODE_UNDER_WAY

_main = threading.main_thread().ident


def given(timeout: float) -> float:
    """A timeout that a caller has given, in seconds. C has the world's own limit for one below 0, Python for None."""
    if not timeout >= 0:
        raise bad_argument("wait", f"a timeout of {timeout} seconds", "give 0 or more; None is the world's own limit")
    return timeout


def seconds(timeout: float | None) -> float:
    """A timeout as C has it, for calls that can't be divided."""
    return -1.0 if timeout is None else given(timeout)


def before_end(timeout: float | None, default: float) -> float:
    """A timeout of `timeout` without the time that a call takes to end its group, as Collectives::run in C++ has it."""
    total = default if timeout is None else given(timeout)
    return total - min(0.05, total / 8)


def in_parts(call: Callable[[float], Any], timeout: float | None, default: float) -> int:
    """Calls `call(seconds)` until it returns another code than a timeout's, or `timeout` has passed; None stands for
    `default`. `call` must be one that a timeout leaves as it was."""
    total = default if timeout is None else given(timeout)
    if total <= PART or threading.get_ident() != _main:
        return int(call(total))
    until = monotonic() + total
    left = total
    while True:
        code = int(call(PART if left > PART else max(left, 0.0)))
        if code != TIMEOUT or left <= PART:
            return code
        left = until - monotonic()


def first_part(timeout: float | None) -> float:
    """The part to begin with, for a call that goes on by rest() if that was not enough."""
    return PART if timeout is None or timeout > PART else given(timeout)


def rest(call: Callable[[float], Any], timeout: float | None, default: float, code: int) -> int:
    """Goes on after a first part that has returned `code`."""
    total = default if timeout is None else timeout
    if code != TIMEOUT or total <= PART:
        return code
    return in_parts(call, total - PART, default)


class Undivided:
    """A call of C on a thread of its own, because its wait can't be divided. Ctrl-C ends a wait for it, and the next
    one takes it up. `hold` keeps what the call uses until its end."""

    def __init__(self, call: Callable[[], Any], hold: Any) -> None:
        self._done = threading.Event()
        self._failure: BaseException | None = None
        held = [hold]

        def run() -> None:
            try:
                call()
            except BaseException as error:
                self._failure = error.with_traceback(None)
            held.clear()
            self._done.set()
            _handles.abandoned.discard(self)

        self._thread = threading.Thread(target=run, name="weft call", daemon=True)

    def wait(self) -> None:
        """Until its end, of which result() tells. The first wait begins the call: its caller knows this object by
        then."""
        try:
            if self._thread.ident is None:
                self._thread.start()
            while not self._done.wait(PART):
                pass
        except BaseException:
            if not self._done.is_set():
                _handles.abandoned.add(self)
            raise
        _handles.abandoned.discard(self)

    def result(self) -> None:
        """Raises its failure. Requires that it has ended."""
        if self._failure is not None:
            raise self._failure


def is_main() -> bool:
    """Whether this thread is the one that signals interrupt."""
    return threading.get_ident() == _main


def on_thread(call: Callable[[], Result], undo: Callable[[Result], Any] | None = None) -> Result:
    """Runs a control call whose wait can't be divided. If Ctrl-C ends the wait, the call goes on to its own end, as
    after a timeout, and `undo` then frees what it returns."""
    if threading.get_ident() != _main:
        return call()
    lock = threading.Lock()
    done = threading.Event()
    results: list[Result] = []
    failures: list[BaseException] = []
    abandoned = False

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            failures.append(error)
        else:
            with lock:
                results.append(result)
                late = abandoned
            if late and undo is not None:
                undo(result)
        done.set()
        _handles.abandoned.discard(done)

    threading.Thread(target=run, name="weft call", daemon=True).start()
    try:
        while not done.wait(PART):
            pass
    except BaseException:
        with lock:
            abandoned = True
            if not done.is_set():
                _handles.abandoned.add(done)
            late = bool(results)
        if late and undo is not None:
            undo(results[0])
        raise
    if failures:
        # Without the thread's frames, which would keep this call's objects alive.
        raise failures[0].with_traceback(None)
    return results[0]
