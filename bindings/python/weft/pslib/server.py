"""The parameter server: which ranks work and which serve, and the map of tensors to shards."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Sequence

from .. import _memory, _waits
from .._handles import Node, Owner
from .._native import ffi, lib
from ..device import Memory
from ..errors import bad_argument, c_text, check
from ..group import Group
from ..world import int_from, ranks_of
from .options import CheckpointOptions, Compression, Consistency, Optimizer, Schedule, sized

if TYPE_CHECKING:
    from ..world import World
    from .sparse import SparseTable
    from .table import Table


@dataclass(frozen=True)
class TensorSpec:
    """One named tensor of a dense table."""

    name: str
    shape: Any


@dataclass(frozen=True)
class ShardPiece:
    """A run of a tensor's elements on one shard."""

    tensor: int  #: index into the table's tensors
    first: int  #: index of the first element, row-major
    count: int
    shard_offset: int  #: in the shard's region, in elements
    server: int  #: rank of the shard


def piece_of(piece: Any) -> ShardPiece:
    return ShardPiece(piece.tensor, piece.first, piece.count, piece.shard_offset, piece.server)


def c_tensors(specs: Sequence[TensorSpec], held: list[Any]) -> Any:
    array = ffi.new("weft_table_tensor[]", len(specs))
    for place, spec in enumerate(specs):
        if not isinstance(spec, TensorSpec):
            raise bad_argument("table", f"tensor {place} is {spec!r}", "give a weft.pslib.TensorSpec")
        name, dims = ffi.new("char[]", c_text(spec.name)), _memory.dims_of(spec.shape, "table")
        held += [name, dims]
        array[place].struct_size = ffi.sizeof("weft_table_tensor")
        array[place].name, array[place].dims, array[place].ndims = name, dims, len(dims)
    held.append(array)
    return array


def shard_map(specs: Sequence[TensorSpec], servers: Iterable[int], split_bytes: int = 0) -> list[ShardPiece]:
    """The runs of tensors over servers, as a table with these would have them."""
    held: list[Any] = []
    tensors, ranks = c_tensors(specs, held), ranks_of(servers)
    count = ffi.new("size_t*")
    check(lib.weft_shard_map(tensors, len(specs), ranks, len(ranks), split_bytes, ffi.NULL, 0, count))
    pieces = ffi.new("weft_shard_piece[]", count[0])
    for piece in pieces:
        piece.struct_size = ffi.sizeof("weft_shard_piece")
    check(lib.weft_shard_map(tensors, len(specs), ranks, len(ranks), split_bytes, pieces, count[0], count))
    return [piece_of(piece) for piece in pieces]


class ParameterServer(Owner):
    """A model's tables among all ranks of a world, or the members of a group, each of which makes it with equal
    arguments.

    Without options WEFT_PS_SERVERS decides; by default every rank works and serves. Tables that peers still pull from
    must stay until World.leave() has returned: leave first, then let them go."""

    def __init__(self, world: World, name: str = "ps", *, group: Group | None = None,
                 workers: Iterable[int] | None = None, servers: Iterable[int] | None = None, split_bytes: int = 0,
                 metrics_folder: str | os.PathLike[str] | None = None, dedicated_servers: int = 0,
                 one_server_per_host: bool = False, replicas: int = 0) -> None:
        options = sized("weft_server_options")
        held: list[Any] = []
        for kind, ranks in (("worker", workers), ("server", servers)):
            if ranks is not None:
                array = ranks_of(ranks)
                held.append(array)
                setattr(options, kind + "s", array)
                setattr(options, kind + "_count", len(array))
        options.split_bytes, options.dedicated_servers = split_bytes, dedicated_servers
        options.one_server_per_host, options.replicas = one_server_per_host, replicas
        if metrics_folder is not None:
            held.append(ffi.new("char[]", c_text(os.fspath(metrics_folder))))
            options.metrics_folder = held[-1]
        pointer, named = world._pointer("parameter_server"), c_text(name)

        def call() -> Any:
            out = ffi.new("weft_parameter_server**")
            members = ffi.NULL if group is None else group._group
            check(lib.weft_parameter_server_open(pointer, members, options, named, out))
            return out[0]

        self._world = world
        self._node = Node(_waits.on_thread(call, lib.weft_parameter_server_close), lib.weft_parameter_server_close,
                          world._node, name="the parameter server")

    @property
    def works(self) -> bool:
        """True if this rank is a worker."""
        return bool(int_from(lib.weft_parameter_server_works, self._pointer("works")))

    @property
    def serves(self) -> bool:
        """True if this rank holds shards."""
        return bool(int_from(lib.weft_parameter_server_serves, self._pointer("serves")))

    def table(self, name: str, tensors: Sequence[TensorSpec], *, optimizer: Optimizer | None = None,
              schedule: Schedule | None = None, compression: Compression | None = None,
              consistency: Consistency | None = None, checkpoint: CheckpointOptions | None = None,
              clip_norm: float = 0.0, accumulate: int = 1, wire: str = "f32", memory: Memory | None = None,
              timeout: float | None = None) -> Table:
        """Creates a dense table. Every member calls it with the same arguments, `memory` excepted, and in the same
        order. `clip_norm` above 0: the largest norm of a mean gradient over the whole table; `accumulate`: pushes per
        update; `wire`: the type of gradients and parameters at the workers, "f32", "f16" or "bf16"; `memory`: where
        this worker's lie, in host memory without."""
        from .table import open_table

        return open_table(self, name, tensors, dict(optimizer=optimizer, schedule=schedule, compression=compression,
                                                    consistency=consistency, checkpoint=checkpoint), clip_norm,
                          accumulate, wire, memory, timeout)

    def sparse_table(self, name: str, dim: int, *, optimizer: Optimizer | None = None, schedule: Schedule | None = None,
                     consistency: Consistency | None = None, checkpoint: CheckpointOptions | None = None, seed: int = 0,
                     expire_after: int = 0, request_rows: int = 0, admit_after: int = 0, wire: str = "f32",
                     spread: float = 0.01, timeout: float | None = None) -> SparseTable:
        """Creates a sparse table of rows of `dim` floats, whose first values are uniform in [-spread, spread)."""
        from .sparse import open_table

        return open_table(self, name, dim, dict(optimizer=optimizer, schedule=schedule, consistency=consistency,
                                                checkpoint=checkpoint),
                          dict(seed=seed, expire_after=expire_after, request_rows=request_rows,
                               admit_after=admit_after),
                          wire, spread, timeout)

    def serve(self, tables: Sequence[Table] = (), sparse: Sequence[SparseTable] = (),
              timeout: float | None = None) -> None:
        """For a rank that only serves: works on the tables until every worker has closed them, as long as that takes
        if there is no timeout."""
        dense = ffi.new("weft_table*[]", [table._pointer("serve") for table in tables])
        rows = ffi.new("weft_sparse_table*[]", [table._pointer("serve") for table in sparse])
        pointer = self._pointer("serve")

        def call(seconds: float) -> int:
            code: int = lib.weft_parameter_server_serve(pointer, dense, len(dense), rows, len(rows), seconds)
            return code

        check(_waits.in_parts(call, timeout, float("inf")))
        for table in tables:
            table._check_rule()
        for rows_table in sparse:
            rows_table._check_rule()

    def close(self) -> None:
        """Frees the server. Refused while a table of it is open. It goes with the last array of its tables."""
        if any(not table.dropped for table in list(self._node.dependents)):
            raise bad_argument("close", "a table of the server is open", "close its tables first")
        super().close()
