"""Waits of asyncio: the loop watches the world's event descriptor, so that no thread waits."""

from __future__ import annotations

import asyncio
import weakref
from time import monotonic
from typing import Any, Callable

from ._native import ffi, lib
from .errors import bad_argument, check

#: Operations that progress only while they are tested (messages, collectives) are tested this often, first and at most.
_FIRST_LOOK, _LONGEST_LOOK = 0.0005, 0.02


class Events:
    """The events of one world in one loop: wakes everything that waits, which then looks again."""

    def __init__(self, world: Any) -> None:
        out = ffi.new("int*")
        check(lib.weft_world_event_fd(world, out))
        self.world = world
        self.descriptor = int(out[0])
        self.waiting: set[asyncio.Future[None]] = set()
        self.watched = False

    def wake(self) -> None:
        lib.weft_world_clear_event(self.world)
        for future in self.waiting:
            if not future.done():
                future.set_result(None)
        self.waiting.clear()

    async def next(self, seconds: float) -> None:
        """Returns at the next event, or after `seconds`."""
        # Not kept: a loop that has ended goes, and with it its entry in Loops.
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self.waiting.add(future)
        if not self.watched:
            loop.add_reader(self.descriptor, self.wake)
            self.watched = True
        timer = loop.call_later(seconds, _look, future)
        try:
            await future
        finally:
            timer.cancel()
            self.waiting.discard(future)
            if not self.waiting and self.watched:
                # A loop that nobody waits in must not be kept alive, nor woken, by the descriptor.
                loop.remove_reader(self.descriptor)
                self.watched = False


def _look(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Loops:
    """The events of one world, by loop."""

    def __init__(self) -> None:
        self.loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Events] = weakref.WeakKeyDictionary()

    def of(self, world: Any, loop: asyncio.AbstractEventLoop) -> Events:
        found = self.loops.get(loop)
        if found is None:
            found = self.loops[loop] = Events(world)
        return found


async def until(loops: Loops, world: Any, holds: Callable[[], bool], timeout: float) -> bool:
    """Waits until `holds()`; False after `timeout` seconds."""
    if timeout != timeout:
        raise bad_argument("await", "the timeout is not a number", "give seconds")
    if holds():
        return True
    events = loops.of(world, asyncio.get_running_loop())
    end = monotonic() + timeout
    pause = _FIRST_LOOK
    while True:
        left = end - monotonic()
        if left <= 0:
            return holds()
        await events.next(min(pause, left))
        if holds():
            return True
        pause = min(2 * pause, _LONGEST_LOOK)
