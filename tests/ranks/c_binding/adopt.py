"""Two ranks through ctypes put a Python object's own memory into another's: numpy arrays where numpy
is installed, else bytearrays. Each is kept alive by weft until it says that it is unused.

Usage (under mpirun): adopt.py PATH_OF_LIBWEFT
"""

import ctypes
import sys
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32
from ctypes import c_uint64, c_void_p

try:
    import numpy
except ImportError:
    numpy = None

OK, U8 = 0, 7
TENSORS, DEPTH, BYTES = 10, 2, 50_001
SECONDS = c_double(20)
UNUSED = CFUNCTYPE(None, c_void_p)


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


def require(code, what):
    if code != OK:
        sys.exit(f"failed: {what}: {weft.weft_error_text().decode()}")


def expect(holds, what):
    if not holds:
        sys.exit(f"failed: {what}")


class Lent:
    """Memory that Python owns, and whether weft still holds it."""

    def __init__(self, world, size):
        self.array = numpy.zeros(size, dtype=numpy.uint8) if numpy else bytearray(size)
        self.unused = False
        self.callback = UNUSED(self.on_unused)
        address = (ctypes.c_uint8 * size).from_buffer(self.array)
        self.tensor = c_void_p()
        dims = (c_int64 * 1)(size)
        require(
            weft.weft_tensor_adopt(
                world, address, U8, dims, 1, self.callback, None, byref(self.tensor)
            ),
            "adopt",
        )

    def on_unused(self, _):
        self.unused = True

    def fill(self, n):
        self.array[:] = numpy.frombuffer(pattern(n), numpy.uint8) if numpy else pattern(n)


def pattern(n):
    return bytes((n * 31 + i * 7) % 251 for i in range(BYTES))


def spec():
    return SlotSpec(b"bytes", U8, (c_int64 * 1)(BYTES), 1, DEPTH)


def write_tensors(world):
    remote = c_void_p()
    require(weft.weft_slot_attach(world, 1, byref(spec()), SECONDS, byref(remote)), "attach")
    mine = Lent(world, BYTES)
    for n in range(TENSORS):
        mine.fill(n)
        require(weft.weft_put(remote, mine.tensor, SECONDS), "put")
    expect(not mine.unused, "the array is weft's as long as the tensor lives")
    require(weft.weft_tensor_free(mine.tensor), "free")
    expect(mine.unused, "the array is Python's again")
    require(weft.weft_remote_slot_close(remote), "close the remote slot")


def read_tensors(world):
    slot, arrival, sequence = c_void_p(), c_void_p(), c_uint64()
    mine = Lent(world, DEPTH * BYTES)
    require(weft.weft_slot_expose_in(world, byref(spec()), mine.tensor, byref(slot)), "expose")
    require(weft.weft_tensor_free(mine.tensor), "free")
    for n in range(TENSORS):
        require(weft.weft_slot_wait(slot, SECONDS, byref(arrival)), "wait")
        require(weft.weft_arrival_sequence(arrival, byref(sequence)), "sequence")
        first = (sequence.value - 1) % DEPTH * BYTES
        expect(bytes(mine.array[first : first + BYTES]) == pattern(n), f"tensor {n} is in the array")
        require(weft.weft_arrival_release(arrival), "release")
    expect(not mine.unused, "the array is the slot's")
    require(weft.weft_slot_close(slot), "close the slot")
    return mine


def main():
    world, rank = c_void_p(), c_int(-1)
    require(weft.weft_join(byref(world)), "join")
    require(weft.weft_rank(world, byref(rank)), "rank")
    mine = (write_tensors if rank.value == 0 else read_tensors)(world)
    require(weft.weft_leave(world, SECONDS), "leave")
    expect(mine is None or mine.unused, "the array of a closed slot is Python's again")
    print("with", "numpy" if numpy else "bytearray")


main()
