"""Functions of Python that weft calls: each has a number, which C gives back as its context."""

from __future__ import annotations

import itertools
import sys
from typing import Any, Callable

import numpy

from . import _dtypes, _enums, _memory
from ._native import ffi, lib
from .errors import Error


class Callback:
    """A function that weft calls. Its last exception is kept, since C can't raise it."""

    _numbers = itertools.count(1)
    _all: dict[int, Callback] = {}

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.failure: BaseException | None = None
        self.number = next(Callback._numbers)
        Callback._all[self.number] = self
        self.context = ffi.cast("void*", self.number)

    def raise_failure(self) -> None:
        """Raises the exception that the function has raised."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def forget(self) -> None:
        Callback._all.pop(self.number, None)

    @staticmethod
    def of(context: Any) -> Callback:
        return Callback._all[int(ffi.cast("uintptr_t", context))]


class Working:
    """`with Working(address, count, number) as array:` a copy of elements of weft's for a function of the user's. The
    function may keep the array, or a part of it: the memory at the address is another's after the call."""

    __slots__ = ("address", "raw", "array", "size")

    #: Memory of calls that have ended, of which no array is kept.
    _spare: list[Any] = []
    _MOST, _LARGEST = 8, 4 << 20

    def __init__(self, address: Any, count: int, number: int) -> None:
        self.address = address
        self.size = count * _dtypes.SIZES[number]
        try:
            raw = Working._spare.pop()
        except IndexError:
            raw = None
        if raw is None or len(raw) < self.size:
            raw = numpy.empty(max(self.size, 4096), numpy.uint8)
        ffi.memmove(raw, address, self.size)
        dtype = _dtypes.NUMPY[number]
        self.array = raw[:self.size].view(numpy.uint16 if dtype is None else dtype)
        self.raw = raw

    def write_back(self) -> None:
        """Gives weft the elements as they are now."""
        ffi.memmove(self.address, self.raw, self.size)

    def __enter__(self) -> Working:
        return self

    def __exit__(self, *_: object) -> None:
        raw, self.raw, self.array = self.raw, None, None
        # An array that is kept refers to it, as this frame and the call do.
        if sys.getrefcount(raw) <= 2 and len(Working._spare) < Working._MOST and len(raw) <= Working._LARGEST:
            Working._spare.append(raw)


class Allocator(Callback):
    """Makes the memory of dynamic arrivals."""

    def __del__(self) -> None:
        self.forget()


class Reduce(Callback):
    """A reduction of the user's."""

    def __del__(self) -> None:
        self.forget()


@ffi.def_extern(name="weft_python_allocate")  # type: ignore[misc]
def _allocate(context: Any, dtype: int, dims: Any, ndims: int, tensor: Any) -> int:
    callback = Callback.of(context)
    try:
        shape = tuple(dims[0:ndims])
        found = _dtypes.NUMPY[dtype]
        made = _memory.tensor_of(callback.function(_dtypes.NAMES[dtype] if found is None else found, shape),
                                 "allocate", writable=True)
        return int(lib.weft_tensor_share(made._handle, tensor))
    except Error as error:
        callback.failure = error
        return max(error.code, 1)
    except BaseException as error:
        callback.failure = error
        return _enums.CODE.values["exhausted"]


@ffi.def_extern(name="weft_python_reduce")  # type: ignore[misc]
def _reduce(context: Any, into: Any, from_: Any, count: int, dtype: int) -> None:
    callback = Callback.of(context)
    try:
        with Working(into, count, dtype) as target, Working(from_, count, dtype) as other:
            callback.function(target.array, other.array)
            target.write_back()
    except BaseException as error:
        callback.failure = error


@ffi.def_extern(name="weft_python_observe")  # type: ignore[misc]
def _observe(context: Any, event: Any) -> None:
    callback = Callback.of(context)
    try:
        callback.function({
            "key": ffi.buffer(event.key, event.key_bytes)[:].decode("utf-8", "replace"), "step": event.step,
            "message": _enums.RENDEZVOUS_MESSAGE.names[event.message], "peer": event.peer, "sent": bool(event.sent),
            "by_name": bool(event.by_name), "with_metadata": bool(event.with_metadata)})
    except BaseException as error:
        callback.failure = error
