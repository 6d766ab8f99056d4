"""Slots: named memory of a rank that one other rank puts tensors into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterable

from . import _dtypes, _enums, _events, _memory, _waits
from ._handles import Line, Lock, Node, Owner, Use, busy
from ._memory import Tensor
from ._native import ffi, lib
from ._waits import PART
from .arrival import Arrival
from .device import Memory, owners_place
from .errors import bad_argument, c_text, check, last_error, text
from .world import int_from, ranks_of

if TYPE_CHECKING:
    from .world import World

_put = lib.weft_python_put
_wait = lib.weft_slot_wait


@dataclass(frozen=True)
class SlotSpec:
    """A slot's properties. Both ends declare them, and they are compared when the writer attaches."""

    name: str  #: unique within its owner; at most 200 bytes
    shape: Any = ()  #: of a dynamic slot only the number of dimensions counts
    dtype: Any = "f32"  #: a name as "f32" or "bf16", or all that numpy.dtype() takes
    depth: int = 1  #: the number of buffers, 1 to 4096
    flow: str = "credits"  #: or "unsafe_synchronous": the training loop guarantees that buffers are free
    placement: str = "fixed"  #: or "dynamic": each arrival has memory of its own, of any shape; depth at most 32
    memory: Memory | None = None  #: the owner's, who alone gives it: where arrivals lie, in host memory without


class _CSpec:
    """A SlotSpec as C takes it."""

    def __init__(self, spec: SlotSpec, operation: str, memory: Tensor | None = None) -> None:
        if not isinstance(spec, SlotSpec):
            raise bad_argument(operation, f"a {type(spec).__name__} is no weft.SlotSpec", "")
        self.name = ffi.new("char[]", c_text(spec.name))
        self.dims = _memory.dims_of(spec.shape, operation)
        self.memory = memory
        depth = spec.depth
        if not 1 <= depth <= 4096:
            raise bad_argument(operation, f"depth is {depth}", "1 to 4096 buffers")
        self.spec = ffi.new("weft_slot_spec*", (self.name, _dtypes.number_of(spec.dtype, operation), self.dims,
                                                len(self.dims), depth))
        self.options = ffi.new("weft_slot_options*")
        self.options.struct_size = ffi.sizeof("weft_slot_options")
        self.options.flow = _enums.FLOW(spec.flow, operation)
        self.options.placement = _enums.PLACEMENT(spec.placement, operation)
        if memory is not None:
            self.options.memory = memory._handle
        self.place = owners_place(spec.memory, operation)
        if self.place is not None:
            self.options.place = self.place


def spec_from(call: Any, pointer: Any) -> tuple[SlotSpec, int]:
    """The properties of a slot's end, and its owner."""
    info = ffi.new("weft_slot_info*")
    info.struct_size = ffi.sizeof("weft_slot_info")
    check(call(pointer, info))
    spec = SlotSpec(text(info.name), tuple(info.dims[0:info.ndims]), _dtypes.NAMES[info.dtype], info.depth,
                    _enums.FLOW.names[info.flow], _enums.PLACEMENT.names[info.placement])
    return spec, int(info.owner)


def expose(world: World, spec: SlotSpec, memory: Any) -> Slot:
    tensor = None if memory is None else _memory.tensor_of(memory, "expose", writable=True)
    wanted = _CSpec(spec, "expose", tensor)
    out = ffi.new("weft_slot**")
    check(lib.weft_slot_expose_with(world._pointer("expose"), wanted.spec, wanted.options, out))
    slot = Slot(world, out[0])
    slot.spec = replace(slot.spec, memory=spec.memory)
    return slot


def attach(world: World, owner: int, spec: SlotSpec | str, timeout: float | None) -> RemoteSlot:
    pointer = world._pointer("attach")
    out = ffi.new("weft_remote_slot**")
    if isinstance(spec, str):
        name = ffi.new("char[]", c_text(spec))

        def call(seconds: float) -> int:
            code: int = lib.weft_slot_attach_by_name(pointer, owner, name, seconds, out)
            return code
    else:
        wanted = _CSpec(spec, "attach")

        def call(seconds: float) -> int:
            code: int = lib.weft_slot_attach_with(pointer, owner, wanted.spec, wanted.options, seconds, out)
            return code

    check(_waits.in_parts(call, timeout, world.timeout))
    return RemoteSlot(world, out[0])


class Waitable:
    """What asyncio can wait for: `await handle`, or `await handle.ended(timeout)`."""

    _world: World

    def _wait_in_loop(self, test: Callable[[], bool], timeout: float | None) -> Any:
        """A coroutine that returns when `test()` holds or the time is over."""
        world = self._world
        seconds = world.timeout if timeout is None else _waits.given(timeout)
        return _events.until(world._loops, world._pointer("await"), test, seconds)


class Slot(Owner, Waitable):
    """The owner's end of a slot, made by World.expose(). One thread at a time; another's call raises BadArgument."""

    def __init__(self, world: World, pointer: Any) -> None:
        self._world = world
        self._node = Node(pointer, lib.weft_slot_close, world._node, name="the slot")
        self._line = self._node.line
        self._lock = self._line.lock
        self._out = ffi.new("weft_arrival**")
        self._allocator: Any = None
        self.spec, _ = spec_from(lib.weft_slot_get_info, pointer)

    def wait(self, timeout: float | None = None) -> Arrival:
        """Waits for the next tensor, in the order of the puts."""
        if not self._lock.acquire(False):
            raise busy("wait")
        try:
            out = self._out
            code = _wait(self._node.pointer, PART if timeout is None or timeout > PART else _waits.given(timeout), out)
            if code:
                self._wait_on(code, timeout)
            return Arrival(self, out[0])
        finally:
            self._lock.release()
            if self._line.waiting:
                self._line.free_waiting()

    def _wait_on(self, code: int, timeout: float | None) -> None:
        pointer = self._pointer("wait")
        code = _waits.rest(lambda seconds: _wait(pointer, seconds, self._out), timeout, self._world.timeout, code)
        if code:
            failure = last_error(code)
            if self._allocator is not None:
                self._allocator.raise_failure()
            raise failure

    @property
    def ready(self) -> bool:
        """True if wait() would return at once."""
        with Use(self._node.line, "ready"):
            return bool(int_from(lib.weft_slot_ready, self._pointer("ready")))

    async def arrival(self, timeout: float | None = None) -> Arrival:
        """wait() for asyncio."""
        if not await self._wait_in_loop(lambda: self.ready, timeout):
            return self.wait(0.0)  # which says what is lacking
        return self.wait(0.0)

    def __await__(self) -> Generator[Any, None, Arrival]:
        return self.arrival().__await__()

    def also_needs(self, ranks: Iterable[int], needed: str = "always") -> None:
        """Waits also end when one of `ranks` is dead, or, except with needed="until_it_leaves", has left."""
        array = ranks_of(ranks)
        with Use(self._node.line, "also_needs"):
            check(lib.weft_slot_also_needs(self._pointer("also_needs"), array, len(array),
                                           _enums.NEEDED(needed, "also_needs")))

    def allocate_with(self, allocate: Callable[[Any, tuple[int, ...]], Any]) -> None:
        """For a dynamic slot: arrivals are read into the arrays that `allocate(dtype, shape)` makes, instead of the
        arena."""
        from ._callbacks import Allocator

        made = Allocator(allocate)
        with Use(self._node.line, "allocate_with"):
            check(lib.weft_slot_allocate_with(self._pointer("allocate_with"), lib.weft_python_allocate, made.context))
        self._allocator = made

    def __repr__(self) -> str:
        return f"weft.Slot({self.spec.name!r}{', closed' if self.closed else ''})"


class RemoteSlot(Owner):
    """The writer's end of a slot, made by World.attach(). One thread at a time; another's call raises BadArgument."""

    def __init__(self, world: World, pointer: Any) -> None:
        self._world = world
        lock = Lock()
        self._flag = lock.flag
        self._line = Line(lock)
        self._last = _memory.Last("put")
        self._node = Node(pointer, lib.weft_remote_slot_close, world._node, self._line, "the remote slot")
        self.spec, self.owner = spec_from(lib.weft_remote_slot_get_info, pointer)

    def put(self, tensor: Any, timeout: float | None = None) -> None:
        """Moves a tensor into the slot's next buffer and notifies the owner; then the tensor may be written again.

        After Timeout nothing was sent. After UnderWay (between hosts, and into a dynamic slot) the put goes on,
        and the tensor must not be written until put_wait() has returned."""
        pair = self._last.pair
        if tensor is not pair[0]:
            pair = self._last.take(tensor)
        code = _put(self._flag, self._node.pointer, pair[1]._handle,
                    PART if timeout is None or timeout > PART else _waits.given(timeout))
        if code:
            self._put_on(pair[1], code, timeout)
        if self._line.waiting:
            self._line.free_waiting()

    def _put_on(self, tensor: Tensor, code: int, timeout: float | None) -> None:
        if code < 0:
            raise busy("put")
        total = self._world.timeout if timeout is None else _waits.given(timeout)
        if code in (_waits.TIMEOUT, _waits.UNDER_WAY) and total > PART:
            until = monotonic() + total - PART
            with Use(self._line, "put"):
                pointer = self._pointer("put")
                code = _waits.rest(lambda seconds: lib.weft_put(pointer, tensor._handle, seconds), timeout, total, code)
                if code == _waits.UNDER_WAY and (left := until - monotonic()) > 0:
                    code = _under_way(pointer, left)
                failure = last_error(code) if code else None
        else:
            self._pointer("put")
            failure = last_error(code)
        if failure is not None:
            raise failure

    def put_wait(self, timeout: float | None = None) -> None:
        """Waits for the put that an earlier put() has left under way; UnderWay if it still is."""
        with Use(self._node.line, "put_wait"):
            total = self._world.timeout if timeout is None else _waits.given(timeout)
            check(_under_way(self._pointer("put_wait"), total))

    def put_start(self, parts: Any, until: str = "reusable") -> Request:
        """Begins to move a tensor, or a list of tensors whose elements, in this order, fill the slot's next buffer.
        Their memory is lent to weft until the request has ended. until="delivered": ends when the owner can see it."""
        many = parts if isinstance(parts, (list, tuple)) else [parts]
        tensors, handles = _memory.tensor_list(many, "put")
        out = ffi.new("weft_request**")
        with Use(self._node.line, "put"):
            check(lib.weft_put_start(self._pointer("put"), handles, len(tensors), _enums.UNTIL(until, "put"), out))
            return Request(self, out[0], any(tensor.storage == "wrapped" for tensor in tensors))

    def also_needs(self, ranks: Iterable[int], needed: str = "always") -> None:
        """As Slot.also_needs()."""
        array = ranks_of(ranks)
        with Use(self._node.line, "also_needs"):
            check(lib.weft_remote_slot_also_needs(self._pointer("also_needs"), array, len(array),
                                                  _enums.NEEDED(needed, "also_needs")))

    @property
    def queue_pairs(self) -> int:
        """The number of queue pairs to the owner; 1 where the fabric has no such thing."""
        return int_from(lib.weft_remote_slot_queue_pairs, self._pointer("queue_pairs"))

    def use_queue_pair(self, index: int) -> None:
        """Pins this slot's puts to a queue pair. Only before the first put."""
        check(lib.weft_remote_slot_use_queue_pair(self._pointer("use_queue_pair"), index))

    def __repr__(self) -> str:
        return f"weft.RemoteSlot({self.spec.name!r} of rank {self.owner}{', closed' if self.closed else ''})"


def _under_way(pointer: Any, seconds: float) -> int:
    """Waits in parts for a put that is under way."""
    until = monotonic() + seconds
    while True:
        left = until - monotonic()
        code: int = lib.weft_put_wait(pointer, min(PART, max(left, 0.0)))
        if code != _waits.UNDER_WAY or left <= PART:
            return code


class Request(Owner, Waitable):
    """A put that is under way. Dropping it lets the put go on."""

    def __init__(self, remote: RemoteSlot, pointer: Any, staged: bool) -> None:
        self._remote = remote
        self._world = remote._world
        self._node = Node(pointer, lib.weft_request_free, remote._node, remote._node.line, "the request")
        #: True if the tensor lies in memory that weft does not know, and so is copied once more.
        self.staged = staged

    def test(self) -> bool:
        """True if the put has ended, well or not. Never blocks."""
        with Use(self._node.line, "test"):
            return bool(int_from(lib.weft_request_test, self._pointer("test")))

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the put's end and raises its failure. Timeout leaves it under way."""
        with Use(self._node.line, "wait"):
            pointer = self._pointer("wait")
            code = lib.weft_request_wait(pointer, _waits.first_part(timeout))
            if code:
                check(_waits.rest(lambda seconds: lib.weft_request_wait(pointer, seconds), timeout,
                                  self._world.timeout, code))

    def cancel(self) -> None:
        """Ends a put that has not begun to move data. BadArgument if it has: wait for it instead. Of one that has ended
        this raises the failure, if it has failed."""
        with Use(self._node.line, "cancel"):
            code = lib.weft_request_cancel(self._pointer("cancel"))
            if code != lib.WEFT_CODE_CANCELLED:
                check(code)

    async def ended(self, timeout: float | None = None) -> None:
        """wait() for asyncio."""
        await self._wait_in_loop(self.test, timeout)
        self.wait(0.0)

    def __await__(self) -> Generator[Any, None, None]:
        return self.ended().__await__()


