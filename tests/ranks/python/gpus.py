"""Tensors on GPUs: made, copied, put, sent, published, reduced, and by DLPack from and to other libraries."""

import gc
import sys
import time

import numpy as np
import weft
from interrupts import interrupted
from job import SECONDS, expect, expect_error
from weft import _handles, _memory, pslib
from weft._native import ffi

OWN = weft.Memory.gpu()


def on_gpu(job, values):
    """A tensor on the rank's GPU with the elements of an array."""
    tensor = job.world.allocate(values.shape, values.dtype, OWN)
    job.world.copy(values, tensor, timeout=SECONDS)
    return tensor


def elements(job, tensor):
    back = job.world.array(tensor.shape, tensor.dtype)
    job.world.copy(tensor, back, timeout=SECONDS)
    return back


def counted(job, more=0, count=1000):
    return np.arange(count, dtype=np.float32) + 1000 * job.rank + more


def tensors_have_a_place(job):
    world, gpu = job.world, job.world.allocate((10, 100), "f32", OWN)
    expect(gpu.memory == weft.Memory.gpu(job.rank % 2) and gpu.memory.is_gpu and not gpu.memory.is_host, "a GPU's tensor")
    expect(gpu.memory.ordinal == job.rank % 2 and str(gpu.memory) == f"GPU {job.rank % 2}" and "GPU" in repr(gpu),
           "its GPU has a number")
    expect(world.allocate(3).memory == weft.Memory.host() and OWN.ordinal == -1 and str(OWN) == "this rank's GPU",
           "others have none")
    expect(gpu.storage == "arena" and gpu.shape == (10, 100) and gpu.nbytes == 4000, "it is a tensor as any other")
    expect_error(weft.BadArgument, "world.copy", lambda: gpu.array, "an array of a GPU's tensor")
    expect_error(weft.BadArgument, "world.copy", lambda: np.asarray(gpu), "numpy with a GPU's tensor")
    expect_error(weft.BadArgument, "GPU 7", lambda: world.allocate(3, "f32", weft.Memory.gpu(7)), "no such GPU")
    expect(any(arena["sort"].startswith("GPU") for arena in world.report()["arenas"]), "the report has its arena")


def elements_are_copied(job):
    world = job.world
    values = world.array((10, 100))
    values[:] = counted(job).reshape(10, 100)
    gpu, back = world.allocate((10, 100), "f32", OWN), world.array((10, 100))
    world.copy(values, gpu, stream=0)  # ordered by CUDA's default stream
    world.copy(gpu, back, timeout=SECONDS)
    expect((back == values).all(), "on a stream, and back")
    theirs, others = np.full((10, 100), 3, np.float32), np.zeros((10, 100), np.float32)
    world.copy(theirs, gpu)
    world.copy(gpu, others)
    expect((others == 3).all(), "from and to numpy's memory")
    world.copy(values, back)
    expect((back == values).all(), "within host memory")
    expect_error(weft.Mismatch, "[9, 100]", lambda: world.copy(gpu, world.array((9, 100))), "another shape")
    others.flags.writeable = False
    expect_error(weft.BadArgument, "read-only", lambda: world.copy(gpu, others), "into read-only memory")
    expect_error(weft.BadArgument, "timeout", lambda: world.copy(gpu, back, timeout=-1), "a timeout below 0")


class Theirs:
    """A tensor of another library on a GPU."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def dlpack_crosses_both_ways(job):
    world, values, before = job.world, counted(job), _memory.kept()
    gpu = on_gpu(job, values)
    expect(gpu.__dlpack_device__() == (2, job.rank % 2), "DLPack knows the GPU")
    for version in (None, (1, 0)):
        theirs = world.from_dlpack(gpu.__dlpack__(max_version=version, dl_device=(2, job.rank % 2)))
        expect(theirs.memory == gpu.memory and theirs.storage == "adopted", "a GPU's tensor is adopted")
        expect((elements(job, theirs) == values).all(), "with its elements")
    adopted = world.adopt(Theirs(gpu))
    del gpu, theirs
    gc.collect()
    expect((elements(job, adopted) == values).all(), "an export keeps the memory")
    for options in (dict(dl_device=(1, 0)), dict(copy=True)):
        expect_error(BufferError, "copy it", lambda options=options: adopted.__dlpack__(**options), str(options))
    expect_error(Exception, "", lambda: np.from_dlpack(adopted), "numpy with a GPU's tensor")
    world.copy(Theirs(adopted), values, timeout=SECONDS)  # wrapped for the call
    expect((values == counted(job)).all(), "another library's tensor is copied")
    del adopted
    gc.collect()
    expect(_memory.kept() == before, "what is dropped is given back")


def slots_lie_on_gpus(job):
    world, spec = job.world, weft.SlotSpec("on a GPU", (1000,), depth=2)
    slot = world.expose(weft.SlotSpec("on a GPU", (1000,), depth=2, memory=OWN))
    expect(slot.spec.memory == OWN, "a slot knows its memory")
    expect_error(weft.BadArgument, "the owner alone", lambda: world.attach(job.next, slot.spec, SECONDS), "a writer's memory")
    remote = world.attach(job.next, spec, SECONDS)
    for source in (on_gpu(job, counted(job)), counted(job), Theirs(on_gpu(job, counted(job)))):
        remote.put(source, SECONDS)
        with slot.wait(SECONDS) as arrival:
            expect(arrival.tensor.memory.ordinal == job.rank % 2, "it arrives on the owner's GPU")
            expect((elements(job, arrival.tensor) == counted(job) + 1000 * (job.last - job.rank)).all(), "with its elements")
            expect_error(weft.BadArgument, "world.copy", lambda: arrival.array, "an array of an arrival on a GPU")
    remote.put(source, SECONDS)
    arrival = slot.wait(SECONDS)
    capsule = arrival.tensor.__dlpack__(max_version=(1, 0))
    expect_error(BufferError, "drop it first", arrival.release, "letting go while another library uses it")
    theirs = world.from_dlpack(capsule)
    expect(theirs.read_only and (elements(job, theirs)[0] == 1000 * job.last), "another library sees the arrival")
    del theirs, capsule
    gc.collect()
    _memory.forget_unused()
    arrival.release()
    remote.close()
    slot.close()
    with world.expose(weft.SlotSpec("on the host", (1000,))) as slot:
        remote = world.attach(job.next, "on the host", SECONDS)
        with remote.put_start(on_gpu(job, counted(job, 5)), until="delivered") as request:
            with slot.wait(SECONDS) as arrival:
                expect((arrival.array == counted(job, 5) + 1000 * (job.last - job.rank)).all(), "from a GPU to the host")
            request.wait(SECONDS)
        remote.close()


def versions_messages_and_keys_too(job):
    world = job.world
    other = 1000 * (job.next - job.rank)
    slot = world.expose_published(weft.PublishedSpec("news", (1000,), depth=2, memory=OWN))
    version = slot.next(SECONDS)
    expect(version.memory.is_gpu, "versions are filled on the GPU")
    world.copy(counted(job, 7), version, timeout=SECONDS)
    slot.publish()
    del version
    reader = world.attach_published(job.next, "news", SECONDS)
    into = world.allocate(1000, "f32", OWN)
    reader.get(into, SECONDS)
    expect((elements(job, into) == counted(job, 7) + other).all(), "and read into another")
    expect_error(weft.BadArgument, "GPU", lambda: reader.get_runs([(0, 10, into)], 0.1), "runs into a GPU")
    job.meet()
    reader.close()
    slot.close()
    last = 1000 * (job.last - job.rank)
    request = world.messages.isend(job.next, 3, on_gpu(job, counted(job, 8)))
    world.messages.recv(job.last, 3, into, SECONDS)
    request.wait(SECONDS)
    expect((elements(job, into) == counted(job, 8) + last).all(), "a message from GPU to GPU")
    with weft.Rendezvous.open(world, weft.RendezvousSpec("on GPUs", memory=OWN), timeout=SECONDS) as exchange:
        exchange.send(job.next, "t", 1, counted(job, 9), SECONDS)
        received = exchange.recv(job.last, "t", 1, SECONDS)
        expect(received.tensor.memory.is_gpu and (elements(job, received.tensor) == counted(job, 9) + last).all(),
               "a key's tensor is received on the GPU")
        exchange.serve(SECONDS)
        del received


def collectives_take_them(job):
    gpu = on_gpu(job, np.full(100, job.rank + 1, np.float32))
    before = job.group.staged_bytes
    job.group.all_reduce(gpu, timeout=SECONDS)
    expect((elements(job, gpu) == job.size * (job.size + 1) / 2).all(), "all_reduce on GPUs")
    expect(job.group.staged_bytes == before, "by the GPUs alone")
    with job.group.plan(weft.collective.broadcast(gpu, 1)) as plan:
        job.world.copy(np.full(100, job.rank, np.float32), gpu, timeout=SECONDS)
        plan.run(SECONDS)
        expect((elements(job, gpu) == 1).all(), "a plan sees what lies there at each run")


def tables_have_workers_on_gpus(job):
    with pslib.ParameterServer(job.world) as server:
        specs = [pslib.TensorSpec("w", (100,))]
        expect_error(weft.BadArgument, "no weft.Memory", lambda: server.table("x", specs, memory=0), "a place")
        # Rank 0's are in host memory.
        place = OWN if job.rank else None
        with server.table("on GPUs", specs, optimizer=pslib.Optimizer("sgd", 0.5), memory=place) as table:
            parameter, gradient = table.parameter("w"), table.gradient("w")
            if job.rank:
                expect(parameter.memory.ordinal == job.rank % 2 and gradient.memory.is_gpu, "they lie on the GPU")
                expect(table.gradient("w") is gradient, "and are the same each time")
            else:
                parameter[:] = 8
            table.initialize(SECONDS)
            job.world.copy(np.full(100, job.rank + 1, np.float32), gradient, timeout=SECONDS)
            table.push()
            table.pull(SECONDS)
            mean = (job.size + 1) / 2
            values = elements(job, parameter) if job.rank else parameter
            expect((values == 8 - 0.5 * mean).all(), "the update is everybody's")
            if job.rank:
                expect_error(weft.BadArgument, "call pull", lambda: table.view("w"), "a view of a GPU's")
            job.meet()
            del parameter, gradient


class SlowPush:
    """The library, but pushes take a second, through which C waits."""

    def __init__(self, library, signal):
        self.library, self.signal = library, signal

    def __getattr__(self, name):
        return getattr(self.library, name)

    def weft_table_push(self, table):
        self.library.weft_signal_wait_at_least(self.signal._pointer("wait"), 1, 1.0, ffi.NULL)
        return self.library.weft_table_push(table)


def ctrl_c_leaves_a_push_to_itself(job):
    tables = sys.modules["weft.pslib.table"]
    library, never = tables.lib, weft.Signal.expose(job.world, "never")
    with pslib.ParameterServer(job.world) as server:
        rule = pslib.Optimizer("sgd", 0.5)
        with server.table("interrupted", [pslib.TensorSpec("w", (100,))], optimizer=rule, memory=OWN) as table:
            table.initialize(SECONDS)
            ones = np.ones(100, np.float32)
            job.world.copy(ones, table.gradient("w"), timeout=SECONDS)
            tables.lib = SlowPush(library, never)
            interrupted(table.push, "a push")
            expect(len(_handles.abandoned) == 1, "the push goes on")
            table.push()
            expect(not _handles.abandoned, "the next push takes it up")
            table.pull(SECONDS)
            interrupted(table.push, "a push")
            table.pull(SECONDS)
            expect((elements(job, table.parameter("w")) == -1).all(), "a pull waits for it")
            tables.lib = library
            # Pushed, but not by all.
            if job.rank:
                since = time.monotonic()
                error = expect_error(weft.Timeout, "interrupted", lambda: table.push_pull(0.3), "push_pull")
                expect(error.operation == "pull" and 0.25 < time.monotonic() - since < 5, "the pull is late")
            job.meet()
            table.pull(SECONDS) if job.rank else table.push_pull(SECONDS)
            expect((elements(job, table.parameter("w")) == -1.5).all(), "each push counts once")
            tables.lib = SlowPush(library, never)
            interrupted(table.push, "a push")
            tables.lib = library
            table.close()
            expect(not _handles.abandoned, "so does a table that is closed")
            job.meet()
    never.close()


BODIES = [tensors_have_a_place, elements_are_copied, dlpack_crosses_both_ways, slots_lie_on_gpus,
          versions_messages_and_keys_too, collectives_take_them, tables_have_workers_on_gpus,
          ctrl_c_leaves_a_push_to_itself]
