"""Group: some ranks of a world, and the survivors' agreement after a death."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable

from . import _handles, _waits
from ._native import ffi, lib
from .errors import check

if TYPE_CHECKING:
    from .world import World


class Group:
    """Ranks of a world in an order. May be used by several threads."""

    def __init__(self, world: World, pointer: Any) -> None:
        self._world = world
        self._group = pointer

    def __del__(self) -> None:
        if not _handles.exiting:
            lib.weft_group_free(self._group)

    def __reduce_ex__(self, _: Any) -> Any:
        raise _handles.no_copy(self)

    def _number(self, call: Any, kind: str = "int*") -> int:
        out = ffi.new(kind)
        check(call(self._group, out))
        return int(out[0])

    @property
    def rank(self) -> int:
        """This rank's place in the group, from 0; -1 if it is not a member."""
        return self._number(lib.weft_group_rank)

    @property
    def size(self) -> int:
        return self._number(lib.weft_group_size)

    @property
    def members(self) -> tuple[int, ...]:
        """The members' ranks in the world, by place."""
        out = ffi.new("int**")
        check(lib.weft_group_members(self._group, out))
        return tuple(out[0][0:self.size])

    def place_of(self, rank: int) -> int:
        """The place of a rank of the world; -1 if it is not a member."""
        out = ffi.new("int*")
        check(lib.weft_group_place_of(self._group, rank, out))
        return int(out[0])

    @property
    def epoch(self) -> int:
        """The number of shrinks between the world's group and this one."""
        return self._number(lib.weft_group_epoch, "uint32_t*")

    @property
    def id(self) -> int:
        """Equal for groups with the same members, order and epoch, and only for those."""
        return self._number(lib.weft_group_id, "uint64_t*")

    def subset(self, places: Iterable[int]) -> Group:
        """The group of the members at `places`, in this order. Each of them calls it with equal arguments."""
        array = ffi.new("int[]", list(places))
        out = ffi.new("weft_group**")
        check(lib.weft_group_subset(self._group, array, len(array), out))
        return Group(self._world, out[0])

    def split(self, colour: int | None, key: int = 0, timeout: float | None = None) -> Group:
        """The group of the members that give the same `colour`, from 0 on, ordered by `key` and then by their places
        here. A member that gives None gets the empty group. Every member calls it."""
        number = lib.WEFT_NO_COLOUR if colour is None else colour
        seconds = _waits.seconds(timeout)

        def call() -> Any:
            out = ffi.new("weft_group**")
            check(lib.weft_group_split(self._group, number, key, seconds, out))
            return out[0]

        return Group(self._world, _waits.on_thread(call, lib.weft_group_free))

    def shrink(self, timeout: float | None = None) -> Group:
        """Agrees with the other members on the survivors: each of them gets the same group."""

        def call() -> Any:
            out = ffi.new("weft_group**")
            check(lib.weft_group_shrink(self._group, _waits.seconds(timeout), out))
            return out[0]

        return Group(self._world, _waits.on_thread(call, lib.weft_group_free))

    def __repr__(self) -> str:
        return f"weft.Group{self.members}"
