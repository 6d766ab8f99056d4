"""Functions of Python that weft calls: each has a number, which C gives back as its context."""

from __future__ import annotations

import itertools
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


def _array(address: Any, count: int, number: int) -> Any:
    """`count` elements at an address as an array, for the time of a call."""
    size = _dtypes.SIZES[number]
    raw = numpy.frombuffer(ffi.buffer(address, count * size), numpy.uint8)
    dtype = _dtypes.NUMPY[number]
    return raw.view(numpy.uint16 if dtype is None else dtype)


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
        callback.function(_array(into, count, dtype), _array(from_, count, dtype))
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
