"""DLPack: tensors of other libraries as capsules, from and to."""

from __future__ import annotations

import ctypes
from typing import Any

from ._native import ffi, lib
from .errors import bad_argument, check

_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = _api.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_set_name = _api.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]

# A capsule keeps a pointer to its name, so these stay.
_NAMES = {True: ctypes.c_char_p(b"dltensor_versioned"), False: ctypes.c_char_p(b"dltensor")}
_USED = {True: ctypes.c_char_p(b"used_dltensor_versioned"), False: ctypes.c_char_p(b"used_dltensor")}
_DESTRUCTORS = {versioned: int(lib.weft_python_capsule_destructor(versioned)) for versioned in (False, True)}
#: DLPack's types of devices.
CPU, CUDA = 1, 2


class Managed:
    """A DLPack tensor of another library that weft has taken over; it is deleted by a thread of Python."""

    __slots__ = ("pointer", "versioned")

    def __init__(self, pointer: Any, versioned: bool) -> None:
        self.pointer = pointer
        self.versioned = versioned

    def delete(self) -> None:
        lib.weft_python_delete_managed(self.pointer, self.versioned)


def capsule(tensor: Any, versioned: bool) -> Any:
    """A capsule of a C tensor, in DLPack's form of version 1 or the one before it."""
    if versioned:
        out = ffi.new("struct DLManagedTensorVersioned**")
        check(lib.weft_tensor_to_dlpack(tensor, out))
    else:
        out = ffi.new("struct DLManagedTensor**")
        code = lib.weft_tensor_to_dlpack_unversioned(tensor, out)
        if code == lib.WEFT_CODE_BAD_ARGUMENT:
            raise BufferError("the memory is read-only, which only DLPack 1 can say: "
                              "ask by max_version=(1, 0), or copy it")
        check(code)
    return _new(int(ffi.cast("uintptr_t", out[0])), _NAMES[versioned], _DESTRUCTORS[versioned])


def is_capsule(value: Any) -> bool:
    return type(value).__name__ == "PyCapsule"


def managed_of(value: Any) -> tuple[Any, bool, Any]:
    """The DLPack tensor of an object or a capsule, its form, and its capsule, which still owns it."""
    found = value
    if not is_capsule(value):
        if value.__dlpack_device__()[0] not in (CPU, CUDA):
            raise bad_argument("from_dlpack", "the tensor is neither in the processor's memory nor on a CUDA GPU",
                               "copy it there first")
        try:
            found = value.__dlpack__(max_version=(1, 0))
        except TypeError:
            found = value.__dlpack__()
    for versioned, kind in ((True, "struct DLManagedTensorVersioned*"), (False, "struct DLManagedTensor*")):
        if _is_valid(found, _NAMES[versioned]):
            return ffi.cast(kind, _pointer(found, _NAMES[versioned])), versioned, found
    if any(_is_valid(found, name) for name in _USED.values()):
        raise bad_argument("from_dlpack", "this DLPack capsule was used before", "ask its tensor for a new one")
    raise bad_argument("from_dlpack", "this is no capsule of DLPack's", "give an object with __dlpack__")


def take(found: Any, versioned: bool) -> None:
    """Marks a capsule as used: its tensor has a new owner."""
    _set_name(found, _USED[versioned])
