"""Arrays in the arena, DLPack in both directions, and bad input: each is refused by one line that says what to do."""

import ctypes
import gc
import weakref

import numpy as np
import weft
from job import SECONDS, expect, expect_error, soon
from weft import _memory


def arrays_lie_in_the_arena(job):
    array = job.world.array((2, 3), "i32")
    expect(array.base.storage == "arena" and array.base.memory == weft.Memory.host() and array.flags.writeable and array.ctypes.data % 64 == 0, "an arena's array")
    array[:] = 5
    expect((weft.array((2, 3), np.int32, world=job.world).dtype == np.int32) and weft.array(4).shape == (4,),
           "weft.array is the only world's")
    view = array[1]
    tensor = array.base
    expect(np.asarray(tensor) is not None and (np.asarray(tensor) == 5).all(), "a tensor is an array")
    del array
    gc.collect()
    expect((view == 5).all() and tensor.array.shape == (2, 3), "a view keeps the memory")
    scalar = job.world.array((), "f64")
    scalar[...] = 2.5
    expect(scalar.shape == () and float(scalar) == 2.5, "a scalar")
    bf16 = job.world.allocate((3,), "bf16")
    expect(bf16.nbytes == 6 and bf16.shape == (3,), "bf16 needs no numpy")
    if weft._dtypes.ML_BF16 is None:
        expect(bf16.dtype == "bf16", "without ml_dtypes its type is a name")
        expect_error(weft.BadArgument, "install ml_dtypes", lambda: bf16.array, "an array of bf16")
        expect_error(weft.BadArgument, "install ml_dtypes", lambda: job.world.array(3, "bf16"), "an array of bf16")
    else:
        bf16.array[:] = 1.5
        expect(bf16.array.dtype == weft._dtypes.ML_BF16 and (bf16.array == 1.5).all(), "ml_dtypes' bf16")
    with job.world.expose(weft.SlotSpec("bf16", (3,), "bf16")) as slot:
        with job.world.attach(job.rank, "bf16", SECONDS) as remote:
            remote.put(bf16)
            with slot.wait(SECONDS) as arrival:
                expect(arrival.tensor.nbytes == 6, "bf16 crosses")


def dlpack_crosses_both_ways(job):
    tensor = job.world.allocate((2, 2), "f32")
    tensor.array[:] = 7
    # numpy asks for the form before version 1, or for both.
    theirs = np.from_dlpack(tensor)
    expect((theirs == 7).all() and theirs.ctypes.data == tensor.array.ctypes.data, "an export shares memory")
    del tensor
    gc.collect()
    expect((theirs == 7).all(), "and keeps it")
    for version in (None, (1, 0)):
        capsule = job.world.allocate(3).__dlpack__(max_version=version)
        again = job.world.from_dlpack(capsule)
        expect(again.shape == (3,), "a capsule is taken")
        expect_error(weft.BadArgument, "ask its tensor for a new one", lambda: job.world.from_dlpack(capsule),
                     "a capsule that was used")
        del capsule, again
        job.world.allocate(3).__dlpack__(max_version=version)  # which nobody takes
    before = _memory.kept()
    source = np.arange(6, dtype=np.float64)
    alive = weakref.ref(source)

    class Theirs:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    adopted = job.world.from_dlpack(Theirs(source))
    expect(adopted.storage == "adopted" and adopted.array[5] == 5, "another library's tensor is adopted")
    del source
    gc.collect()
    expect(alive() is not None and _memory.kept() == before + 1, "and kept")
    del adopted
    gc.collect()
    expect(_memory.kept() == before and alive() is None, "until it is dropped")

    class OnGpu(Theirs):
        def __dlpack_device__(self):
            return (10, 0)

    expect_error(weft.BadArgument, "copy it there first", lambda: job.world.from_dlpack(OnGpu(None)),
                 "the tensor of a GPU that is none of CUDA's")
    for what, memory in (("-1", lambda: weft.Memory.gpu(-1)), ("weft.Memory", lambda: job.world.allocate(3, memory="gpu"))):
        expect_error(weft.BadArgument, what, memory, "no memory")
    expect_error(weft.BadArgument, "give an object with __dlpack__",
                 lambda: job.world.from_dlpack(_capsule(b"something else")), "another capsule")


def _capsule(name):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    _capsule.name = ctypes.c_char_p(name)  # a capsule keeps a pointer to its name
    return new(1, _capsule.name, None)


def bad_arrays_are_refused(job):
    square = np.zeros((4, 4), np.float32)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    with job.world.expose(weft.SlotSpec("bad", (4, 4))) as slot, job.world.attach(job.rank, "bad", SECONDS) as remote:
        for put in (remote.put, remote.put_start, job.world.adopt, lambda x: job.world.messages.send(job.rank, 1, x)):
            expect_error(weft.BadArgument, "numpy.ascontiguousarray", lambda: put(square.T[1:]), "columns")
            expect_error(weft.BadArgument, "numpy.ascontiguousarray", lambda: put(square[:, 1]), "a column")
            expect_error(weft.BadArgument, "at most 8", lambda: put(np.zeros((1,) * 9, np.float32)), "9 dimensions")
            expect_error(weft.BadArgument, "complex128", lambda: put(np.zeros(4, np.complex128)), "complex numbers")
            expect_error(weft.BadArgument, "byte order", lambda: put(square.astype(">f4")), "the other byte order")
            expect_error(weft.BadArgument, "no memory to move", lambda: put("text"), "a text")
            expect_error(weft.BadArgument, "object", lambda: put(np.array([None])), "objects")
        expect_error(weft.Mismatch, "f64", lambda: remote.put(square.astype(np.float64)), "another type")
        expect_error(weft.Mismatch, "[2, 4]", lambda: remote.put(square[:2]), "another shape")
        expect_error(weft.Mismatch, "[0]", lambda: remote.put(np.zeros(0, np.float32)), "no elements")
        remote.put(square.T.T)
        slot.wait(SECONDS).release()
    messages = job.world.messages
    expect_error(weft.BadArgument, "read-only", lambda: messages.recv(job.rank, 1, frozen, 0), "receiving into frozen memory")
    expect_error(weft.BadArgument, "read-only", lambda: job.group.all_reduce(frozen), "reducing into frozen memory")
    expect_error(weft.BadArgument, "read-only", lambda: job.world.adopt(frozen), "adopting frozen memory")
    expect_error(weft.BadArgument, "read-only", lambda: job.world.expose(weft.SlotSpec("x", (4,)), frozen), "a frozen slot")
    messages.send(job.rank, 2, np.zeros(0, np.float32), SECONDS)
    expect(messages.recv(job.rank, 2, np.zeros(0, np.float32), SECONDS).bytes == 0, "a message may be empty")
    for shape in ((1,) * 9, "text", (-1,), (1 << 62, 8)):
        expect_error(weft.Error, "", lambda: job.world.array(shape), f"shape {shape}")
    for spec in (dict(depth=0), dict(depth=5000), dict(dtype="f8x"), dict(flow="none"), dict(placement="here"),
                 dict(name=""), dict(name="x" * 300)):
        expect_error(weft.BadArgument, "", lambda: job.world.expose(weft.SlotSpec(**{"name": "x", **spec})), str(spec))
    expect_error(weft.BadArgument, "no weft.SlotSpec", lambda: job.world.expose("x"), "no spec")
    expect_error(weft.BadArgument, "", lambda: job.world.attach(job.size, "x", 0.1), "no such rank")


def handles_are_used_after_their_end(job):
    slot = job.world.expose(weft.SlotSpec("ended", (4,)))
    remote = job.world.attach(job.rank, "ended", SECONDS)
    request = remote.put_start(np.zeros(4, np.float32))
    request.wait(SECONDS)
    expect_error(weft.BadArgument, "1 handles of the remote slot", remote.close, "closing before the request")
    request.close()
    request.close()
    arrival = slot.wait(SECONDS)
    arrival.release()
    arrival.release()
    remote.close()
    slot.close()
    for what, call in (("wait", slot.wait), ("put", lambda: remote.put(np.zeros(4, np.float32))), ("test", request.test),
                       ("an arrival", lambda: arrival.array), ("ready", lambda: slot.ready)):
        expect_error(weft.Closed, "keep it until its last use", call, f"{what} after the end")
    expect(slot.closed and remote.closed and "closed" in repr(slot), "a handle tells that it is closed")


def an_array_that_is_put_is_kept(job):
    with job.world.expose(weft.SlotSpec("kept source", (250_000,), "f64")) as slot:
        remote = job.world.attach(job.rank, "kept source", SECONDS)
        before = _memory.kept()
        remote.put(np.zeros(250_000))
        source = np.full(250_000, 3.0)
        gone = weakref.ref(source)
        request = remote.put_start(source)  # waits for the slot's only buffer
        del source
        gc.collect()
        expect(gone() is not None and not request.test(), "the array of a put that waits is kept")
        slot.wait(SECONDS).release()
        request.wait(SECONDS)
        with slot.wait(SECONDS) as arrival:
            expect((arrival.array == 3).all(), "its elements cross")
        request.close()
        gc.collect()
        expect(soon(lambda: _memory.kept() <= before and gone() is None), "then it is dropped")
        # A request that is dropped lets its put go on.
        remote.put(np.zeros(250_000))
        remote.put_start(np.full(250_000, 4.0))
        gc.collect()
        slot.wait(SECONDS).release()
        with slot.wait(SECONDS) as arrival:
            expect((arrival.array == 4).all(), "a put without its request goes on")
        remote.close()


BODIES = [arrays_lie_in_the_arena, dlpack_crosses_both_ways, bad_arrays_are_refused, handles_are_used_after_their_end,
          an_array_that_is_put_is_kept]
