"""Rendezvous: tensors exchanged by key and step; the receiver asks, and the sender writes into the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import _enums, _memory, _waits
from ._handles import Node, Owner
from ._memory import Tensor
from ._native import ffi, lib
from .device import Memory, owners_place
from .errors import Error, c_text, check, last_error
from .group import Group
from .world import int_from

if TYPE_CHECKING:
    from .world import World


@dataclass(frozen=True)
class RendezvousSpec:
    """The properties of a rendezvous. `name` and `message_bytes` are equal on every rank; the limits are this rank's
    own. 0 stands for weft's default."""

    name: str = "default"
    max_parked_bytes: int = 0
    max_parked: int = 0
    max_parked_requests: int = 0
    message_bytes: int = 0
    cache_metadata: bool = True
    index_keys: bool = True
    batch_requests: bool = True
    memory: Memory | None = None  #: where this rank receives tensors, in host memory without
    #: Called for every message of this rank with its properties as a dict, from any thread: it must be quick and must
    #: not call the rendezvous.
    observer: Callable[[dict[str, Any]], None] | None = None


@dataclass(frozen=True)
class Received:
    """The result of a receive."""

    tensor: Tensor | None  #: in this rank's arena, host memory or a GPU's, or None if is_dead
    is_dead: bool  #: no content, since the sender called send_dead()
    codec: int  #: not 0: the bytes of a value encoded by this codec

    @property
    def array(self) -> Any:
        return None if self.tensor is None else self.tensor.array

    def bytes(self) -> bytes:
        """The bytes of an encoded value."""
        return b"" if self.tensor is None or self.tensor.nbytes == 0 else bytes(self.tensor.array.tobytes())


class Rendezvous(Owner):
    """The exchange between all ranks, or the members of a group: Rendezvous.open(). Any thread may use it, except to
    close it. A tensor's name is a key of 1 to 128 bytes and a step; each is exchanged once between two ranks."""

    def __init__(self, world: World, pointer: Any, observer: Any = None) -> None:
        """Not for users: call Rendezvous.open()."""
        self._world = world
        self._observer = observer
        self._node = Node(pointer, lib.weft_rendezvous_close, world._node, name="the rendezvous")

    @staticmethod
    def open(world: World, spec: RendezvousSpec | None = None, *, group: Group | None = None,
             timeout: float | None = None) -> Rendezvous:
        """Each rank, or each member of `group`, calls it with the same name and message_bytes."""
        from ._callbacks import Allocator

        wanted = spec or RendezvousSpec()
        c_spec = ffi.new("weft_rendezvous_spec*")
        name = ffi.new("char[]", c_text(wanted.name))
        c_spec.struct_size, c_spec.name = ffi.sizeof("weft_rendezvous_spec"), name
        c_spec.max_parked_bytes, c_spec.max_parked = wanted.max_parked_bytes, wanted.max_parked
        c_spec.max_parked_requests, c_spec.message_bytes = wanted.max_parked_requests, wanted.message_bytes
        c_spec.no_metadata_cache, c_spec.no_key_index = not wanted.cache_metadata, not wanted.index_keys
        c_spec.no_request_batch = not wanted.batch_requests
        place = owners_place(wanted.memory, "open")
        if place is not None:
            c_spec.place = place
        observer = None
        if wanted.observer is not None:
            observer = Allocator(wanted.observer)
            c_spec.observer, c_spec.observer_context = lib.weft_python_observe, observer.context
        pointer = world._pointer("open")

        def call() -> Any:
            out = ffi.new("weft_rendezvous**")
            check(lib.weft_rendezvous_open(pointer, ffi.NULL if group is None else group._group, c_spec,
                                           _waits.seconds(timeout), out))
            return out[0]

        return Rendezvous(world, _waits.on_thread(call, lib.weft_rendezvous_close), observer)

    def send(self, to: int, key: str, step: int, tensor: Any, timeout: float | None = None) -> None:
        """Offers a tensor. Returns when it is parked or sent: an array of weft's memory is lent until lent() is False;
        any other was copied."""
        found = _memory.tensor_of(tensor, "send")
        self._offer(lib.weft_rendezvous_send, to, key, step, found._handle, timeout=timeout)

    def send_dead(self, to: int, key: str, step: int, timeout: float | None = None) -> None:
        """Offers a tensor without content: the receiver's is_dead is True."""
        self._offer(lib.weft_rendezvous_send_dead, to, key, step, timeout=timeout)

    def send_error(self, to: int, key: str, step: int, code: str, message: str, timeout: float | None = None) -> None:
        """Offers an error: the receive raises the class of `code`, for example "cancelled"."""
        self._offer(lib.weft_rendezvous_send_error, to, key, step, _enums.CODE(code, "send_error"), c_text(message),
                    timeout=timeout)

    def send_encoded(self, to: int, key: str, step: int, codec: int, data: Any, timeout: float | None = None) -> None:
        """Offers the bytes of a value that the caller has encoded, and the number of its encoding, 1 to 65535."""
        held = ffi.from_buffer(data)
        self._offer(lib.weft_rendezvous_send_encoded, to, key, step, codec, held, len(held), timeout=timeout)

    def _offer(self, call: Any, to: int, key: str, step: int, *arguments: Any, timeout: float | None) -> None:
        pointer, named = self._pointer("send"), c_text(key)
        self._check(_waits.in_parts(lambda seconds: call(pointer, to, named, step, *arguments, seconds), timeout,
                                    self._world.timeout))

    def _check(self, code: int) -> None:
        if self._observer is not None:
            self._observer.raise_failure()
        check(code)

    def lent(self, to: int, key: str, step: int) -> bool:
        """True while the offered tensor is still read from the caller's memory."""
        return bool(int_from(lib.weft_rendezvous_lent, self._pointer("lent"), to, c_text(key), step))

    def serve(self, timeout: float | None = None) -> None:
        """Answers requests until everything that this rank has offered was fetched."""
        pointer = self._pointer("serve")
        self._check(_waits.in_parts(lambda seconds: lib.weft_rendezvous_serve(pointer, seconds), timeout,
                                    self._world.timeout))

    def ready(self, source: int, key: str, step: int) -> bool:
        """Asks for the tensor, unless this rank has asked; True if recv() would return at once."""
        return bool(int_from(lib.weft_rendezvous_ready, self._pointer("ready"), source, c_text(key), step))

    def recv(self, source: int, key: str, step: int, timeout: float | None = None) -> Received:
        """Receives the tensor that rank `source` offers to this rank. Timeout leaves the request alive: another call
        resumes it, cancel() ends it."""
        pointer, named = self._pointer("recv"), c_text(key)
        out = _received(1)
        code = _waits.in_parts(lambda seconds: lib.weft_rendezvous_recv(pointer, source, named, step, seconds, out),
                               timeout, self._world.timeout)
        received = None if code else _told(out[0])
        self._check(code)
        assert received is not None
        return received

    def recv_many(self, source: int, wanted: Sequence[tuple[str, int]],
                  timeout: float | None = None) -> list[Received | Error]:
        """Receives several tensors, pairs of key and step, in as few messages as possible. One that fails is its error
        in the list."""
        pointer = self._pointer("recv")
        found: list[Received | Error | None] = [None] * len(wanted)

        def call(seconds: float) -> int:
            left = [place for place, result in enumerate(found) if result is None]
            names = [ffi.new("char[]", c_text(wanted[place][0])) for place in left]
            out = _received(len(left))
            code: int = lib.weft_rendezvous_recv_many(pointer, source, ffi.new("char*[]", names),
                                                      ffi.new("uint64_t[]", [wanted[place][1] for place in left]),
                                                      len(left), seconds, out)
            if code in (_enums.CODE.values["forked"], _enums.CODE.values["bad_argument"]):
                return code
            failure = last_error(code) if code else None
            for place, result in zip(left, out):
                if result.code == 0:
                    found[place] = _told(result)
                elif result.code != _waits.TIMEOUT:
                    same = failure if failure is not None and failure.code == result.code else None
                    found[place] = same or last_error(result.code)
            return _waits.TIMEOUT if None in found else 0

        self._check(_waits.in_parts(call, timeout, self._world.timeout))
        return [result for result in found if result is not None]

    def cancel(self, source: int, key: str, step: int) -> None:
        """Ends a request that a timeout left alive."""
        check(lib.weft_rendezvous_cancel(self._pointer("cancel"), source, c_text(key), step))


def _received(count: int) -> Any:
    out = ffi.new("weft_received[]", count)
    for result in out:
        result.struct_size = ffi.sizeof("weft_received")
    return out


def _told(result: Any) -> Received:
    tensor = None if result.tensor == ffi.NULL else Tensor(result.tensor)
    return Received(tensor, bool(result.is_dead), int(result.codec))
