"""Collectives: operations that all ranks of a group perform together, each on its own tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Generator, Iterable, Sequence, Union

from . import _enums, _memory, _waits
from ._handles import Node, Owner, Use
from ._native import ffi, lib
from ._waits import TIMEOUT
from .errors import bad_argument, check, last_error
from .group import Group
from .slot import Waitable
from .world import int_from, ranks_of

if TYPE_CHECKING:
    from .world import World

#: How elements are combined: "sum", "prod", "min", "max", "avg", "bit_and", "bit_or", "bit_xor", or a function that
#: computes `into[:] = into combined with other` in place, for any length.
Op = Union[str, "Callable[[Any, Any], None]"]


class Call:
    """One operation on this rank's tensors, made by the functions of this module; it does nothing by itself."""

    def __init__(self, kind: str, input: Any = None, out: Any = None, *, op: Op = "sum", root: int = 0,
                 counts: Sequence[int] | None = None, out_counts: Sequence[int] | None = None,
                 algorithm: str = "automatic", any_order: bool = False) -> None:
        from ._callbacks import Reduce

        call = self._call = ffi.new("weft_call*")
        call.struct_size = ffi.sizeof("weft_call")
        call.kind = _enums.COLLECTIVE(kind, kind)
        self.kind = kind
        self._kept: list[Any] = []  #: what C's struct points to
        if input is not None:
            setattr(call, "in", self._keep(_memory.tensor_of(input, kind))._handle)
        if out is not None:
            call.out = self._keep(_memory.tensor_of(out, kind, writable=True))._handle
        self._reduce = None
        if callable(op):
            self._reduce = Reduce(op)
            call.reduce, call.reduce_context = lib.weft_python_reduce, self._reduce.context
        else:
            call.reduction = _enums.REDUCTION(op, kind)
        call.root = root
        call.algorithm = _enums.ALGORITHM(algorithm, kind)
        call.any_order = any_order
        #: The numbers of parts must be the group's size: C takes them by their address alone.
        self._lengths = [len(list(given)) for given in (counts, out_counts) if given is not None]
        if counts is not None:
            call.counts = self._keep(ffi.new("int64_t[]", [int(count) for count in counts]))
        if out_counts is not None:
            call.out_counts = self._keep(ffi.new("int64_t[]", [int(count) for count in out_counts]))

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _for(self, size: int) -> Any:
        """The struct for a group of `size` ranks."""
        for length in self._lengths:
            if length != size:
                raise bad_argument(self.kind, f"{length} counts for {size} ranks",
                                   "give one for each rank of the group")
        return self._call

    def _check(self, code: int) -> None:
        if code:
            failure = last_error(code)
            if self._reduce is not None:
                self._reduce.raise_failure()
            raise failure
        if self._reduce is not None:
            self._reduce.raise_failure()


def barrier() -> Call:
    """Ends on a rank when every rank of the group has entered."""
    return Call("barrier")


def broadcast(tensor: Any, root: int = 0, **options: Any) -> Call:
    """Copies the root's `tensor` into every other rank's. Options, here and below: `algorithm`, and `any_order` for
    reductions."""
    return Call("broadcast", None, tensor, root=root, **options)


def reduce(input: Any, out: Any = None, op: Op = "sum", root: int = 0, **options: Any) -> Call:
    """Combines every rank's `input` into `out` of the root; other ranks give None."""
    return Call("reduce", input, out, op=op, root=root, **options)


def all_reduce(input: Any, out: Any = None, op: Op = "sum", **options: Any) -> Call:
    """Combines every rank's `input` into every rank's `out`; in place without `out`."""
    return Call("all_reduce", None if out is None else input, input if out is None else out, op=op, **options)


def reduce_scatter(input: Any, out: Any, op: Op = "sum", counts: Sequence[int] | None = None, **options: Any) -> Call:
    """Combines every rank's `input`, and gives the n-th rank the n-th part of the result."""
    return Call("reduce_scatter", input, out, op=op, counts=counts, **options)


def all_gather(input: Any, out: Any, counts: Sequence[int] | None = None, **options: Any) -> Call:
    """Every rank's `input`, one behind the other, into every rank's `out`."""
    return Call("all_gather", input, out, counts=counts, **options)


def gather(input: Any, out: Any = None, root: int = 0, counts: Sequence[int] | None = None, **options: Any) -> Call:
    """As all_gather, but into `out` of the root alone; other ranks give None."""
    return Call("gather", input, out, root=root, counts=counts, **options)


def scatter(input: Any, out: Any, root: int = 0, counts: Sequence[int] | None = None, **options: Any) -> Call:
    """The n-th part of the root's `input` into `out` of the n-th rank; other ranks give None as `input`."""
    return Call("scatter", input, out, root=root, counts=counts, **options)


def all_to_all(input: Any, out: Any, counts: Sequence[int] | None = None, out_counts: Sequence[int] | None = None,
               **options: Any) -> Call:
    """The n-th part of `input` to the n-th rank, whose part is the n-th of `out`. Give both counts or neither."""
    return Call("all_to_all", input, out, counts=counts, out_counts=out_counts, **options)


def scan(input: Any, out: Any, op: Op = "sum", **options: Any) -> Call:
    """`input` of this rank and of all ranks before it, combined into `out`."""
    return Call("scan", input, out, op=op, **options)


class Collectives(Owner):
    """A group of ranks and its collectives: Collectives.open(). All ranks call the same operations in the same order.

    Arrays outside weft's memory are copied once more, which bytes_copied counts. One thread at a time per group, its
    plans included."""

    def __init__(self, world: World, pointer: Any) -> None:
        """Not for users: call Collectives.open()."""
        self._world = world
        self._node = Node(pointer, lib.weft_collectives_close, world._node, name="the group")
        self._interrupted: Plan | None = None  #: a call that Ctrl-C has left under way
        self._rank = int_from(lib.weft_collectives_rank, pointer)
        self._size = int_from(lib.weft_collectives_size, pointer)

    @staticmethod
    def open(world: World, ranks: Iterable[int] | Group | None = None, timeout: float | None = None) -> Collectives:
        """A group of all ranks, of these ranks of the world, or of a Group's members. Each of them calls it."""
        pointer = world._pointer("open")
        seconds = _waits.seconds(timeout)
        listed = None if ranks is None or isinstance(ranks, Group) else ranks_of(ranks)

        def call() -> Any:
            out = ffi.new("weft_collectives**")
            if listed is not None:
                check(lib.weft_collectives_open_ranks(pointer, listed, len(listed), seconds, out))
            else:
                group = ranks._group if isinstance(ranks, Group) else ffi.NULL
                check(lib.weft_collectives_open(pointer, group, seconds, out))
            return out[0]

        return Collectives(world, _waits.on_thread(call, lib.weft_collectives_close))

    @property
    def rank(self) -> int:
        """This rank's place in the group, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        return self._size

    @property
    def ranks(self) -> tuple[int, ...]:
        """The group's ranks of the world, by place."""
        out = ffi.new("int**")
        check(lib.weft_collectives_ranks(self._pointer("ranks"), out))
        return tuple(out[0][0:self._size])

    @property
    def bytes_copied(self) -> int:
        """Bytes copied because arrays were not in the world's memory."""
        return int_from(lib.weft_collectives_bytes_copied, self._pointer("bytes_copied"), kind="uint64_t*")

    @property
    def staged_bytes(self) -> int:
        """Bytes copied between GPUs and host memory."""
        return int_from(lib.weft_collectives_staged_bytes, self._pointer("staged_bytes"), kind="uint64_t*")

    def plan(self, call: Call) -> Plan:
        """Binds a call to its tensors, to be run any number of times without allocation."""
        return self._plan(lib.weft_collectives_plan, call)

    def start(self, call: Call) -> Plan:
        """plan(), then Plan.start()."""
        return self._plan(lib.weft_collectives_start, call)

    def _plan(self, make: Any, call: Call) -> Plan:
        with Use(self._node.line, call.kind):
            return self._plan_held(make, call)

    def _plan_held(self, make: Any, call: Call) -> Plan:
        out = ffi.new("weft_plan**")
        check(make(self._pointer(call.kind), call._for(self._size), out))
        return Plan(self, out[0], call)

    def run(self, call: Call, timeout: float | None = None) -> None:
        """Runs a call once. Timeout ends the group. Ctrl-C leaves the call under way, which the next run() waits for
        first."""
        _waits.seconds(timeout)  # refused before the call has begun
        with Use(self._node.line, call.kind):
            if self._interrupted is not None:
                self._interrupted._wait_held(timeout)
                self._interrupted = None
            plan = self._plan_held(lib.weft_collectives_start, call)
            try:
                # A call that is late ends its group, which takes up to 50 ms, at most an eighth.
                plan._wait_held(_waits.before_end(timeout, self._world.timeout))
            except KeyboardInterrupt:
                self._interrupted = plan
                raise
            except BaseException:
                # A call that has not ended ends its group here. The exception's frames hold the plan itself.
                plan._node.drop()
                raise
        plan.close()

    def barrier(self, timeout: float | None = None) -> None:
        self.run(barrier(), timeout)

    def broadcast(self, tensor: Any, root: int = 0, timeout: float | None = None, **options: Any) -> None:
        self.run(broadcast(tensor, root, **options), timeout)

    def reduce(self, input: Any, out: Any = None, op: Op = "sum", root: int = 0, timeout: float | None = None,
               **options: Any) -> None:
        self.run(reduce(input, out, op, root, **options), timeout)

    def all_reduce(self, input: Any, out: Any = None, op: Op = "sum", timeout: float | None = None,
                   **options: Any) -> None:
        self.run(all_reduce(input, out, op, **options), timeout)

    def reduce_scatter(self, input: Any, out: Any, op: Op = "sum", counts: Sequence[int] | None = None,
                       timeout: float | None = None, **options: Any) -> None:
        self.run(reduce_scatter(input, out, op, counts, **options), timeout)

    def all_gather(self, input: Any, out: Any, counts: Sequence[int] | None = None, timeout: float | None = None,
                   **options: Any) -> None:
        self.run(all_gather(input, out, counts, **options), timeout)

    def gather(self, input: Any, out: Any = None, root: int = 0, counts: Sequence[int] | None = None,
               timeout: float | None = None, **options: Any) -> None:
        self.run(gather(input, out, root, counts, **options), timeout)

    def scatter(self, input: Any, out: Any, root: int = 0, counts: Sequence[int] | None = None,
                timeout: float | None = None, **options: Any) -> None:
        self.run(scatter(input, out, root, counts, **options), timeout)

    def all_to_all(self, input: Any, out: Any, counts: Sequence[int] | None = None,
                   out_counts: Sequence[int] | None = None, timeout: float | None = None, **options: Any) -> None:
        self.run(all_to_all(input, out, counts, out_counts, **options), timeout)

    def scan(self, input: Any, out: Any, op: Op = "sum", timeout: float | None = None, **options: Any) -> None:
        self.run(scan(input, out, op, **options), timeout)

    def settle(self, timeout: float | None = None) -> None:
        """Waits until no other rank can touch the tensors of ended calls: after an error that says that tensors stay
        lent."""
        with Use(self._node.line, "settle"):
            pointer = self._pointer("settle")
            check(_waits.in_parts(lambda seconds: lib.weft_collectives_settle(pointer, seconds), timeout,
                                  self._world.timeout))

    def broadcast_object(self, value: Any = None, root: int = 0, timeout: float | None = None) -> Any:
        """The root's object on every rank, by pickle: only between ranks that trust each other, which those of a job
        do."""
        from . import objects

        return objects.broadcast(self, value, root, timeout)

    def gather_object(self, value: Any, root: int = 0, timeout: float | None = None) -> list[Any] | None:
        """Every rank's object on the root, by place; None elsewhere."""
        from . import objects

        return objects.gather(self, value, root, timeout)

    def scatter_object(self, values: Sequence[Any] | None = None, root: int = 0, timeout: float | None = None) -> Any:
        """The n-th of the root's objects on the n-th rank."""
        from . import objects

        return objects.scatter(self, values, root, timeout)

    def close(self) -> None:
        """Closes the group. Refused while a plan of it is held."""
        interrupted, self._interrupted = self._interrupted, None
        if interrupted is not None:
            interrupted.close()
        super().close()


class Plan(Owner, Waitable):
    """A collective bound to its tensors. Dropping one that is under way ends its group."""

    def __init__(self, group: Collectives, pointer: Any, call: Call) -> None:
        self._group = group
        self._world = group._world
        self._call = call
        self._node = Node(pointer, lib.weft_plan_free, group._node, group._node.line, "the plan")

    def start(self) -> None:
        """Begins the operation: its tensors are lent to weft until it has ended. Up to 4 plans of a group may be under
        way."""
        with Use(self._node.line, "start"):
            check(lib.weft_plan_start(self._pointer("start")))

    def test(self) -> bool:
        """True if the operation has ended, well or not. Never blocks; makes progress."""
        with Use(self._node.line, "test"):
            return bool(int_from(lib.weft_plan_test, self._pointer("test")))

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the operation's end. Timeout, or Ctrl-C, leaves it under way."""
        with Use(self._node.line, "wait"):
            self._wait_held(timeout)

    def _wait_held(self, timeout: float | None) -> None:
        pointer = self._pointer("wait")
        code = lib.weft_plan_wait(pointer, _waits.first_part(timeout))
        if code == TIMEOUT:
            code = _waits.rest(lambda seconds: lib.weft_plan_wait(pointer, seconds), timeout, self._world.timeout, code)
        self._call._check(code)

    def run(self, timeout: float | None = None) -> None:
        """start(), then wait()."""
        _waits.seconds(timeout)
        with Use(self._node.line, "run"):
            check(lib.weft_plan_start(self._pointer("run")))
            self._wait_held(timeout)

    async def ended(self, timeout: float | None = None) -> None:
        """wait() for asyncio."""
        await self._wait_in_loop(self.test, timeout)
        self.wait(0.0)

    def __await__(self) -> Generator[Any, None, None]:
        return self.ended().__await__()
