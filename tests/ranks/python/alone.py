"""What a process does alone: two worlds, joining again, forks, and the interpreter's exit with everything pending.

Usage: alone.py CASE, or without one all cases, each in a process of its own."""

import asyncio
import copy
import gc
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref

import numpy as np
import weft
import weft.pslib
from job import SECONDS, expect, expect_error


def leaving_twice_and_joining_again():
    for _ in range(2):
        world = weft.World.join()
        array = world.array(4)
        slot = world.expose(weft.SlotSpec("x", (4,)))
        world.leave(SECONDS)
        world.leave(SECONDS)
        expect_error(weft.Closed, "join again", lambda: world.array(4), "a call after leaving")
        array[:] = 3  # an array outlives its world
        slot.close()
    with weft.World.join() as world:
        expect(weft.array(3).shape == (3,), "the only world")
    expect_error(weft.BadArgument, "join first", lambda: weft.array(3), "no world")
    expect("left" in repr(world), "a world tells that it was left")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        world = weft.World.join()
        del world
        gc.collect()
    expect(any("without leave()" in str(warning.message) for warning in seen), "a world that is dropped warns")


def two_worlds_in_one_process():
    token = os.urandom(32).hex().encode()  # white space around a token does not count
    for port in random.sample(range(20000, 30000), 20):
        found = []

        def rank(number):
            try:
                world = weft.World.join(rank=number, size=2, address=f"127.0.0.1:{port}", token=token)
            except weft.Error as error:
                found.append(error)
                return
            with world:
                found.append(world)
                with world.expose(weft.SlotSpec("ring", (4,))) as slot:
                    remote = world.attach(1 - number, "ring", SECONDS)
                    remote.put(np.full(4, number, np.float32), SECONDS)
                    with slot.wait(SECONDS) as arrival:
                        expect((arrival.array == 1 - number).all(), "worlds of one process exchange")
                    group = weft.Collectives.open(world, timeout=SECONDS)
                    if number == 0:
                        expect_error(weft.BadArgument, "world.array", lambda: weft.array(3), "which of two worlds")
                    group.barrier(SECONDS)
                    group.close()
                    remote.close()

        threads = [threading.Thread(target=rank, args=(number,)) for number in (0, 1)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        if all(isinstance(one, weft.World) for one in found):
            return
    expect(False, f"no port is free: {found}")


def join_options_are_checked():
    expect_error(weft.BadArgument, "give both or neither", lambda: weft.World.join(rank=1), "a rank without a size")
    expect_error(weft.BadArgument, "at least one rank", lambda: weft.World.join(rank=0, size=0), "no rank")
    expect_error(weft.Error, "32", lambda: weft.World.join(rank=0, size=2, address="127.0.0.1:20001", token=b"short"),
                 "a short token")


def _in_fork(queue, world, slot):
    try:
        world.report()
        queue.put("no error")
    except weft.Forked as error:
        queue.put(str(error))
    for call in (lambda: slot.wait(0.1), lambda: world.array(3), lambda: world.messages.iprobe(0, 1)):
        try:
            call()
            queue.put("no error")
        except weft.Error as error:
            queue.put(type(error).__name__)
    queue.put(float(np.arange(10.0).sum()))


def forks_work_without_weft():
    world = weft.World.join()
    slot = world.expose(weft.SlotSpec("x", (4,)))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=_in_fork, args=(queue, world, slot))
    worker.start()
    told = [queue.get(timeout=SECONDS) for _ in range(5)]
    worker.join(SECONDS)
    expect("forked" in told[0] and told[1:4] == ["Forked"] * 3, f"calls in a fork are refused: {told}")
    expect(told[4] == 45 and worker.exitcode == 0, f"a worker that needs no weft works, and ends: {worker.exitcode}")
    with context.Pool(2) as pool:
        expect(pool.map(abs, [-1, -2]) == [1, 2], "a pool of workers")
    slot.close()
    world.leave(SECONDS)


def exit_with_everything_pending():
    """Ends with requests, plans, readers, arrivals and threads pending: quickly, with status 0."""
    global held
    world = weft.World.join()
    slot = world.expose(weft.SlotSpec("x", (4,)))
    remote = world.attach(0, "x", SECONDS)
    one = np.ones(4, np.float32)
    request = remote.put_start(one)
    request.wait(SECONDS)
    published = world.expose_published(weft.PublishedSpec("p", (4,)))
    published.next().array[:] = 1
    published.publish()
    reader = world.attach_published(0, "p", SECONDS)
    group = weft.Collectives.open(world)
    plan = group.plan(weft.collective.all_reduce(world.array(4)))
    plan.start()
    server = weft.pslib.ParameterServer(world)
    table = server.table("t", [weft.pslib.TensorSpec("w", (4,))])
    held = [world, slot, remote, request, remote.put_start(one), slot.wait(SECONDS).array, published, reader,
            reader.view(SECONDS), group, plan, table, world.messages.irecv(0, 1, one), weft.Signal.expose(world, "s"),
            weft.Rendezvous.open(world)]
    held.append(held)  # a cycle
    other = weft.SlotSpec("waited for by a thread", (4,))
    waiting = world.expose(other)
    threading.Thread(target=lambda: waiting.wait(60), daemon=True).start()
    time.sleep(0.05)


def exit_by_an_exception():
    exit_with_everything_pending()
    raise SystemExit(7)


def publisher_at_any_port(world, token):
    for port in random.sample(range(20000, 30000), 20):
        try:
            return weft.pslib.Publisher(world, address=f"127.0.0.1:{port}", token_file=token)
        except weft.Error as error:
            last = error
    raise last


def arrays_outlive_what_they_lie_in():
    world = weft.World.join()
    with world.expose_published(weft.PublishedSpec("p", (1 << 18,), depth=2)) as published:
        filled = published.next(SECONDS).array
    with weft.pslib.ParameterServer(world) as server, \
            server.table("t", [weft.pslib.TensorSpec("w", (1 << 18,))]) as table:
        parameter, gradient = table.parameter("w"), table.gradient("w")
        table.initialize(SECONDS)
    expect_error(weft.Closed, "closed", lambda: table.push(), "a closed table")
    with tempfile.TemporaryDirectory() as folder:
        token = os.path.join(folder, "token")
        with open(token, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(32).hex())
        publisher = publisher_at_any_port(world, token)
        publication = publisher.publication("model", [weft.pslib.PublishedTensor("w", (1 << 18,))])
        publication.publish([np.ones(1 << 18, np.float32)])
        with weft.pslib.Reader.join("model", address=publisher.address, token_file=token, timeout=SECONDS) as reader:
            reader.pull_latest(SECONDS)
            array, shared = reader.array("w"), world.from_dlpack(reader.tensor("w")).array
    world.leave(SECONDS)
    del world, published, server, table, publisher, publication, reader
    gc.collect()
    filled[:], gradient[:] = 1, 2
    expect(array[-1] == 1 and shared[-1] == 1 and (parameter == 0).all(), "arrays of what is closed")


def handles_are_not_copied():
    world = weft.World.join()
    tensor = world.allocate(4)
    for value in (world, world.group(), tensor, world.expose(weft.SlotSpec("x", (4,)))):
        expect_error(TypeError, "can't be copied", lambda value=value: copy.copy(value), f"a copy of {value}")
        expect_error(TypeError, "can't be copied", lambda value=value: pickle.dumps(value), f"a pickle of {value}")
    expect_error(BufferError, "host memory", lambda: tensor.__dlpack__(dl_device=(2, 0)), "DLPack on another device")
    copied = world.from_dlpack(tensor.__dlpack__(copy=True)).array
    tensor.array[:] = 1
    copied[:] = 2
    expect((tensor.array == 1).all(), "DLPack's copy is one")
    expect_error(weft.BadArgument, "NUL", lambda: world.expose(weft.SlotSpec("a\0b")), "a NUL in a name")
    expect_error(weft.BadArgument, "shape", lambda: world.array(2.9), "a shape of a fraction")
    expect_error(weft.BadArgument, "shape", lambda: world.array((2.0, 2**70)), "a shape beyond all numbers")
    expect_error(weft.BadArgument, "2**63", lambda: world.array((2**70,)), "a shape beyond all numbers")
    world.leave(SECONDS)


def loops_of_asyncio_are_freed():
    world = weft.World.join()
    slot = world.expose(weft.SlotSpec("x", (4,)))
    remote, array = world.attach(0, "x", SECONDS), world.array(4)
    loops = []

    async def step():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        waiting = asyncio.ensure_future(slot.arrival(SECONDS))
        await asyncio.sleep(0)
        remote.put(array)
        (await waiting).release()

    async def never():
        await slot.arrival(float("nan"))

    for _ in range(3):
        asyncio.run(step())
    gc.collect()
    expect(all(loop() is None for loop in loops), "a loop that has ended is freed")
    expect_error(weft.BadArgument, "a timeout of nan seconds", lambda: asyncio.run(never()), "a timeout that is no number")
    world.leave(SECONDS)


def failures_of_observers_are_raised():
    world = weft.World.join()

    def observe(event):
        raise KeyError(event["key"])

    with weft.Rendezvous.open(world, weft.RendezvousSpec("r", observer=observe), timeout=SECONDS) as exchange:
        raised = 0
        for call in (lambda: exchange.send_encoded(0, "nothing", 1, 7, b""),
                     lambda: exchange.recv(0, "nothing", 1, SECONDS)):
            try:
                call()
            except KeyError:
                raised += 1
        expect(raised > 0, "an observer's exception is raised")
    with weft.Rendezvous.open(world, weft.RendezvousSpec("s"), timeout=SECONDS) as exchange:
        exchange.send_encoded(0, "nothing", 1, 7, b"")
        expect(exchange.recv(0, "nothing", 1, SECONDS).bytes() == b"", "a value without bytes")
    world.leave(SECONDS)


CASES = {case.__name__: (case, status) for case, status in (
    (leaving_twice_and_joining_again, 0), (two_worlds_in_one_process, 0), (join_options_are_checked, 0),
    (arrays_outlive_what_they_lie_in, 0), (handles_are_not_copied, 0), (loops_of_asyncio_are_freed, 0),
    (failures_of_observers_are_raised, 0), (forks_work_without_weft, 0), (exit_with_everything_pending, 0), (exit_by_an_exception, 7))}


def main():
    if len(sys.argv) > 1:
        import job

        CASES[sys.argv[1]][0]()
        sys.exit(1 if job.failures else 0)
    failed = 0
    for name, (_, status) in CASES.items():
        start = time.monotonic()
        ended = subprocess.run([sys.executable, "-X", "dev", __file__, name], timeout=60, capture_output=True, text=True)
        took = time.monotonic() - start
        quick = took < 10
        if ended.returncode != status or not quick or "Traceback" in ended.stderr:
            failed += 1
            print(f"failed: {name}: status {ended.returncode} after {took:.1f} s\n{ended.stdout}{ended.stderr}")
        else:
            print(f"{name}: {took:.1f} s")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
