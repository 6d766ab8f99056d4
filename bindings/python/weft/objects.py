"""Small objects of Python between the ranks of a group: pickle, whose large parts go as they lie.

A pickle runs what its sender likes, so these are for ranks of one job alone, never for a process outside it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Sequence

import numpy

from .errors import bad_argument

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


def broadcast(group: Collectives, value: Any, root: int, timeout: float | None) -> Any:
    _check_root(group, root)
    size = group._world.array(1, "i64")
    packed = _packed(value) if group.rank == root else None
    size[0] = 0 if packed is None else len(packed)
    group.broadcast(size, root, timeout)
    data = _arena(group, int(size[0]))
    if packed is not None:
        data[:len(packed)] = packed
    group.broadcast(data, root, timeout)
    return value if group.rank == root else _unpacked(data[:int(size[0])])


def gather(group: Collectives, value: Any, root: int, timeout: float | None) -> list[Any] | None:
    _check_root(group, root)
    packed = _packed(value)
    own, sizes = group._world.array(1, "i64"), group._world.array(group.size, "i64")
    own[0] = len(packed)
    group.all_gather(own, sizes, timeout=timeout)
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
    # A root that has too few objects tells the others before it raises, so that none waits.
    refused = group.rank == root and (values is None or len(values) != group.size)
    if group.rank == root and values is not None and not refused:
        packed = [_packed(value) for value in values]
    sizes[:] = [len(part) for part in packed] if packed else -1
    group.broadcast(sizes, root, timeout)
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
