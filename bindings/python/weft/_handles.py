"""Owners of C handles: each is freed once, behind those that were made from it, whatever order Python drops them in.

A C handle must be freed before the one that it was made from, but the garbage collector ends the objects of a cycle
in any order. So the objects that users see own nodes, and a node that its object has dropped is freed once no node
depends on it."""

from __future__ import annotations

import atexit
import threading
from typing import Any, Callable, TypeVar

from ._native import ffi, lib
from .errors import BadArgument, Closed, check

Self = TypeVar("Self", bound="Owner")


class Node:
    """One C handle. `free` takes the pointer and returns a code."""

    __slots__ = ("pointer", "free", "parent", "line", "dependents", "holds", "dropped", "name")

    def __init__(self, pointer: Any, free: Callable[[Any], int], parent: Node | None, line: Line | None = None,
                 name: str = "") -> None:
        self.pointer = pointer
        self.free = free
        self.parent = parent
        self.line = line if line is not None else Line()
        self.dependents: set[Node] = set()
        self.holds: set[int] = set()  #: arrays of its memory, which may outlive it
        self.dropped = False
        self.name = name
        (_roots if parent is None else parent.dependents).add(self)

    def drop(self) -> None:
        """Frees the handle, now or when the last that depends on it is freed. May be called by the garbage collector
        on any thread, so a handle that another thread's call uses is freed after that call."""
        if self.dropped:
            return
        self.dropped = True
        self.line.free_soon(self)

    def free_if_dropped(self) -> None:
        """With the line held."""
        if self.dropped and not self.dependents and not self.holds and self.pointer != ffi.NULL:
            pointer, self.pointer = self.pointer, ffi.NULL
            self.free(pointer)
            self._leave_parent()

    def close(self, operation: str) -> None:
        """Frees the handle at the user's wish, who gets its failure; once its last array is gone, if there are any.
        Twice is once."""
        if self.dropped:
            return
        with Use(self.line, operation):
            open_still = sum(not node.dropped for node in list(self.dependents))
            if open_still:
                raise BadArgument(f"{open_still} handles of {self.name} are still open", operation=operation,
                                  hint="close or drop its requests, arrivals and plans first")
            if self.holds or self.dependents:
                self.dropped = True
                return
            check(self.free(self.pointer))
            self.pointer = ffi.NULL
            self.dropped = True
            self._leave_parent()

    def _leave_parent(self) -> None:
        parent, self.parent = self.parent, None
        if parent is None:
            _roots.discard(self)
            return
        parent.dependents.discard(self)
        if parent.dropped:
            if parent.line is self.line:
                parent.free_if_dropped()
            else:
                parent.line.free_soon(parent)

    def end(self) -> bool:
        """At the interpreter's exit: frees the handle behind all that depend on it. False if a thread's call still uses
        one of them."""
        free = all([node.end() for node in list(self.dependents)])
        if not free or not self.line.lock.acquire(False):
            return False
        try:
            self.dropped = True
            self.holds.clear()
            self.free_if_dropped()
        finally:
            self.line.lock.release()
        return True


class Hold:
    """Kept by an array of a handle's memory: the handle is freed after it."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node
        node.holds.add(id(self))

    def __del__(self) -> None:
        self.node.holds.discard(id(self))
        if self.node.dropped and not exiting:
            self.node.line.free_soon(self.node)


#: Handles that were made from no other: worlds, and readers outside a job.
_roots: set[Node] = set()


class Lock:
    """A lock that calls of C can take too: those that Python makes most often."""

    __slots__ = ("flag",)

    def __init__(self, flag: Any = None) -> None:
        self.flag = ffi.new("int*") if flag is None else flag

    def acquire(self, _: bool = False) -> bool:
        return bool(lib.weft_python_take(self.flag))

    def release(self) -> None:
        self.flag[0] = 0


class Line:
    """Handles that one thread may use at a time: a slot with its requests or arrivals."""

    __slots__ = ("lock", "waiting")

    def __init__(self, lock: Lock | None = None) -> None:
        self.lock: Any = threading.Lock() if lock is None else lock
        self.waiting: list[Node] = []  #: dropped while the line was in use

    def free_soon(self, node: Node) -> None:
        self.waiting.append(node)
        self.free_waiting()

    def free_waiting(self) -> None:
        while self.waiting and self.lock.acquire(False):
            try:
                while self.waiting:
                    self.waiting.pop().free_if_dropped()
            finally:
                self.lock.release()


class Use:
    """`with Use(line, operation):` a call by this thread; another thread's is refused meanwhile."""

    __slots__ = ("line", "operation")

    def __init__(self, line: Line, operation: str) -> None:
        self.line = line
        self.operation = operation

    def __enter__(self) -> None:
        if not self.line.lock.acquire(False):
            raise busy(self.operation)

    def __exit__(self, *_: object) -> None:
        self.line.lock.release()
        if self.line.waiting:
            self.line.free_waiting()


def no_copy(value: object) -> TypeError:
    """For __reduce_ex__(), which copies, too, call."""
    return TypeError(f"a weft.{type(value).__name__} stands for a handle of this process: it can't be copied or "
                     "pickled")


def busy(operation: str) -> BadArgument:
    return BadArgument("another thread uses this handle now", operation=operation,
                       hint="one thread at a time: give each thread a slot of its own, or take turns by a lock")


class Owner:
    """Base of the objects that own a node: closed once, as a context manager or by close(), or when dropped."""

    _node: Node

    def close(self) -> None:
        """Frees the handle. Calling it again does nothing."""
        self._node.close("close")

    @property
    def closed(self) -> bool:
        return self._node.dropped

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        node = getattr(self, "_node", None)
        if node is not None and not exiting:
            node.drop()

    def __reduce_ex__(self, _: Any) -> Any:
        raise no_copy(self)

    def _pointer(self, operation: str) -> Any:
        if self._node.dropped:
            raise Closed("this handle is closed", operation=operation, hint="keep it until its last use")
        return self._node.pointer


#: True from the interpreter's exit on: what is dropped later is not freed, since its owner is.
exiting = False
#: Control calls that Ctrl-C has left to themselves, and that still run.
abandoned: set[object] = set()


def _exit() -> None:
    """Leaves each world at once, as the end of a C++ program does, and lets the launcher know that this process ends in
    order."""
    global exiting
    exiting = True
    if abandoned:
        return
    for node in list(_roots):
        node.end()


atexit.register(_exit)
