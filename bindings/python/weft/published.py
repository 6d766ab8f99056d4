"""Published slots: their owner makes versions visible, and any number of ranks read the newest. And wait_any()."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generator, Iterable, Sequence

from . import _dtypes, _enums, _memory, _waits
from ._handles import Hold, Line, Node, Owner, Use, busy
from ._memory import Tensor
from ._native import ffi, lib
from .arrival import Arrival
from .device import Memory, owners_place
from .errors import Timeout, bad_argument, c_text, check
from .slot import Request, Slot, SlotSpec, Waitable, spec_from
from .world import int_from, ranks_of

if TYPE_CHECKING:
    from .world import World


@dataclass(frozen=True)
class PublishedSpec:
    """A published slot's properties. Owner and readers give them, and they are compared when a reader attaches."""

    name: str  #: unique among all slots of its owner
    shape: Any = ()
    dtype: Any = "f32"
    depth: int = 1  #: versions that may be viewed or filled at once, 1 to 4096
    flow: str = "credits"  #: or "unsafe_synchronous": the owner may fill a buffer that is viewed
    memory: Memory | None = None  #: the owner's, who alone gives it: where it fills versions, in host memory without


class _CSpec:
    def __init__(self, spec: PublishedSpec, operation: str) -> None:
        if not isinstance(spec, PublishedSpec):
            raise bad_argument(operation, f"a {type(spec).__name__} is no weft.PublishedSpec", "")
        if not 1 <= spec.depth <= 4096:
            raise bad_argument(operation, f"depth is {spec.depth}", "1 to 4096 versions")
        self.name = ffi.new("char[]", c_text(spec.name))
        self.dims = _memory.dims_of(spec.shape, operation)
        self.spec = ffi.new("weft_published_spec*")
        self.spec.struct_size = ffi.sizeof("weft_published_spec")
        self.spec.name, self.spec.dims, self.spec.ndims = self.name, self.dims, len(self.dims)
        self.spec.dtype = _dtypes.number_of(spec.dtype, operation)
        self.spec.depth, self.spec.flow = spec.depth, _enums.FLOW(spec.flow, operation)
        self.place = owners_place(spec.memory, operation)
        if self.place is not None:
            self.spec.place = self.place


def expose(world: World, spec: PublishedSpec) -> PublishedSlot:
    wanted = _CSpec(spec, "expose")
    out = ffi.new("weft_published_slot**")
    check(lib.weft_published_slot_expose(world._pointer("expose"), wanted.spec, out))
    return PublishedSlot(world, out[0])


def attach(world: World, owner: int, spec: PublishedSpec | str, timeout: float | None) -> PublishedReader:
    pointer = world._pointer("attach")
    out = ffi.new("weft_published_reader**")
    if isinstance(spec, str):
        name = ffi.new("char[]", c_text(spec))

        def call(seconds: float) -> int:
            code: int = lib.weft_published_reader_attach_by_name(pointer, owner, name, seconds, out)
            return code
    else:
        wanted = _CSpec(spec, "attach")

        def call(seconds: float) -> int:
            code: int = lib.weft_published_reader_attach(pointer, owner, wanted.spec, seconds, out)
            return code

    check(_waits.in_parts(call, timeout, world.timeout))
    return PublishedReader(world, out[0])


class PublishedSlot(Owner):
    """The owner's end of a slot that it publishes. One thread at a time."""

    def __init__(self, world: World, pointer: Any) -> None:
        self._world = world
        self._node = Node(pointer, lib.weft_published_slot_close, world._node, name="the published slot")
        self._next: Tensor | None = None
        self.spec, _ = spec_from(lib.weft_published_slot_get_info, pointer)

    def next(self, timeout: float | None = None) -> Tensor:
        """The buffer to fill for the next version, until publish(): a Tensor, `.array` of which is numpy's. Waits while
        every buffer is viewed."""
        out = ffi.new("weft_tensor**")
        with Use(self._node.line, "next"):
            pointer = self._pointer("next")
            check(_waits.in_parts(lambda seconds: lib.weft_published_slot_next(pointer, seconds, out), timeout,
                                  self._world.timeout))
        self._next = _memory.Lent(out[0], Hold(self._node))
        return self._next

    def publish(self) -> None:
        """Makes the buffer of next() visible to the readers. Its array can't be written any more."""
        with Use(self._node.line, "publish"):
            check(lib.weft_published_slot_publish(self._pointer("publish")))
        filled, self._next = self._next, None
        array = None if filled is None else filled._whole()
        if array is not None:
            array.flags.writeable = False

    def close(self) -> None:
        """Ends the slot; its memory once the last array of next() is gone."""
        self._next = None
        super().close()

    @property
    def readers(self) -> int:
        """The number of ranks that are attached now."""
        return int_from(lib.weft_published_slot_readers, self._pointer("readers"))

    def also_needs(self, ranks: Iterable[int], needed: str = "always") -> None:
        """next() also ends when one of `ranks` is dead or has left."""
        array = ranks_of(ranks)
        check(lib.weft_published_slot_also_needs(self._pointer("also_needs"), array, len(array),
                                                 _enums.NEEDED(needed, "also_needs")))


class PublishedReader(Owner, Waitable):
    """A reader's end of a published slot. One thread at a time."""

    def __init__(self, world: World, pointer: Any) -> None:
        self._world = world
        self._node = Node(pointer, lib.weft_published_reader_close, world._node, name="the reader")
        self._lent: Any = None  #: what a get that has timed out may still write
        self.spec: SlotSpec
        self.spec, self.owner = spec_from(lib.weft_published_reader_get_info, pointer)

    def view(self, timeout: float | None = None, *, runs: Sequence[tuple[int, int]] | None = None) -> Arrival:
        """Waits for a version newer than the last one seen here, and views the newest where it lies. With `runs`, pairs
        of a first element and a count, a reader that can't load the owner's memory gets their elements alone, one run
        behind the other; another gets the whole slot."""
        out = ffi.new("weft_arrival**")
        with Use(self._node.line, "view"):
            pointer = self._pointer("view")
            if runs is None:
                check(_waits.in_parts(lambda seconds: lib.weft_published_reader_view(pointer, seconds, out), timeout,
                                      self._world.timeout))
            else:
                firsts = ffi.new("int64_t[]", [first for first, _ in runs])
                counts = ffi.new("int64_t[]", [count for _, count in runs])
                check(_waits.in_parts(lambda seconds: lib.weft_published_reader_view_runs(
                    pointer, firsts, counts, len(firsts), seconds, out), timeout, self._world.timeout))
            return Arrival(self, out[0])

    def get(self, into: Any, timeout: float | None = None) -> None:
        """Copies the same version into an array of the slot's shape. After Timeout the array stays lent until the next
        view or get."""
        tensor = _memory.tensor_of(into, "get", writable=True)
        with Use(self._node.line, "get"):
            pointer = self._pointer("get")
            self._lent = tensor
            check(_waits.in_parts(lambda seconds: lib.weft_published_reader_get(pointer, tensor._handle, seconds),
                                  timeout, self._world.timeout))

    def get_runs(self, runs: Sequence[tuple[int, int, Any]], timeout: float | None = None) -> None:
        """Copies runs of elements, each (first, count, array), to their arrays."""
        tensors = [_memory.tensor_of(into, "get", writable=True) for _, _, into in runs]
        firsts = ffi.new("int64_t[]", [first for first, _, _ in runs])
        counts = ffi.new("int64_t[]", [count for _, count, _ in runs])
        size = _dtypes.SIZES[_dtypes.number_of(self.spec.dtype, "get")]
        for tensor, count in zip(tensors, counts):
            if tensor.nbytes < count * size:
                raise bad_argument("get", f"a run of {count * size} bytes, but its array has {tensor.nbytes}",
                                   "give one as large")
            tensor._check_host("get_runs")
        targets = ffi.new("void*[]", [tensor._info.data for tensor in tensors])
        with Use(self._node.line, "get"):
            pointer = self._pointer("get")
            self._lent = tensors
            check(_waits.in_parts(lambda seconds: lib.weft_published_reader_get_runs(
                pointer, firsts, counts, targets, len(firsts), seconds), timeout, self._world.timeout))

    @property
    def ready(self) -> bool:
        """True if view() would return at once."""
        return bool(int_from(lib.weft_published_reader_ready, self._pointer("ready")))

    async def viewed(self, timeout: float | None = None) -> Arrival:
        """view() for asyncio."""
        found: list[Arrival] = []

        def viewed() -> bool:
            if self.ready:
                try:
                    found.append(self.view(0.0))
                except Timeout:  # the version is being read from the owner
                    return False
            return bool(found)

        return found[0] if await self._wait_in_loop(viewed, timeout) else self.view(0.0)

    def __await__(self) -> Generator[Any, None, Arrival]:
        return self.viewed().__await__()

    def see_again(self) -> None:
        """The next view or get takes the newest version even if it was seen here before."""
        check(lib.weft_published_reader_see_again(self._pointer("see_again")))

    def also_needs(self, ranks: Iterable[int], needed: str = "always") -> None:
        """Views and gets also end when one of `ranks` is dead or has left."""
        array = ranks_of(ranks)
        check(lib.weft_published_reader_also_needs(self._pointer("also_needs"), array, len(array),
                                                   _enums.NEEDED(needed, "also_needs")))


def wait_any(world: World, handles: Sequence[Any], timeout: float | None) -> int:
    from .collective import Plan
    from .message import MessageRequest

    kinds: tuple[type, ...] = (Slot, Request, PublishedReader, Plan, MessageRequest)
    places: list[list[int]] = [[] for _ in kinds]
    for place, handle in enumerate(handles):
        for kind, found in zip(kinds, places):
            if isinstance(handle, kind):
                found.append(place)
                break
        else:
            raise bad_argument("wait_any", f"a {type(handle).__name__} can't be waited for here",
                               "give slots, requests of puts, readers of published slots, plans, and requests of "
                               "messages")
    held: list[Line] = []
    try:
        for line in dict.fromkeys(handle._node.line for handle in handles):
            if not line.lock.acquire(False):
                raise busy("wait_any")
            held.append(line)
        pointers = [ffi.new(kind, [handles[place]._pointer("wait_any") for place in found])
                    for kind, found in zip(("weft_slot*[]", "weft_request*[]", "weft_published_reader*[]",
                                            "weft_plan*[]", "weft_message_request*[]"), places)]
        chosen = ffi.new("weft_wait_set*")
        chosen.struct_size = ffi.sizeof("weft_wait_set")
        chosen.slots, chosen.requests, chosen.readers, chosen.plans, chosen.messages = pointers
        (chosen.slot_count, chosen.request_count, chosen.reader_count, chosen.plan_count,
         chosen.message_count) = (len(found) for found in places)
        out = ffi.new("size_t*")
        pointer = world._pointer("wait_any")
        check(_waits.in_parts(lambda seconds: lib.weft_wait_any(pointer, chosen, seconds, out), timeout, world.timeout))
    finally:
        for line in held:
            line.lock.release()
            line.free_waiting()
    ordered: list[int] = sum(places, [])
    return ordered[int(out[0])]
