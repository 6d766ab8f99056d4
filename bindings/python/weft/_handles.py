"""Owners of C handles: each is freed once, behind those that were made from it, whatever order Python drops them in.

A C handle must be freed before the one that it was made from, but the garbage collector ends the objects of a cycle
in any order. So the objects that users see own nodes, and a node that its object has dropped is freed once no node
depends on it."""

from __future__ import annotations

import threading
from typing import Any, Callable

from ._native import ffi
from .errors import BadArgument, Closed, check


class Node:
    """One C handle. `free` takes the pointer and returns a code."""

    __slots__ = ("pointer", "free", "parent", "line", "dependents", "dropped", "name")

    def __init__(self, pointer: Any, free: Callable[[Any], int], parent: Node | None, line: Line | None = None,
                 name: str = "") -> None:
        self.pointer = pointer
        self.free = free
        self.parent = parent
        self.line = line if line is not None else Line()
        self.dependents = 0
        self.dropped = False
        self.name = name
        if parent is not None:
            parent.dependents += 1

    def drop(self) -> None:
        """Frees the handle, now or when the last that depends on it is freed. May be called by the garbage collector
        on any thread, so a handle that another thread's call uses is freed after that call."""
        if self.dropped:
            return
        self.dropped = True
        self.line.free_soon(self)

    def free_now(self) -> None:
        """With the line held."""
        if not self.dropped or self.dependents or self.pointer == ffi.NULL:
            return
        pointer, self.pointer = self.pointer, ffi.NULL
        self.free(pointer)
        parent, self.parent = self.parent, None
        if parent is not None:
            parent.dependents -= 1
            if parent.dropped:
                if parent.line is self.line:
                    parent.free_now()
                else:
                    parent.line.free_soon(parent)

    def close(self, operation: str) -> None:
        """Frees the handle at the user's wish, who gets its failure. Twice is once."""
        if self.dropped:
            return
        with Use(self.line, operation):
            if self.dependents:
                raise BadArgument(f"{self.dependents} handles of {self.name or 'it'} are still open",
                                  operation=operation, hint="close or drop its requests, arrivals and plans first")
            pointer = self.pointer
            check(self.free(pointer))
            self.pointer = ffi.NULL
            self.dropped = True
            parent, self.parent = self.parent, None
            if parent is not None:
                parent.dependents -= 1
                if parent.dropped:
                    parent.line.free_soon(parent)


class Line:
    """Handles that one thread may use at a time: a slot with its requests or arrivals."""

    __slots__ = ("lock", "waiting")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: list[Node] = []  #: dropped while the line was in use

    def free_soon(self, node: Node) -> None:
        self.waiting.append(node)
        self.free_waiting()

    def free_waiting(self) -> None:
        while self.waiting and self.lock.acquire(False):
            try:
                while self.waiting:
                    self.waiting.pop().free_now()
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

    def __del__(self) -> None:
        node = getattr(self, "_node", None)
        if node is not None and not exiting:
            node.drop()

    def _pointer(self, operation: str) -> Any:
        if self._node.dropped:
            raise Closed("this handle is closed", operation=operation, hint="keep it until its last use")
        return self._node.pointer


#: True from the interpreter's exit on: the process's end then frees everything, and tells the peers.
exiting = False


def _exit() -> None:
    global exiting
    exiting = True


def install_exit() -> None:
    import atexit

    atexit.register(_exit)


install_exit()
