"""Signals: 64-bit words of one rank that all ranks can add to and wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable

from . import _waits
from ._handles import Node, Owner
from ._native import ffi, lib
from .errors import bad_argument, c_text, check
from .slot import RemoteSlot, Waitable
from .world import int_from, ranks_of

if TYPE_CHECKING:
    from .world import World

_MASK = (1 << 64) - 1


class Signal(Owner, Waitable):
    """A word of this rank, `Signal.expose(world, name)`. Any thread may use it, except to close it."""

    def __init__(self, world: World, pointer: Any) -> None:
        """Not for users: call Signal.expose()."""
        self._world = world
        self._node = Node(pointer, lib.weft_signal_close, world._node, name="the signal")

    @staticmethod
    def expose(world: World, name: str, value: int = 0) -> Signal:
        """Exposes a signal of that initial value. A name has 1 to 200 bytes."""
        out = ffi.new("weft_signal**")
        check(lib.weft_signal_expose(world._pointer("expose"), c_text(name), value & _MASK, out))
        return Signal(world, out[0])

    @property
    def value(self) -> int:
        return int_from(lib.weft_signal_value, self._pointer("value"), kind="uint64_t*")

    def fetch_add(self, amount: int) -> int:
        """Adds, modulo 2^64, and returns the value before."""
        return int_from(lib.weft_signal_fetch_add, self._pointer("fetch_add"), amount & _MASK, kind="uint64_t*")

    def compare_swap(self, expected: int, desired: int) -> int:
        """Stores `desired` if the value is `expected`, and returns the value before."""
        return int_from(lib.weft_signal_compare_swap, self._pointer("compare_swap"), expected & _MASK, desired & _MASK,
                        kind="uint64_t*")

    def wait_at_least(self, least: int, timeout: float | None = None) -> int:
        """Waits until the value is at least `least`, and returns it."""
        pointer = self._pointer("wait_at_least")
        out = ffi.new("uint64_t*")
        check(_waits.in_parts(lambda seconds: lib.weft_signal_wait_at_least(pointer, least, seconds, out), timeout,
                              self._world.timeout))
        return int(out[0])

    async def reached(self, least: int, timeout: float | None = None) -> int:
        """wait_at_least() for asyncio."""
        await self._wait_in_loop(lambda: self.value >= least, timeout)
        return self.wait_at_least(least, 0.0)

    def also_needs(self, ranks: Iterable[int]) -> None:
        """Later waits also end when one of `ranks` is dead or has left."""
        array = ranks_of(ranks)
        check(lib.weft_signal_also_needs(self._pointer("also_needs"), array, len(array)))


class RemoteSignal(Owner):
    """The signal of another rank, `RemoteSignal.attach(world, owner, name)`."""

    def __init__(self, world: World, pointer: Any) -> None:
        """Not for users: call RemoteSignal.attach()."""
        self._world = world
        self._node = Node(pointer, lib.weft_remote_signal_close, world._node, name="the remote signal")

    @staticmethod
    def attach(world: World, owner: int, name: str, timeout: float | None = None) -> RemoteSignal:
        """Attaches to the signal `name` of rank `owner`, waiting for it to be exposed."""
        pointer, named = world._pointer("attach"), c_text(name)
        out = ffi.new("weft_remote_signal**")
        check(_waits.in_parts(lambda seconds: lib.weft_remote_signal_attach(pointer, owner, named, seconds, out),
                              timeout, world.timeout))
        return RemoteSignal(world, out[0])

    @property
    def owner(self) -> int:
        return int_from(lib.weft_remote_signal_owner, self._pointer("owner"))

    @property
    def is_direct(self) -> bool:
        """True if operations are this rank's own loads and stores, False if they are messages."""
        return bool(int_from(lib.weft_remote_signal_is_direct, self._pointer("is_direct")))

    def add(self, amount: int) -> None:
        """Adds and returns at once. The owner sees the sum after every put and message to it that had ended before."""
        check(lib.weft_remote_signal_add(self._pointer("add"), amount & _MASK))

    def fetch_add(self, amount: int, timeout: float | None = None) -> int:
        """Adds and returns the value before. After Timeout, or Ctrl-C, the operation may still take effect."""
        return self._fetch(lib.weft_remote_signal_fetch_add, amount & _MASK, timeout=timeout)

    def compare_swap(self, expected: int, desired: int, timeout: float | None = None) -> int:
        """Stores `desired` if the value is `expected`, and returns the value before; else as fetch_add()."""
        return self._fetch(lib.weft_remote_signal_compare_swap, expected & _MASK, desired & _MASK, timeout=timeout)

    def _fetch(self, call: Any, *arguments: int, timeout: float | None) -> int:
        pointer = self._pointer("fetch")
        seconds = self._world.timeout if timeout is None else _waits.given(timeout)
        out = ffi.new("uint64_t*")

        def fetch() -> int:
            check(call(pointer, *arguments, seconds, out))
            return int(out[0])

        return fetch() if self.is_direct else _waits.on_thread(fetch)

    def put(self, slot: RemoteSlot, tensor: Any, amount: int, timeout: float | None = None) -> None:
        """Puts into a slot of the same owner, waits until it is delivered, then adds: a rank that sees the new value
        also sees the tensor. Nothing is added if the put fails."""
        if slot.owner != self.owner:
            raise bad_argument("put", f"the slot is rank {slot.owner}'s, the signal rank {self.owner}'s",
                               "give both of one rank")
        request = slot.put_start(tensor, until="delivered")
        request.wait(timeout)
        self.add(amount)
