"""World: this process as a rank of a job."""

from __future__ import annotations

import json
import warnings
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterable, Sequence

from . import _dtypes, _events, _handles, _memory, _waits
from ._handles import Node
from ._native import ffi, lib
from .device import HOST, Memory
from .errors import BadArgument, Closed, bad_argument, c_text, check, text
from .group import Group

if TYPE_CHECKING:
    from .message import Messages
    from .published import PublishedReader, PublishedSlot, PublishedSpec
    from .slot import RemoteSlot, Slot, SlotSpec

#: Worlds that have joined and not left.
_joined: weakref.WeakSet[World] = weakref.WeakSet()


def text_from(call: Any, *arguments: Any) -> str:
    """The text that a function of C returns."""
    out = ffi.new("char**")
    check(call(*arguments, out))
    try:
        return text(out[0])
    finally:
        lib.weft_text_free(out[0])


def int_from(call: Any, *arguments: Any, kind: str = "int*") -> int:
    """The number that a function of C writes to its last argument."""
    out = ffi.new(kind)
    check(call(*arguments, out))
    return int(out[0])


def ranks_of(ranks: Iterable[int]) -> Any:
    return ffi.new("int[]", [int(rank) for rank in ranks])


class World:
    """A process as one of `size` ranks. Made by World.join().

    As a context manager it leaves at the end: in order, waiting for its peers, or, if an exception ends the block, at
    once, which ends the peers' waits. Several threads may use a world. Objects made from a world keep it alive; arrays
    may outlive it. In a fork of the process every call raises Forked."""

    def __init__(self, pointer: Any) -> None:
        """Not for users: call World.join()."""
        self._node = Node(pointer, _free_world, None, name="the world")
        self._left = False
        self._messages: Messages | None = None
        self._loops = _events.Loops()
        self._rank = int_from(lib.weft_rank, pointer)
        self._size = int_from(lib.weft_size, pointer)
        out = ffi.new("double*")
        check(lib.weft_world_timeout(pointer, out))
        #: Seconds that waits without a timeout of their own take at most (WEFT_TIMEOUT).
        self.timeout = float(out[0])
        _joined.add(self)

    @staticmethod
    def join(*, rank: int | None = None, size: int | None = None, address: str | None = None,
             token: bytes | None = None) -> World:
        """Joins the job that mpirun or srun started, the one at WEFT_ADDR, or, with neither, a world of one rank.

        With options, joins a job without a launcher, whatever has started this process: `rank` of `size`, rank 0
        accepting the others at `address`, with a `token` of 32 to 4096 bytes that the ranks share. The environment
        gives what is left out."""
        options = ffi.new("weft_join_options*")
        options.struct_size = ffi.sizeof("weft_join_options")
        held = []
        if (rank is None) != (size is None):
            raise bad_argument("join", "one of rank and size is given", "give both or neither")
        if size is not None and rank is not None:
            if size < 1:
                raise bad_argument("join", f"size is {size}", "a job has at least one rank")
            options.rank, options.size = rank, size
        if address is not None:
            held.append(ffi.new("char[]", c_text(address)))
            options.address = held[-1]
        if token is not None:
            held.append(ffi.from_buffer(token))
            options.token, options.token_bytes = held[-1], len(token)

        def call() -> Any:
            out = ffi.new("weft_world**")
            check(lib.weft_join_with(options, out))
            return out[0]

        return World(_waits.on_thread(call, _free_world))

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks of the job."""
        return self._size

    @property
    def local_size(self) -> int:
        """The number of ranks on this rank's host, itself included."""
        return int_from(lib.weft_world_local_size, self._pointer("local_size"))

    def host(self, rank: int) -> str:
        """The name of the host that a rank runs on."""
        return text_from(lib.weft_world_host, self._pointer("host"), rank)

    def alive(self, ranks: Iterable[int]) -> None:
        """Raises the failure of the first of `ranks` that is not alive."""
        array = ranks_of(ranks)
        check(lib.weft_world_alive(self._pointer("alive"), array, len(array)))

    def declare_dead(self, rank: int, why: str) -> None:
        """Declares a rank dead: waits for it end with PeerFailed, and it is fenced."""
        check(lib.weft_world_declare_dead(self._pointer("declare_dead"), rank, c_text(why)))

    def group(self) -> Group:
        """The group of all ranks."""
        out = ffi.new("weft_group**")
        check(lib.weft_world_group(self._pointer("group"), out))
        return Group(self, out[0])

    def report(self) -> dict[str, Any]:
        """Paths, slots and arenas of this rank as of now; weft/c/world.h has the members."""
        found: dict[str, Any] = json.loads(text_from(lib.weft_world_report, self._pointer("report")))
        return found

    @property
    def event_fd(self) -> int:
        """A descriptor that is readable after any event of this rank, until clear_event(). Awaits use it too: leave it
        to them, or to a loop of your own."""
        return int_from(lib.weft_world_event_fd, self._pointer("event_fd"))

    def clear_event(self) -> None:
        check(lib.weft_world_clear_event(self._pointer("clear_event")))

    def array(self, shape: Any, dtype: Any = "f32") -> Any:
        """A numpy array in the arena, which peers reach without a copy. Its elements are not initialised."""
        number = _dtypes.number_of(dtype, "array")
        _dtypes.numpy_of(number, "array")
        return _memory.allocate(self._pointer("array"), shape, _dtypes.NAMES[number]).array

    def allocate(self, shape: Any, dtype: Any = "f32", memory: Memory = HOST) -> _memory.Tensor:
        """The same as a Tensor, also for bf16 where numpy has none, and on a GPU: memory=weft.Memory.gpu() is this
        rank's. The first tensor on a GPU loads the CUDA driver."""
        return _memory.allocate(self._pointer("allocate"), shape, dtype, memory)

    def copy(self, source: Any, to: Any, *, stream: int | None = None, timeout: float | None = None) -> None:
        """Copies the elements of an array or a Tensor to another of its type and shape, each in host memory or on a
        GPU, both on the same one if both are. Returns when they are copied. With `stream`, the address of a
        cudaStream_t, 0 for CUDA's default stream, it returns once the copy is on the stream: keep both until it is
        done."""
        tensors = _memory.tensor_of(source, "copy"), _memory.tensor_of(to, "copy", writable=True)
        pointer, seconds = self._pointer("copy"), _waits.seconds(timeout)
        handle = ffi.NULL if stream is None else ffi.new("void**", ffi.cast("void*", stream))

        def call() -> None:
            check(lib.weft_world_copy(pointer, tensors[0]._handle, tensors[1]._handle, handle, seconds))

        if stream is not None or all(tensor.memory.is_host for tensor in tensors):
            call()
        else:
            _waits.on_thread(call)

    def adopt(self, value: Any) -> _memory.Tensor:
        """The memory of an array, a buffer or a tensor of another library, put from without staging. The object is kept
        until no peer can touch it. Adopting costs more than a put: adopt once, and put often. A tensor on a GPU goes by
        way of host memory."""
        return _memory.adopt(self._pointer("adopt"), value)

    def from_dlpack(self, value: Any) -> _memory.Tensor:
        """The tensor of an object with __dlpack__, or of a capsule, adopted."""
        return _memory.from_dlpack(self._pointer("from_dlpack"), value)

    def expose(self, spec: SlotSpec, memory: Any = None) -> Slot:
        """Exposes a slot that one rank, this one included, puts into. `memory`: the slot's buffers, from array() or
        adopt(), of `depth` times the slot's elements."""
        from .slot import expose

        return expose(self, spec, memory)

    def attach(self, owner: int, spec: SlotSpec | str, timeout: float | None = None) -> RemoteSlot:
        """Attaches as the writer of a slot of rank `owner`, waiting for it to be exposed. The spec is compared with the
        owner's; a name alone takes the owner's."""
        from .slot import attach

        return attach(self, owner, spec, timeout)

    def expose_published(self, spec: PublishedSpec) -> PublishedSlot:
        """Exposes a slot that this rank publishes and any rank reads."""
        from .published import expose

        return expose(self, spec)

    def attach_published(self, owner: int, spec: PublishedSpec | str, timeout: float | None = None) -> PublishedReader:
        """Attaches to a slot that `owner` publishes, by its spec or its name alone."""
        from .published import attach

        return attach(self, owner, spec, timeout)

    @property
    def messages(self) -> Messages:
        """Messages between any two ranks."""
        if self._messages is None:
            from .message import Messages

            self._messages = Messages(self)
        return self._messages

    def wait_any(self, handles: Sequence[Any], timeout: float | None = None) -> int:
        """Waits until one of several slots, requests of puts and messages, readers and plans is ready, and returns its
        index. If several are, successive calls return each in turn."""
        from .published import wait_any

        return wait_any(self, handles, timeout)

    def leave(self, timeout: float | None = None) -> None:
        """Waits until every peer has left too or is dead, then leaves. Calling it again does nothing. The world has
        left even if this raises Timeout."""
        if self._left:
            return
        seconds = self.timeout if timeout is None else _waits.given(timeout)
        self._left = True
        _joined.discard(self)
        self._leave(seconds)

    def _leave(self, timeout: float) -> None:
        pointer = self._node.pointer

        def call() -> None:
            try:
                check(lib.weft_world_leave(pointer, timeout))
            finally:
                # Freed now, or when the last handle of the world is.
                self._node.drop()

        _waits.on_thread(call)

    def _pointer(self, operation: str) -> Any:
        if self._left:
            raise Closed("this world has been left", operation=operation, hint="join again by World.join()")
        return self._node.pointer

    def __reduce_ex__(self, _: Any) -> Any:
        raise _handles.no_copy(self)

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.leave()
        elif not self._left:
            # The peers need not wait for a rank that does not go on.
            self._left = True
            _joined.discard(self)
            lib.weft_world_leave(self._node.pointer, 0.0)
            self._node.drop()

    def __del__(self) -> None:
        node = getattr(self, "_node", None)
        if node is None or _handles.exiting:
            return
        if not self._left:
            warnings.warn("a weft.World was dropped without leave(): its peers see that it left", ResourceWarning,
                          stacklevel=2, source=self)
        node.drop()

    def __repr__(self) -> str:
        return f"weft.World(rank {self._rank} of {self._size}{', left' if self._left else ''})"


def _free_world(pointer: Any) -> int:
    code: int = lib.weft_leave(pointer, 0.0)
    return code


def current() -> World:
    """The one world of this process."""
    worlds = list(_joined)
    if len(worlds) != 1:
        raise BadArgument(f"this process has {len(worlds)} worlds", operation="array",
                          hint="name the world: world.array(...)" if worlds else "join first: weft.World.join()")
    return worlds[0]


def array(shape: Any, dtype: Any = "f32", *, world: World | None = None) -> Any:
    """A numpy array in the arena of `world`, or of the only world of this process. Its elements are not initialised."""
    return (current() if world is None else world).array(shape, dtype)


