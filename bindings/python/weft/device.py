"""Where tensors lie: in host memory, or on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any

from ._native import ffi, lib
from .errors import bad_argument, check, text

_HOST: int = lib.WEFT_PLACE_HOST
_OWN_GPU: int = lib.WEFT_PLACE_OWN_GPU


@dataclass(frozen=True)
class Memory:
    """Host memory, or one GPU's: Memory.host(), Memory.gpu(), Memory.gpu(2). Equal if it is the same."""

    _place: int = _HOST

    @staticmethod
    def host() -> Memory:
        """Host memory."""
        return Memory()

    @staticmethod
    def gpu(ordinal: int | None = None) -> Memory:
        """The GPU with this number among those that the process sees, as CUDA counts them; without a number this rank's
        own (WEFT_GPU). A tensor's memory names its GPU by the number."""
        if ordinal is None:
            return Memory(_OWN_GPU)
        if not 0 <= index(ordinal) <= 32767:
            raise bad_argument("gpu", f"{ordinal} is the number of no GPU", "they are counted from 0")
        return Memory(index(ordinal))

    @property
    def is_host(self) -> bool:
        return self._place == _HOST

    @property
    def is_gpu(self) -> bool:
        return self._place != _HOST

    @property
    def ordinal(self) -> int:
        """The GPU's number; -1 for host memory and for the rank's own GPU."""
        return max(self._place, -1)

    def __str__(self) -> str:
        out = ffi.new("char**")
        check(lib.weft_place_text(self._place, out))
        try:
            return text(out[0])
        finally:
            lib.weft_text_free(out[0])

    def __repr__(self) -> str:
        return f"weft.Memory({self})"


HOST = Memory.host()


def memory_of(tensor: Any) -> Memory:
    """Where a tensor of C lies."""
    out = ffi.new("int*")
    check(lib.weft_tensor_get_place(tensor, out))
    return HOST if out[0] == _HOST else Memory(int(out[0]))


def place_of(memory: Memory) -> int:
    """A place as C's functions take it."""
    if not isinstance(memory, Memory):
        raise bad_argument("memory", f"a {type(memory).__name__} is no weft.Memory", "give weft.Memory.gpu()")
    return memory._place


def owners_place(memory: Memory | None, operation: str) -> Any:
    """A place as the specs of C take it, which owners alone give; None for host memory."""
    if memory is None:
        return None
    if operation == "attach":
        raise bad_argument(operation, "the spec names a memory", "the owner alone says where its tensors lie")
    return ffi.new("int*", place_of(memory))
