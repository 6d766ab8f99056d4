"""Dense tables: named tensors, spread over server shards, updated by workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generator, Sequence

from .. import _dtypes, _memory, _waits
from .._handles import Hold, Node, Owner, Use
from .._memory import Tensor
from .._native import ffi, lib
from ..device import Memory, owners_place
from ..errors import c_text, check, last_error
from ..world import int_from, text_from
from .options import rule_of, set_parts, sized
from .server import ParameterServer, ShardPiece, TensorSpec, c_tensors, piece_of


@dataclass(frozen=True)
class TableStatistics:
    """Counters of this rank's shard."""

    applied: int  #: gradients used in the update of their step
    folded: int  #: late gradients used in a later update
    dropped: int  #: late gradients not used
    skipped: int  #: updates not made because their norm was not finite
    staleness: tuple[int, ...]  #: gradients from values that were i versions old; the last: or older


@dataclass(frozen=True)
class CompressionStatistics:
    """A worker's compression of one table: its savings and its cost."""

    bytes_spared: int
    nanoseconds: int
    residual_norm: float  #: Euclidean norm of the residual after the last push


def open_table(server: ParameterServer, name: str, tensors: Sequence[TensorSpec], parts: dict[str, Any],
               clip_norm: float, accumulate: int, wire: str, memory: Memory | None, timeout: float | None) -> Table:
    held: list[Any] = []
    options = sized("weft_table_options")
    set_parts(options, parts, held, "table")
    options.clip_norm, options.accumulate = clip_norm, accumulate
    options.wire = _dtypes.number_of(wire, "table")
    place = owners_place(memory, "table")
    if place is not None:
        options.place = place
        held.append(place)
    specs = c_tensors(tensors, held)
    pointer, named = server._pointer("table"), c_text(name)

    def call() -> Any:
        out = ffi.new("weft_table**")
        seconds = _waits.seconds(timeout)
        check(lib.weft_table_open(pointer, named, specs, len(specs), options, seconds, out))
        return out[0]

    rule = rule_of(held)
    try:
        is_on_gpu = memory is not None and memory.is_gpu
        return Table(server, _waits.on_thread(call, lib.weft_table_close), tensors, rule, is_on_gpu)
    except BaseException:
        if rule is not None:
            rule.forget()
        raise


class Table(Owner):
    """A dense table. Workers: initialize() once, then per step compute from parameter(), write gradient(), push() and
    pull(). One thread at a time."""

    def __init__(self, server: ParameterServer, pointer: Any, tensors: Sequence[TensorSpec], rule: Any,
                 is_on_gpu: bool = False) -> None:
        """Not for users: call ParameterServer.table()."""
        self._server = server
        self._world = server._world
        self._rule = rule
        self.tensors = tuple(tensors)
        free = lib.weft_table_close

        def close(table: Any) -> int:
            code: int = free(table)
            if rule is not None:
                rule.forget()
            return code

        self._node = Node(pointer, close, server._node, name="the table")
        self._shown: dict[tuple[str, bool], Tensor] = {}
        self._is_on_gpu = is_on_gpu
        self._pushing: _waits.Undivided | None = None

    def _pointer(self, operation: str) -> Any:
        """Behind a push that Ctrl-C has left to itself."""
        if self._pushing is not None:
            self._pushing.wait()
            self._pushing = None
        return super()._pointer(operation)

    def parameter(self, name: str) -> Any:
        """Worker: the array of the parameters, for the next forward pass; for the first worker also of the first
        values. On a GPU: the Tensor, like the next."""
        return self._tensor(name, False)

    def gradient(self, name: str) -> Any:
        """Worker: the array to write the gradient for the next push into. Not to be touched between push() and the end
        of pull()."""
        return self._tensor(name, True)

    def _tensor(self, name: str, is_gradient: bool) -> Any:
        found = self._shown.get((name, is_gradient))
        if found is None:
            call = lib.weft_table_gradient if is_gradient else lib.weft_table_parameter
            out = ffi.new("weft_tensor**")
            check(call(self._pointer("tensor"), c_text(name), out))
            found = _memory.Lent(out[0], Hold(self._node))
            self._shown[name, is_gradient] = found
        has_no_array = found.memory.is_gpu or _dtypes.NUMPY[found._info.dtype] is None
        return found if has_no_array else found.array

    def close(self) -> None:
        """Closes the table; its memory goes with the last array of it."""
        if self._pushing is not None:
            self._pushing.wait()
            self._pushing = None
        self._shown.clear()
        super().close()

    def initialize(self, timeout: float | None = None) -> None:
        """Every rank calls it once, before the first step: the first worker's values, or a checkpoint's, become
        everyone's."""
        pointer = self._pointer("initialize")
        with Use(self._node.line, "initialize"):
            _waits.on_thread(lambda: check(lib.weft_table_initialize(pointer, _waits.seconds(timeout))))

    def push(self) -> None:
        """Worker: makes the gradients visible to the shards. Does not wait, but for a GPU, which copies them to host
        memory first, within the world's own limit; leave them as they are after an error of that, and push again.
        After Ctrl-C a push goes on, and the next call of the table waits for it: push() then tells how it ended."""
        with Use(self._node.line, "push"):
            if self._pushing is None:
                pointer = self._pointer("push")
                if not self._is_on_gpu or not _waits.is_main():
                    check(lib.weft_table_push(pointer))
                    return
                self._pushing = _waits.Undivided(lambda: check(lib.weft_table_push(pointer)), Hold(self._node))
            self._pushing.wait()
            pushing, self._pushing = self._pushing, None
            pushing.result()

    def pull(self, timeout: float | None = None) -> None:
        """Worker: waits for the parameters that result from the last push. After Timeout the next call resumes."""
        self._wait(lib.weft_table_pull, "pull", timeout)

    def push_pull(self, timeout: float | None = None) -> None:
        """push(), then pull(), within one timeout. An error says of which of the two it is, the one to call next."""
        pushes = True

        def call(pointer: Any, seconds: float) -> int:
            nonlocal pushes
            code: int = (lib.weft_table_push_pull if pushes else lib.weft_table_pull)(pointer, seconds)
            if code == _waits.TIMEOUT and pushes:
                pushes = last_error(code).operation == "push"
            return code

        self._wait(call, "push_pull", timeout)

    def wait_updated(self, timeout: float | None = None) -> None:
        """Worker: as pull(), but leaves the parameters on the shards, for view()."""
        self._wait(lib.weft_table_wait_updated, "wait_updated", timeout)

    def _wait(self, call: Any, operation: str, timeout: float | None) -> None:
        with Use(self._node.line, operation):
            pointer = self._pointer(operation)
            code = call(pointer, _waits.first_part(timeout))
            if code:
                code = _waits.rest(lambda seconds: call(pointer, seconds), timeout, self._world.timeout, code)
            failure = last_error(code) if code else None
        self._check_rule()
        if failure is not None:
            raise failure

    def _check_rule(self) -> None:
        if self._rule is not None:
            self._rule.raise_failure()

    def view(self, name: str) -> bytes:
        """Worker: a copy of a tensor's parameters in the wire type, as they lie on the shard. For a tensor that is on
        one shard."""
        return self._viewed(lib.weft_table_view, c_text(name))

    def view_piece(self, piece: int) -> bytes:
        """The same for run number `piece` of the shard map."""
        return self._viewed(lib.weft_table_view_piece, piece)

    def _viewed(self, call: Any, which: Any) -> bytes:
        data, size = ffi.new("void**"), ffi.new("size_t*")
        with Use(self._node.line, "view"):
            check(call(self._pointer("view"), which, data, size))
            return bytes(ffi.buffer(data[0], size[0]))

    @property
    def version(self) -> int:
        """The number of updates done; worker: the version of the values last pulled."""
        return int_from(lib.weft_table_version, self._pointer("version"), kind="uint64_t*")

    @property
    def pulled(self) -> tuple[int, tuple[int, ...]]:
        """Worker: the last pull's smallest version of all shards, and the ranks whose gradients made it."""
        version, ranks, count = ffi.new("uint64_t*"), ffi.new("int**"), ffi.new("size_t*")
        check(lib.weft_table_pulled(self._pointer("pulled"), version, ranks, count))
        return int(version[0]), tuple(ranks[0][0:count[0]]) if count[0] else ()

    def describe(self) -> str:
        """The shard map for people: one line per server."""
        return text_from(lib.weft_table_describe, self._pointer("describe"))

    @property
    def pieces(self) -> list[ShardPiece]:
        """The runs of the shard map."""
        piece = sized("weft_shard_piece")
        found = []
        for place in range(int_from(lib.weft_table_pieces, self._pointer("pieces"), kind="size_t*")):
            check(lib.weft_table_piece_at(self._node.pointer, place, piece))
            found.append(piece_of(piece))
        return found

    @property
    def statistics(self) -> TableStatistics:
        out = sized("weft_table_statistics")
        check(lib.weft_table_get_statistics(self._pointer("statistics"), out))
        return TableStatistics(out.applied, out.folded, out.dropped, out.skipped, tuple(out.staleness))

    @property
    def compression(self) -> CompressionStatistics:
        out = sized("weft_compression_statistics")
        check(lib.weft_table_get_compression(self._pointer("compression"), out))
        return CompressionStatistics(out.bytes_spared, out.nanoseconds, out.residual_norm)

    async def updated(self, timeout: float | None = None) -> None:
        """pull() for asyncio: pulls in short parts, between which the loop runs."""
        import asyncio
        from time import monotonic

        from ..errors import Timeout

        end = monotonic() + (self._world.timeout if timeout is None else _waits.given(timeout))
        while True:
            try:
                self.pull(0.0)
                return
            except Timeout:
                if monotonic() >= end:
                    raise
            await asyncio.sleep(0.001)

    def __await__(self) -> Generator[Any, None, None]:
        return self.updated().__await__()
