"""Two ranks through ctypes put a Python object's own memory into another's: numpy arrays where numpy
is installed, else bytearrays. Each is kept alive by weft until it says that it is unused.

Usage (under mpirun): adopt.py PATH_OF_LIBWEFT
"""

import ctypes
from ctypes import CFUNCTYPE, byref, c_int64, c_uint64, c_void_p

from weft_ctypes import SECONDS, U8, bytes_spec, expect, join, pattern, require, weft

try:
    import numpy
except ImportError:
    numpy = None

TENSORS, DEPTH, BYTES = 10, 2, 50_001
UNUSED = CFUNCTYPE(None, c_void_p)
SPEC = bytes_spec(b"bytes", DEPTH, BYTES)


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
        data = pattern(n, BYTES)
        self.array[:] = numpy.frombuffer(data, numpy.uint8) if numpy else data


def write_tensors(world):
    remote = c_void_p()
    require(weft.weft_slot_attach(world, 1, byref(SPEC), SECONDS, byref(remote)), "attach")
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
    require(weft.weft_slot_expose_in(world, byref(SPEC), mine.tensor, byref(slot)), "expose")
    require(weft.weft_tensor_free(mine.tensor), "free")
    for n in range(TENSORS):
        require(weft.weft_slot_wait(slot, SECONDS, byref(arrival)), "wait")
        require(weft.weft_arrival_sequence(arrival, byref(sequence)), "sequence")
        first = (sequence.value - 1) % DEPTH * BYTES
        expect(bytes(mine.array[first : first + BYTES]) == pattern(n, BYTES), f"tensor {n} is in the array")
        require(weft.weft_arrival_release(arrival), "release")
    expect(not mine.unused, "the array is the slot's")
    require(weft.weft_slot_close(slot), "close the slot")
    return mine


def main():
    world, rank = join()
    mine = (write_tensors if rank == 0 else read_tensors)(world)
    require(weft.weft_leave(world, SECONDS), "leave")
    expect(mine is None or mine.unused, "the array of a closed slot is Python's again")
    print("with", "numpy" if numpy else "bytearray")


main()
