"""A rank in Python that uses a pool of forked processes: in these every call says that they are no
rank, and the rank goes on.

Usage (under mpirun, 2 ranks): forking_pool.py PATH_OF_LIBWEFT
"""

import ctypes as c
import multiprocessing
import sys

from weft_ctypes import FORKED, SECONDS, bytes_spec, join, require, weft

STEPS, TASKS = 5, 6

DIMS = (c.c_int64 * 1)(4)
SPEC = bytes_spec(b"numbers", 1, 4)
slot, remote, tensor, arrival = (c.c_void_p() for _ in range(4))
world, rank = join()


def codes_in_a_fork(task):
    number, out, data, size = c.c_int(), c.c_void_p(), c.c_void_p(), c.c_size_t()
    codes = {
        "join": weft.weft_join(c.byref(out)),
        "rank": weft.weft_rank(world, c.byref(number)),
        "size": weft.weft_size(world, c.byref(number)),
        "allocate": weft.weft_tensor_allocate(world, 7, DIMS, 1, c.byref(out)),
        "expose": weft.weft_slot_expose(world, c.byref(SPEC), c.byref(out)),
        "attach": weft.weft_slot_attach(world, 0, c.byref(SPEC), SECONDS, c.byref(out)),
        "put": weft.weft_put(remote, tensor, SECONDS),
        "wait": weft.weft_slot_wait(slot, SECONDS, c.byref(out)),
        "arrival_data": weft.weft_arrival_data(arrival, c.byref(data)),
        "arrival_bytes": weft.weft_arrival_bytes(arrival, c.byref(size)),
        "arrival_release": weft.weft_arrival_release(arrival),
        "slot_close": weft.weft_slot_close(slot),
        "remote_slot_close": weft.weft_remote_slot_close(remote),
        "leave": weft.weft_leave(world, SECONDS),
    }
    return task, {call: code for call, code in codes.items() if code != FORKED}


def step():
    """One tensor each way; the arrival is held until the next step."""
    if arrival:
        require(weft.weft_arrival_release(arrival), "release")
    require(weft.weft_put(remote, tensor, SECONDS), "put")
    require(weft.weft_slot_wait(slot, SECONDS, c.byref(arrival)), "wait")


def main():
    require(weft.weft_slot_expose(world, c.byref(SPEC), c.byref(slot)), "expose")
    attached = weft.weft_slot_attach(world, 1 - rank, c.byref(SPEC), SECONDS, c.byref(remote))
    require(attached, "attach")
    require(weft.weft_tensor_allocate(world, 7, DIMS, 1, c.byref(tensor)), "allocate")
    step()
    for _ in range(2):
        with multiprocessing.get_context("fork").Pool(3) as pool:
            for task, wrong in pool.imap_unordered(codes_in_a_fork, range(TASKS)):
                if wrong:
                    sys.exit(f"failed: task {task}: these did not say forked: {wrong}")
                step()
    for _ in range(STEPS):
        step()
    require(weft.weft_arrival_release(arrival), "release")
    require(weft.weft_remote_slot_close(remote), "close")
    require(weft.weft_slot_close(slot), "close")
    require(weft.weft_tensor_free(tensor), "free")
    require(weft.weft_leave(world, SECONDS), "leave")


main()
