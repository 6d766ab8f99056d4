"""Bodies of the conformance suite for slots."""

import gc
import threading

import numpy as np
import weft
from job import SECONDS, expect, expect_error, in_thread, soon


def ring(job, **options):
    """A slot of this rank, and the next rank's, which this one puts into."""
    spec = weft.SlotSpec(**{"name": "ring", "shape": (4, 8), "dtype": "f32", "depth": 2, **options})
    slot = job.world.expose(spec)
    return slot, job.world.attach(job.next, spec, SECONDS)


def puts_arrive_in_order(job):
    slot, remote = ring(job)
    source = job.world.array((4, 8))
    for step in range(1, 20):
        source[:] = 100 * job.rank + step
        remote.put(source, SECONDS)
        with slot.wait(SECONDS) as arrival:
            expect(arrival.sequence == step, "arrivals are counted from 1")
            expect((arrival.array == 100 * job.last + step).all(), "an arrival has the tensor that was put")
            expect(arrival.shape == (4, 8) and arrival.dtype == np.float32 and arrival.nbytes == 128, "and its shape")
    remote.close()
    slot.close()


def every_type_crosses(job):
    for dtype in ("f64", "f32", "f16", "i64", "i32", "i8", "u8", "bool"):
        slot, remote = ring(job, dtype=dtype, name="typed " + dtype)
        source = job.world.array((4, 8), dtype)
        source[:] = np.arange(32).reshape(4, 8) % 2
        remote.put(source)
        with slot.wait() as arrival:
            expect((arrival.array == source).all() and arrival.array.dtype == source.dtype, f"{dtype} crosses")
        remote.close()
        slot.close()


def memory_of_others_is_staged_or_adopted(job):
    slot, remote = ring(job, name="foreign")
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    readonly = values.copy()
    readonly.flags.writeable = False
    whole = np.arange(64, dtype=np.float32).reshape(8, 8)
    arena = job.world.array((8, 8))
    arena[:] = whole
    adopted = job.world.adopt(values.copy())
    expect(adopted.storage == "adopted" and job.world.adopt(arena).storage == "arena", "memory is adopted once")

    class Interface:
        __array_interface__ = values.__array_interface__

    for what, source, wanted, staged in (
            ("numpy's", values, values, True), ("read-only", readonly, values, True),
            ("a buffer", memoryview(values), values, True), ("an interface", Interface(), values, True),
            ("part of an array", whole[4:], whole[4:], True), ("part of an arena's", arena[4:], whole[4:], False),
            ("adopted", adopted, values, False), ("adopted's array", adopted.array, values, False),
            ("an arena's tensor", arena[:4].base.base, None, False), ("DLPack", Exporter(values), values, True)):
        if wanted is None:
            continue
        request = remote.put_start(source, until="delivered")
        expect(request.staged == staged, f"{what}: staged is {request.staged}")
        with slot.wait(SECONDS) as arrival:
            expect((arrival.array == wanted).all(), f"{what}: its elements cross")
        request.wait(SECONDS)
        request.close()
        remote.put(source)
        slot.wait(SECONDS).release()
    late = expect_error(weft.Timeout, "", lambda: slot.wait(0.02), "no further tensor")
    expect(late is not None and late.peer == job.last and late.host != "", "a late writer and its host are named")
    report = job.world.report()
    expect(any(edge["counters"]["bytes_copied"] >= 128 for edge in report["edges"] + report["paths"]),
           "the report tells what was copied")
    remote.close()
    slot.close()


class Exporter:
    """A tensor of another library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def several_parts_fill_a_buffer(job):
    slot, remote = ring(job, name="parts")
    first, second = job.world.array(12), np.full(20, 5, np.float32)
    first[:] = 3
    with remote.put_start([first, second], until="delivered") as request:
        with slot.wait(SECONDS) as arrival:
            expect((arrival.array.reshape(-1) == [3] * 12 + [5] * 20).all(), "parts lie one behind the other")
        request.wait(SECONDS)
        expect(request.test(), "the request has ended")
    remote.close()
    slot.close()


def an_arrival_stays_while_an_array_of_it_lives(job):
    slot, remote = ring(job, name="kept", depth=1)
    source = job.world.array((4, 8))
    source[:] = 1
    remote.put(source)
    arrival = slot.wait(SECONDS)
    array = arrival.array
    row = array[1]
    expect(not array.flags.writeable, "an arrival can't be written")
    del array
    error = expect_error(BufferError, "drop it first", arrival.release, "letting go while an array lives")
    del error
    expect_error(weft.BadArgument, "still open", slot.close, "closing a slot whose arrival is held")
    job.meet()
    expect_error(weft.Timeout, "has not let go", lambda: remote.put(source, 0.05), "a put into a held buffer")
    job.meet()
    del arrival
    gc.collect()
    expect((row == 1).all(), "an array keeps its arrival")
    del row
    remote.put(source, SECONDS)
    slot.wait(SECONDS).release()
    arrival = None
    remote.put(source, SECONDS)
    copied = slot.wait(SECONDS).copy()
    remote.put(source, SECONDS)
    expect((copied == 1).all(), "a copy keeps nothing")
    capsule = slot.wait(SECONDS).tensor.__dlpack__(max_version=(1, 0))
    gc.collect()
    job.meet()
    expect_error(weft.Timeout, "has not let go", lambda: remote.put(source, 0.05), "a capsule keeps its arrival")
    job.meet()
    del capsule
    weft._memory.forget_unused()
    remote.put(source, SECONDS)
    slot.wait(SECONDS).release()
    with slot_error(job):
        pass
    remote.close()
    slot.close()


class slot_error:
    """A block that fails lets its arrival go by itself, and keeps its own exception."""

    def __init__(self, job):
        self.job = job

    def __enter__(self):
        slot, remote = ring(self.job, name="failing", depth=1)
        remote.put(np.zeros((4, 8), np.float32))

        def fail():
            with slot.wait(SECONDS) as arrival:
                held = arrival.array
                raise KeyError(str(held[0, 0]))

        expect_error(KeyError, "0.0", fail, "a block that fails with an array")
        gc.collect()
        remote.put(np.zeros((4, 8), np.float32), SECONDS)
        slot.wait(SECONDS).release()
        remote.close()
        slot.close()

    def __exit__(self, *_):
        pass


def dynamic_slots_take_any_shape(job):
    slot, remote = ring(job, name="dynamic", shape=(0, 0), placement="dynamic")
    remote.put_start(np.ones((3, 5), np.float32)).close()
    arrival = slot.wait(SECONDS)
    array = arrival.array
    arrival.release()
    expect(array.shape == (3, 5) and (array == 1).all(), "a dynamic arrival's array outlives it")
    made = []

    def allocate(dtype, shape):
        made.append(np.empty(shape, dtype))
        return made[-1]

    slot.allocate_with(allocate)
    request = remote.put_start(np.full((2, 2), 4, np.float32))
    with slot.wait(SECONDS) as arrival:
        expect(len(made) == 1 and (made[0] == 4).all() and (arrival.array == 4).all(), "the caller's allocator is used")
    request.wait(SECONDS)
    slot.allocate_with(lambda dtype, shape: 1 // 0)
    request = remote.put_start(np.full((2, 2), 4, np.float32))
    expect_error(ZeroDivisionError, "", lambda: slot.wait(SECONDS), "an allocator that fails")
    slot.allocate_with(allocate)
    slot.wait(SECONDS).release()
    request.wait(SECONDS)
    request.close()
    remote.close()
    slot.close()


def memory_of_the_owner_may_be_the_slot(job):
    memory = job.world.array((2, 4, 8))
    spec = weft.SlotSpec("owned", (4, 8), depth=2)
    slot = job.world.expose(spec, memory)
    remote = job.world.attach(job.next, "owned", SECONDS)
    expect(remote.spec == spec and remote.owner == job.next and slot.spec == spec, "ends know the slot's properties")
    remote.put(np.full((4, 8), 6, np.float32))
    with slot.wait(SECONDS) as arrival:
        expect((memory[0] == 6).all() and (arrival.array == 6).all(), "the slot lies in the owner's array")
    remote.close()
    slot.close()


def a_slot_is_for_one_thread_at_a_time(job):
    slot, remote = ring(job, name="busy")
    started = threading.Event()

    def wait():
        started.set()
        return slot.wait(SECONDS)

    other = []
    thread = threading.Thread(target=lambda: other.append(wait()))
    thread.start()
    started.wait()
    while slot._lock.acquire(False):  # until the thread waits in the slot
        slot._lock.release()
    expect_error(weft.BadArgument, "another thread", lambda: slot.wait(0), "a second thread's wait")
    expect_error(weft.BadArgument, "another thread", slot.close, "a second thread's close")
    job.meet()  # nothing has come so far
    remote.put(np.zeros((4, 8), np.float32))
    thread.join(SECONDS)
    expect(len(other) == 1, "the first thread's wait goes on")
    other.clear()
    expect(in_thread(lambda: remote.put(np.zeros((4, 8), np.float32))) is None, "threads may take turns")
    slot.wait(SECONDS).release()
    job.meet()
    for _ in range(2):
        remote.put(np.zeros((4, 8), np.float32))
    refused = []

    def put(timeout):
        try:
            remote.put(np.zeros((4, 8), np.float32), timeout)
        except weft.BadArgument as error:
            refused.append(str(error))
        except weft.Timeout:
            pass

    thread = threading.Thread(target=lambda: put(1))
    thread.start()
    expect(soon(lambda: put(0) or refused) and "another thread" in refused[0], "two threads put at once")
    thread.join(SECONDS)
    job.meet()  # so long every buffer is full
    for _ in range(2):
        slot.wait(SECONDS).release()
    job.meet()
    remote.close()
    slot.close()


def mismatches_name_both_sides(job):
    slot = job.world.expose(weft.SlotSpec("mismatched", (4, 8)))
    job.meet()
    error = expect_error(weft.Mismatch, "f64", lambda: job.world.attach(
        job.next, weft.SlotSpec("mismatched", (4, 8), "f64"), SECONDS), "another type")
    expect(error.operation == "attach" and error.slot == "mismatched" and error.peer == job.next and error.code == 5,
           f"an error has its parts: {vars(error)}")
    expect_error(weft.DuplicateName, "mismatched", lambda: job.world.expose(weft.SlotSpec("mismatched")), "a second slot")
    expect_error(weft.Timeout, "absent", lambda: job.world.attach(job.next, "absent", 0.05), "no such slot")
    job.meet()
    slot.close()


BODIES = [puts_arrive_in_order, every_type_crosses, memory_of_others_is_staged_or_adopted, several_parts_fill_a_buffer,
          an_arrival_stays_while_an_array_of_it_lives, dynamic_slots_take_any_shape, memory_of_the_owner_may_be_the_slot,
          a_slot_is_for_one_thread_at_a_time, mismatches_name_both_sides]
