"""Sparse tables: rows of floats by 64-bit ids, made when they are first looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from .. import _dtypes, _waits
from .._handles import Node, Owner, Use
from .._native import ffi, lib
from ..errors import bad_argument, c_text, check, last_error
from ..world import int_from
from .options import rule_of, set_parts, sized
from .server import ParameterServer


@dataclass(frozen=True)
class SparseStatistics:
    """Counters of this rank's shard."""

    rows: int  #: rows stored, or counted for admission
    bytes: int  #: memory of rows, states and index
    requests: int  #: of all workers
    looked_up: int  #: rows looked up
    updated: int  #: rows updated, counted once per update
    not_admitted: int  #: gradients dropped because their row was not admitted


def open_table(server: ParameterServer, name: str, dim: int, parts: dict[str, Any], numbers: dict[str, int], wire: str,
               spread: float, timeout: float | None) -> SparseTable:
    held: list[Any] = []
    options = sized("weft_sparse_options")
    options.dim, options.wire = dim, _dtypes.number_of(wire, "sparse_table")
    options.spread, options.start_from_zeros = spread, spread == 0
    set_parts(options, parts, held, "sparse_table")
    for field, number in numbers.items():
        setattr(options, field, number)
    pointer, named = server._pointer("sparse_table"), c_text(name)

    def call() -> Any:
        out = ffi.new("weft_sparse_table**")
        check(lib.weft_sparse_table_open(pointer, named, options, _waits.seconds(timeout), out))
        return out[0]

    rule = rule_of(held)
    try:
        return SparseTable(server, _waits.on_thread(call, lib.weft_sparse_table_close), rule)
    except BaseException:
        if rule is not None:
            rule.forget()
        raise


class SparseTable(Owner):
    """A sparse table. Ids are an array of unsigned 64-bit numbers, rows float32 of shape (ids, dim). One thread at a
    time."""

    def __init__(self, server: ParameterServer, pointer: Any, rule: Any) -> None:
        """Not for users: call ParameterServer.sparse_table()."""
        self._server = server
        self._world = server._world
        self._rule = rule

        def close(table: Any) -> int:
            code: int = lib.weft_sparse_table_close(table)
            if rule is not None:
                rule.forget()
            return code

        self._node = Node(pointer, close, server._node, name="the sparse table")
        self.dim = int_from(lib.weft_sparse_table_dim, pointer, kind="size_t*")
        self._resumed: Any = None  #: what the call that has timed out works on

    def lookup(self, ids: Any, rows: Any = None, timeout: float | None = None) -> Any:
        """Worker: the rows of the ids, in `rows` if that is given. After Timeout the same call resumes; another
        call is BadArgument then, unless this one has sent nothing yet, because it waited for the answers to the last
        push."""
        wanted = _ids(ids)
        into = self._rows(rows, len(wanted), "lookup")
        self._wait("lookup", timeout, lambda seconds: lib.weft_sparse_table_lookup(
            self._node.pointer, _u64(wanted), len(wanted), _f32(into), seconds), (wanted, into))
        return into

    def push(self, ids: Any, gradients: Any, timeout: float | None = None) -> None:
        """Worker: pushes one gradient for each id, laid out as rows are."""
        pushed = _ids(ids)
        slopes = self._given(gradients, len(pushed), "push")
        self._wait("push", timeout, lambda seconds: lib.weft_sparse_table_push(
            self._node.pointer, _u64(pushed), len(pushed), _f32(slopes), seconds), (pushed, slopes))

    def push_lookup(self, pushed: Any, gradients: Any, ids: Any, rows: Any = None, timeout: float | None = None) -> Any:
        """Worker: a push and a lookup in one request. Returns the rows."""
        first, wanted = _ids(pushed), _ids(ids)
        slopes = self._given(gradients, len(first), "push_lookup")
        into = self._rows(rows, len(wanted), "push_lookup")
        self._wait("push_lookup", timeout, lambda seconds: lib.weft_sparse_table_push_lookup(
            self._node.pointer, _u64(first), len(first), _f32(slopes), _u64(wanted), len(wanted), _f32(into), seconds),
            (first, slopes, wanted, into))
        return into

    def flush(self, timeout: float | None = None) -> None:
        """Worker: waits until every server has answered the last push."""
        self._wait("flush", timeout, lambda seconds: lib.weft_sparse_table_flush(self._node.pointer, seconds), None)

    def _wait(self, operation: str, timeout: float | None, call: Any, uses: Any) -> None:
        with Use(self._node.line, operation):
            self._pointer(operation)
            self._resumed = uses
            code = call(_waits.first_part(timeout))
            if code:
                code = _waits.rest(call, timeout, self._world.timeout, code)
            failure = last_error(code) if code else None
            if code != _waits.TIMEOUT:
                self._resumed = None
        self._check_rule()
        if failure is not None:
            raise failure

    def _check_rule(self) -> None:
        if self._rule is not None:
            self._rule.raise_failure()

    def _rows(self, rows: Any, count: int, operation: str) -> Any:
        if rows is None:
            return numpy.empty((count, self.dim), numpy.float32)
        if not rows.flags.writeable:
            raise bad_argument(operation, "the rows are read-only", "give an array that may be written")
        return self._given(rows, count, operation)

    def _given(self, rows: Any, count: int, operation: str) -> Any:
        if not isinstance(rows, numpy.ndarray) or rows.dtype != numpy.float32 or not rows.flags.c_contiguous \
                or rows.size != count * self.dim:
            found = f"{rows.dtype}{list(rows.shape)}" if isinstance(rows, numpy.ndarray) else type(rows).__name__
            raise bad_argument(operation, f"rows are {found}",
                               f"give a C-contiguous float32 array of shape ({count}, {self.dim})")
        return rows

    @property
    def version(self) -> int:
        return int_from(lib.weft_sparse_table_version, self._pointer("version"), kind="uint64_t*")

    def server_of(self, id: int) -> int:
        """The rank of the server that holds a row."""
        return int_from(lib.weft_sparse_table_server_of, self._pointer("server_of"), id)

    @property
    def statistics(self) -> SparseStatistics:
        out = sized("weft_sparse_statistics")
        check(lib.weft_sparse_table_get_statistics(self._pointer("statistics"), out))
        return SparseStatistics(out.rows, out.bytes, out.requests, out.looked_up, out.updated, out.not_admitted)


def _ids(ids: Any) -> Any:
    found = numpy.ascontiguousarray(ids)
    if found.size == 0:
        return found.astype(numpy.uint64).reshape(-1)
    if found.dtype.kind not in "iu":
        raise bad_argument("ids", f"ids are {found.dtype}", "give integers")
    if found.dtype.kind == "i" and int(found.min()) < 0:
        raise bad_argument("ids", "an id is below 0", "ids are unsigned 64-bit numbers")
    return found.astype(numpy.uint64, copy=False).reshape(-1)


def _u64(array: Any) -> Any:
    return ffi.cast("uint64_t*", array.__array_interface__["data"][0])


def _f32(array: Any) -> Any:
    return ffi.cast("float*", array.__array_interface__["data"][0])
