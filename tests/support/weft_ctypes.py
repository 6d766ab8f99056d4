"""weft.h for Python programs, with no package besides Python's own. Usage of such a program: PROGRAM PATH_OF_LIBWEFT"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_void_p

OK, MISMATCH, BAD_ARGUMENT, FORKED = 0, 5, 8, 16
U8 = 7
SECONDS = c_double(20)


class SlotSpec(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("dims", POINTER(c_int64)),
        ("ndims", c_size_t),
        ("depth", c_uint32),
    ]


weft = ctypes.CDLL(sys.argv[1])
weft.weft_error_text.restype = c_char_p


def error_text():
    return weft.weft_error_text().decode()


def require(code, what):
    if code != OK:
        sys.exit(f"failed: {what}: {error_text()}")


def expect(holds, what):
    if not holds:
        sys.exit(f"failed: {what}; last error {weft.weft_error_code()}: {error_text()}")


def bytes_spec(name, depth, *dims):
    return SlotSpec(name, U8, (c_int64 * len(dims))(*dims), len(dims), depth)


def pattern(tensor, size):
    return bytes((tensor * 31 + i * 7) % 251 for i in range(size))


def join():
    """The world, and this rank."""
    world, rank = c_void_p(), c_int(-1)
    require(weft.weft_join(byref(world)), "join")
    require(weft.weft_rank(world, byref(rank)), "rank")
    return world, rank.value
