"""Small objects of Python between the ranks of a group: pickle, whose large parts go as they lie.

A pickle runs what its sender likes, so these are for ranks of one job alone, never for a process outside it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Sequence

import numpy

from .errors import Error, bad_argument

if TYPE_CHECKING:
    from .collective import Collectives


def _packed(value: Any) -> Any:
    """An object as bytes: the number of its parts and their lengths, the pickle, and its buffers."""
    buffers: list[Any] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [numpy.frombuffer(head, numpy.uint8)] + [numpy.frombuffer(part.raw(), numpy.uint8) for part in buffers]
    lengths = numpy.array([len(parts)] + [len(part) for part in parts], numpy.int64)
    return numpy.concatenate([lengths.view(numpy.uint8)] + parts)


def _unpacked(data: Any) -> Any:
    count = int(data[:8].view(numpy.int64)[0])
    lengths = data[8:8 * (count + 1)].view(numpy.int64)
    parts, start = [], 8 * (count + 1)
    for length in lengths:
        # Arrays of the result lie in memory of their own, aligned and writable.
        parts.append(data[start:start + int(length)].copy())
        start += int(length)
    return pickle.loads(parts[0].tobytes(), buffers=parts[1:])


def _arena(group: Collectives, size: int) -> Any:
    return group._world.array(max(size, 1), "u8")


def _packed_or_error(value: Any) -> tuple[Any, Exception | None]:
    """The error of a value that can't be pickled: its rank tells the others before it raises, so that none waits."""
    try:
        return _packed(value), None
    except Exception as error:
        return numpy.empty(0, numpy.uint8), error


def _not_packed(operation: str, place: int) -> Error:
    return bad_argument(operation, f"an object of place {place} can't be pickled", "that rank's error says why")


def broadcast(group: Collectives, value: Any, root: int, timeout: float | None) -> Any:
    _check_root(group, root)
    size = group._world.array(1, "i64")
    packed, error = _packed_or_error(value) if group.rank == root else (None, None)
    size[0] = 0 if packed is None else -1 if error is not None else len(packed)
    group.broadcast(size, root, timeout)
    if size[0] < 0:
        raise _not_packed("broadcast_object", root) if error is None else error
    data = _arena(group, int(size[0]))
    if packed is not None:
        data[:len(packed)] = packed
    group.broadcast(data, root, timeout)
    return value if group.rank == root else _unpacked(data[:int(size[0])])


def gather(group: Collectives, value: Any, root: int, timeout: float | None) -> list[Any] | None:
    _check_root(group, root)
    packed, error = _packed_or_error(value)
    own, sizes = group._world.array(1, "i64"), group._world.array(group.size, "i64")
    own[0] = len(packed) if error is None else -1
    group.all_gather(own, sizes, timeout=timeout)
    if error is not None:
        raise error
    if (sizes < 0).any():
        raise _not_packed("gather_object", int(sizes.argmin()))
    counts = [int(size) for size in sizes]
    data = _arena(group, len(packed))
    data[:] = packed
    out = _arena(group, sum(counts)) if group.rank == root else None
    group.gather(data, out, root, counts, timeout)
    if out is None:
        return None
    found, start = [], 0
    for count in counts:
        found.append(_unpacked(out[start:start + count]))
        start += count
    return found


def scatter(group: Collectives, values: Sequence[Any] | None, root: int, timeout: float | None) -> Any:
    _check_root(group, root)
    sizes = group._world.array(group.size, "i64")
    packed: list[Any] = []
    error: Exception | None = None
    # A root that has too few objects tells the others before it raises, so that none waits.
    refused = group.rank == root and (values is None or len(values) != group.size)
    if group.rank == root and values is not None and not refused:
        for value in values:
            part, error = _packed_or_error(value)
            if error is not None:
                break
            packed.append(part)
    if error is not None:
        sizes[:] = -2
    else:
        sizes[:] = [len(part) for part in packed] if packed else -1
    group.broadcast(sizes, root, timeout)
    if sizes[0] == -2:
        raise _not_packed("scatter_object", root) if error is None else error
    if sizes[0] < 0:
        have = "none" if values is None else str(len(values))
        raise bad_argument("scatter_object", f"the root has {have if group.rank == root else 'not as many'} objects"
                           f" for {group.size} ranks", "give one for each rank of the group")
    counts = [int(size) for size in sizes]
    data = None
    if packed:
        data = _arena(group, sum(counts))
        data[:] = numpy.concatenate(packed)
    out = _arena(group, counts[group.rank])
    group.scatter(data, out, root, counts, timeout)
    return _unpacked(out)


def _check_root(group: Collectives, root: int) -> None:
    if not 0 <= root < group.size:
        raise bad_argument("objects", f"root is {root}", f"a place of the group, 0 to {group.size - 1}")
