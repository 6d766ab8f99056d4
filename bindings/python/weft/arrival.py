"""Arrivals: a tensor that a peer has put, readable in the slot's own memory until it is let go."""

from __future__ import annotations

import weakref
from typing import Any

from . import _memory
from ._handles import Node, Owner
from ._memory import Tensor
from ._native import ffi, lib
from .errors import check


class Arrival(Owner):
    """A tensor in a slot's buffer, or a version of a published slot. Letting it go returns the buffer.

    As a context manager it is let go at the end. An array of it that still lives then is a BufferError. An arrival that
    is dropped is let go when its last array is."""

    def __init__(self, slot: Any, pointer: Any) -> None:
        node = slot._node
        self._slot = slot
        self._node = Node(pointer, lib.weft_arrival_release, node, node.line, "the arrival")
        self._lent: Any = _memory._none  #: a weak reference to the tensor, which arrays keep

    @property
    def sequence(self) -> int:
        """The tensor's number in its slot, from 1."""
        out = ffi.new("uint64_t*")
        check(lib.weft_arrival_sequence(self._pointer("sequence"), out))
        return int(out[0])

    @property
    def tensor(self) -> Tensor:
        """The tensor itself, read-only; by DLPack also without numpy. A dynamic slot's tensor keeps its memory
        after the arrival is released."""
        found: Tensor | None = self._lent()
        if found is None:
            out = ffi.new("weft_tensor**")
            check(lib.weft_arrival_tensor(self._pointer("tensor"), out))
            if self._slot.spec.placement == "dynamic":
                return Tensor(out[0])
            found = _memory.Lent(out[0], self)
            self._lent = weakref.ref(found)
        return found

    @property
    def array(self) -> Any:
        """The tensor as a read-only numpy array, without a copy."""
        return self.tensor.array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> Any:
        return self.tensor.dtype

    @property
    def nbytes(self) -> int:
        return self.tensor.nbytes

    def copy(self) -> Any:
        """The elements as a numpy array of its own."""
        return self.array.copy()

    def release(self) -> None:
        """Returns the buffer to the writer. BufferError while an array of it lives. Calling it again does nothing."""
        if self._node.dropped:
            return
        if self._lent() is not None:
            _memory.forget_unused()
            if self._lent() is not None:
                raise BufferError("an array of this arrival lives; drop it first, or take arrival.copy()")
        self._node.close("release")

    close = release

    def __exit__(self, *failure: object) -> None:
        if failure[0] is not None and self._lent() is not None:
            return  # the arrays of the frames that failed let it go
        self.release()


