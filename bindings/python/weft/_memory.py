"""Tensors, and how the arrays of other libraries become tensors: in the arena, adopted, or wrapped and then staged."""

from __future__ import annotations

import itertools
import weakref
from operator import index
from typing import Any, Sequence

import numpy

from . import _dlpack, _dtypes, _handles, device
from ._native import ffi, lib
from .device import HOST, Memory
from .errors import bad_argument, check

_STORAGE = ("wrapped", "adopted", "arena")
MAX_DIMS: int = lib.WEFT_MAX_DIMS

_queue = ffi.new("weft_unused_queue**")
check(lib.weft_unused_queue_new(_queue))
queue = _queue[0]
#: Objects whose memory weft uses, by their token.
_owners: dict[int, Any] = {}
_tokens = itertools.count(1)  # whose next() is one step for all threads


def keep(owner: Any) -> Any:
    """Keeps `owner` until the token that is returned comes to the queue."""
    forget_unused()
    token = next(_tokens)
    _owners[token] = owner
    return ffi.cast("void*", token)


def keep_managed(managed: Any, versioned: bool) -> None:
    """Deletes a DLPack tensor when it comes to the queue."""
    _owners[int(ffi.cast("uintptr_t", managed))] = _dlpack.Managed(managed, versioned)


def forget(token: Any) -> None:
    _owners.pop(int(ffi.cast("uintptr_t", token)), None)


def forget_unused() -> None:
    """Lets go of the memory that weft no longer needs."""
    token, found = ffi.new("void**"), ffi.new("int*")
    while lib.weft_unused_queue_next(queue, token, found) == 0 and found[0]:
        owner = _owners.pop(int(ffi.cast("uintptr_t", token[0])), None)
        if isinstance(owner, _dlpack.Managed):
            owner.delete()


def kept() -> int:
    """The number of objects whose memory weft uses now."""
    forget_unused()
    return len(_owners)


def dims_of(shape: Any, operation: str) -> Any:
    """A shape as the C ABI takes it: an int64_t[]."""
    try:
        dims = (index(shape),) if hasattr(shape, "__index__") else tuple(index(dim) for dim in shape)
    except (TypeError, ValueError):
        raise bad_argument(operation, f"{shape!r} is no shape", "give the dimensions, as (2, 3)") from None
    if len(dims) > MAX_DIMS:
        raise bad_argument(operation, f"{len(dims)} dimensions", f"at most {MAX_DIMS}: reshape it")
    if any(dim >= 2**63 or dim < -2**63 for dim in dims):
        raise bad_argument(operation, f"{shape!r} is no shape", "a dimension has less than 2**63 elements")
    return ffi.new("int64_t[]", dims)


class Tensor:
    """Elements in memory that weft knows: numpy.asarray(), DLPack and `.array` share them without a copy. On a GPU they
    are shared by DLPack alone.

    Thread-safety: as an array's. A tensor may outlive its world."""

    __slots__ = ("_handle", "_info", "_memory", "_whole", "_owner", "__weakref__")

    def __init__(self, handle: Any, owner: Any = None) -> None:
        self._handle = handle
        self._info = ffi.new("weft_tensor_info*")
        self._info.struct_size = ffi.sizeof("weft_tensor_info")
        check(lib.weft_tensor_get_info(handle, self._info))
        self._memory: Memory | None = None
        self._whole: Any = _none  #: a weak reference to the array of all elements
        self._owner = owner  #: what the memory needs to stay

    def __del__(self) -> None:
        # The module itself may be gone at the interpreter's end.
        if not getattr(_handles, "exiting", True) and getattr(self, "_handle", None) is not None:
            lib.weft_tensor_free(self._handle)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._info.dims[0:self._info.ndims])

    @property
    def dtype(self) -> Any:
        """numpy's type; "bf16" where numpy has none."""
        found = _dtypes.NUMPY[self._info.dtype]
        return _dtypes.NAMES[self._info.dtype] if found is None else found

    @property
    def nbytes(self) -> int:
        return int(self._info.bytes)

    @property
    def memory(self) -> Memory:
        """Host memory, or the GPU that has the elements."""
        if self._memory is None:
            self._memory = device.memory_of(self._handle)
        return self._memory

    @property
    def storage(self) -> str:
        """"arena": peers reach it without a copy; "adopted": put from without staging; "wrapped": staged."""
        return _STORAGE[self._info.memory]

    @property
    def read_only(self) -> bool:
        return bool(self._info.read_only)

    @property
    def array(self) -> Any:
        """The elements as a numpy array, the same one as long as it lives. BadArgument for those on a GPU."""
        found = self._whole()
        if found is None:
            self._check_host("array")
            dtype = _dtypes.numpy_of(self._info.dtype, "array")
            found = numpy.asarray(_Interface(self)) if dtype is _dtypes.ML_BF16 else numpy.asarray(self)
            if dtype is _dtypes.ML_BF16:
                found = found.view(dtype)
            self._whole = weakref.ref(found)
        return found

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface(_dtypes.numpy_of(self._info.dtype, "array").str)

    def _interface(self, typestr: str) -> dict[str, Any]:
        self._check_host("array")
        info = self._info
        size = _dtypes.SIZES[info.dtype]
        strides = None if info.dense else tuple(info.strides[i] * size for i in range(info.ndims))
        address = int(ffi.cast("uintptr_t", info.data))
        return {"version": 3, "shape": self.shape, "typestr": typestr, "strides": strides,
                "data": (address, bool(info.read_only))}

    def _check_host(self, operation: str) -> None:
        """Raises BadArgument if the processor must not touch the elements."""
        if self.memory.is_gpu:
            raise bad_argument(operation, f"the tensor lies on {self.memory}, where numpy has no arrays",
                               "copy it by world.copy(tensor, array), or share it by DLPack")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_dlpack.CPU, 0) if self.memory.is_host else (_dlpack.CUDA, self.memory.ordinal)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"the tensor lies in {self.memory}; ask for it there, and copy it")
        if copy and self.memory.is_gpu:
            raise BufferError(f"the tensor lies on {self.memory}; copy it by world.copy(tensor, other)")
        if copy:
            # The consumer gets a tensor of its own, not one of the arena.
            return numpy.array(self.array).__dlpack__()
        return self._capsule(max_version is not None and max_version[0] >= 1)

    def _capsule(self, versioned: bool) -> Any:
        return _dlpack.capsule(self._handle, versioned)

    def __reduce_ex__(self, _: Any) -> Any:
        raise _handles.no_copy(self)

    def __repr__(self) -> str:
        place = "" if self.memory.is_host else f", {self.memory}"
        return f"weft.Tensor({_dtypes.NAMES[self._info.dtype]}{list(self.shape)}, {self.storage}{place})"


def _none() -> None:
    return None


class Lent(Tensor):
    """A tensor in memory of an object that its arrays keep: an arrival, a table, a reader."""

    __slots__ = ("_keeper",)

    def __init__(self, handle: Any, keeper: Any) -> None:
        super().__init__(handle)
        self._keeper = keeper

    def _capsule(self, versioned: bool) -> Any:
        # Consumers keep a token of this object until they delete their tensor.
        info = self._info
        token = keep(self)
        out = ffi.new("weft_tensor**")
        code = lib.weft_tensor_wrap_queued_in(info.data, info.dtype, info.dims, info.ndims, self.memory._place,
                                              int(info.read_only), queue, token, out)
        if code:
            forget(token)
            check(code)
        return Tensor(out[0])._capsule(versioned)


class _Interface:
    """A tensor of bf16 as numbers of 16 bits, which numpy has without ml_dtypes."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.tensor._interface("<u2")


def new_tensor(call: Any, *arguments: Any) -> Tensor:
    """The tensor that a function of C writes to its last argument."""
    out = ffi.new("weft_tensor**")
    check(call(*arguments, out))
    return Tensor(out[0])


def allocate(world: Any, shape: Any, dtype: Any, memory: Memory = HOST) -> Tensor:
    dims, number = dims_of(shape, "allocate"), _dtypes.number_of(dtype, "allocate")
    return new_tensor(lib.weft_tensor_allocate_in, world, number, dims, len(dims), device.place_of(memory))


def _root(array: Any) -> Tensor | None:
    """The tensor that an array lies in; None for memory of others."""
    base = array.base
    while base is not None:
        if isinstance(base, Tensor):
            return base
        if isinstance(base, _Interface):
            return base.tensor
        base = getattr(base, "base", None)
    return None


def _array_of(value: Any, operation: str) -> Any:
    """The numpy array of an object that is neither a tensor nor given by DLPack."""
    if isinstance(value, numpy.ndarray):
        return value
    if hasattr(value, "__array_interface__"):
        return numpy.asarray(value)
    try:
        view = memoryview(value)
    except TypeError:
        raise bad_argument(operation, f"a {type(value).__name__} has no memory to move",
                           "give a weft.array, a numpy array, a buffer, or an object with __dlpack__") from None
    if not view.c_contiguous:
        raise _not_contiguous(operation)
    return numpy.asarray(view)


def _not_contiguous(operation: str) -> Exception:
    return bad_argument(operation, "the array is not C-contiguous", "give numpy.ascontiguousarray(it)")


def tensor_of(value: Any, operation: str, writable: bool = False) -> Tensor:
    """The tensor of any object that has memory. Memory of others is wrapped: weft copies it once more, and keeps the
    object until it needs it no more."""
    if isinstance(value, Tensor):
        found = value
    elif not isinstance(value, numpy.ndarray) and hasattr(value, "__dlpack__"):
        found = from_dlpack(None, value)
    else:
        found = _tensor_of_array(_array_of(value, operation), operation)
    if writable and found.read_only:
        raise bad_argument(operation, "the array is read-only", "give one that may be written, or a copy")
    return found


class Last:
    """The array that a call has taken last, and its tensor, if it is small and weft's own: a loop passes the same one
    each time. A larger one would keep memory that its user has dropped."""

    __slots__ = ("pair", "operation", "writable")

    def __init__(self, operation: str, writable: bool = False) -> None:
        self.pair: tuple[Any, Tensor] = _no_pair
        self.operation = operation
        self.writable = writable

    def take(self, value: Any) -> tuple[Any, Tensor]:
        """A pair whose second is the tensor of `value`. To be asked when `value` isn't the first of `pair`."""
        base: Any = value.base if type(value) is numpy.ndarray else None
        if type(base) is not Tensor or base._whole() is not value or (self.writable and base.read_only):
            return self, tensor_of(value, self.operation, self.writable)
        pair = (value, base)
        if base._info.bytes <= SMALL:
            self.pair = pair
        return pair


#: The largest array that a call keeps, in bytes.
SMALL = 4096
_no_pair: Any = (object(), None)


def _tensor_of_array(array: Any, operation: str) -> Tensor:
    root = _root(array)
    if root is not None and root._whole() is array:
        return root
    number = _dtypes.number_of(array.dtype, operation)
    if not array.flags.c_contiguous:
        raise _not_contiguous(operation)
    if array.ndim > MAX_DIMS:
        raise bad_argument(operation, f"{array.ndim} dimensions", f"at most {MAX_DIMS}: reshape it")
    dims = ffi.new("int64_t[]", array.shape)
    address, read_only = array.__array_interface__["data"]
    read_only = read_only or not array.flags.writeable
    if root is not None and root._info.dtype == number and root._info.dense and array.size > 0 \
            and bool(root._info.read_only) == read_only:
        offset = address - int(ffi.cast("uintptr_t", root._info.data))
        part = new_tensor(lib.weft_tensor_part, root._handle, offset // array.itemsize, dims, len(dims))
        part._owner = root
        return part
    token = keep(array)
    try:
        # numpy may give no address for an array without elements.
        data = ffi.cast("void*", address or int(ffi.cast("uintptr_t", _nothing)))
        return new_tensor(lib.weft_tensor_wrap_queued, data, number, dims, len(dims), int(read_only), queue, token)
    except BaseException:
        forget(token)
        raise


_nothing = ffi.new("char[64]")


def from_dlpack(world: Any, value: Any) -> Tensor:
    """The tensor of an object with __dlpack__, or of a capsule of DLPack's: adopted by a world, wrapped without one."""
    managed, versioned, capsule = _dlpack.managed_of(value)
    call = lib.weft_tensor_from_dlpack if versioned else lib.weft_tensor_from_dlpack_unversioned
    forget_unused()
    found = new_tensor(call, ffi.NULL if world is None else world, managed, queue)
    # The tensor is weft's from here on.
    keep_managed(managed, versioned)
    _dlpack.take(capsule, versioned)
    return found


def adopt(world: Any, value: Any) -> Tensor:
    """Memory of others that is put from, and into, without staging."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, numpy.ndarray) and (hasattr(value, "__dlpack__") or _dlpack.is_capsule(value)):
        return from_dlpack(world, value)
    array = _array_of(value, "adopt")
    root = _root(array)
    if root is not None:
        return _tensor_of_array(array, "adopt")
    if not array.flags.writeable:
        raise bad_argument("adopt", "the array is read-only", "give one that may be written, or a copy")
    number = _dtypes.number_of(array.dtype, "adopt")
    if not array.flags.c_contiguous:
        raise _not_contiguous("adopt")
    dims = dims_of(array.shape, "adopt")
    token = keep(array)
    try:
        data = ffi.cast("void*", array.__array_interface__["data"][0])
        return new_tensor(lib.weft_tensor_adopt_queued, world, data, number, dims, len(dims), queue, token)
    except BaseException:
        forget(token)
        raise


def tensor_list(values: Sequence[Any], operation: str) -> tuple[list[Tensor], Any]:
    """The tensors of several objects, and their handles as C takes them."""
    tensors = [tensor_of(value, operation) for value in values]
    return tensors, ffi.new("weft_tensor*[]", [tensor._handle for tensor in tensors])
