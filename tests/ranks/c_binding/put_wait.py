"""Two ranks through ctypes, with no package besides Python's own: rank 0 puts tensors into a slot
of rank 1, which checks every byte; a writer with the wrong shape is refused on both sides first.

Usage (under mpirun): put_wait.py PATH_OF_LIBWEFT
"""

import ctypes
from ctypes import byref, c_double, c_int, c_size_t, c_uint64, c_void_p

from weft_ctypes import BAD_ARGUMENT, MISMATCH, OK, SECONDS, U8, bytes_spec, error_text, expect, join, pattern, require
from weft_ctypes import weft

TENSORS, DEPTH, ELEMENTS = 20, 3, 4096


def spec(*dims):
    return bytes_spec(b"bytes", DEPTH, *dims)


def expect_both_shapes(code, side):
    expect(code == MISMATCH, f"{side} gets a mismatch")
    expect("[64, 64]" in error_text() and "[4096]" in error_text(), f"{side} is told both shapes")


def write_tensors(world):
    remote = c_void_p()
    expect_both_shapes(
        weft.weft_slot_attach(world, 1, byref(spec(4096)), SECONDS, byref(remote)), "the writer"
    )
    slot = spec(64, 64)
    require(weft.weft_slot_attach(world, 1, byref(slot), SECONDS, byref(remote)), "attach")
    mine = (ctypes.c_uint8 * ELEMENTS)()
    tensor = c_void_p()
    require(weft.weft_tensor_wrap(mine, U8, slot.dims, slot.ndims, byref(tensor)), "wrap")
    for t in range(TENSORS):
        ctypes.memmove(mine, pattern(t, ELEMENTS), ELEMENTS)
        require(weft.weft_put(remote, tensor, SECONDS), "put")
    require(weft.weft_tensor_free(tensor), "free")
    require(weft.weft_remote_slot_close(remote), "close the remote slot")


def next_arrival(slot, seconds, arrival, refusals):
    """The owner is told of the refused writer once, before some tensor or after the last one."""
    code = weft.weft_slot_wait(slot, seconds, byref(arrival))
    if code != MISMATCH:
        return code
    expect_both_shapes(code, "the owner")
    refusals.append(error_text())
    return weft.weft_slot_wait(slot, seconds, byref(arrival))


def read_tensors(world):
    slot, arrival, refusals = c_void_p(), c_void_p(), []
    require(weft.weft_slot_expose(world, byref(spec(64, 64)), byref(slot)), "expose")
    for t in range(TENSORS):
        data, bytes_, sequence = c_void_p(), c_size_t(), c_uint64()
        require(next_arrival(slot, SECONDS, arrival, refusals), "wait")
        require(weft.weft_arrival_data(arrival, byref(data)), "arrival data")
        require(weft.weft_arrival_bytes(arrival, byref(bytes_)), "arrival bytes")
        require(weft.weft_arrival_sequence(arrival, byref(sequence)), "arrival sequence")
        expect(bytes_.value == ELEMENTS, "an arrival has the slot's size")
        expect(sequence.value == t + 1, "arrivals come in the order of the puts")
        expect(ctypes.string_at(data, ELEMENTS) == pattern(t, ELEMENTS), f"tensor {t} is the one put")
        require(weft.weft_arrival_release(arrival), "release")
    expect(next_arrival(slot, c_double(0.1), arrival, refusals) != OK, "nothing else arrives")
    expect(len(refusals) == 1, "the owner learns of the refused writer, once")
    require(weft.weft_slot_close(slot), "close the slot")


def main():
    world, rank = join()
    size = c_int()
    require(weft.weft_size(world, byref(size)), "size")
    expect(size.value == 2, "the job has two ranks")
    expect(weft.weft_rank(None, byref(size)) == BAD_ARGUMENT, "a NULL world is refused")
    (write_tensors if rank == 0 else read_tensors)(world)
    require(weft.weft_leave(world, SECONDS), "leave")


main()
