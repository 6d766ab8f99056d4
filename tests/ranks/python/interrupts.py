"""Ctrl-C ends every wait within 0.2 s, and leaves the operation as a timeout would; asyncio waits without a thread."""

import asyncio
import os
import signal
import threading
import time

import numpy as np
import weft
from job import SECONDS, expect, expect_error, soon
from weft import _handles


late = []


def interrupted(call, what):
    """Runs a call that waits, and interrupts it."""
    sent = []

    def interrupt():
        time.sleep(0.15)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        call()
        expect(False, f"{what} was not interrupted")
    except KeyboardInterrupt:
        took = time.monotonic() - sent[0]
        if took >= 0.2:
            late.append(f"{what} ended {took:.2f} s after Ctrl-C")
        # The processors may be busy for a moment, but not twice.
        expect(len(late) < 2 and took < 2, "; ".join(late))
    except BaseException as error:
        expect(False, f"{what} raised {error!r}")
    thread.join()


def ctrl_c_ends_waits(job):
    world, messages = job.world, job.world.messages
    slot = world.expose(weft.SlotSpec("interrupted", (4,)))
    remote = world.attach(job.next, "interrupted", SECONDS)
    one, into = np.ones(4, np.float32), np.zeros(4, np.float32)
    interrupted(slot.wait, "Slot.wait")
    job.meet()
    remote.put(one)
    job.meet()
    interrupted(lambda: remote.put(one), "a put")
    job.meet()
    with slot.wait(SECONDS) as arrival:
        expect(arrival.sequence == 1, "an interrupted put sent nothing")
    remote.put(2 * one)
    with slot.wait(SECONDS) as arrival:
        expect(arrival.sequence == 2 and (arrival.array == 2).all(), "the next put is the next tensor")
    request = remote.put_start(one)
    request.wait(SECONDS)
    second = remote.put_start(one)
    interrupted(second.wait, "Request.wait")
    slot.wait(SECONDS).release()
    second.wait(SECONDS)
    slot.wait(SECONDS).release()
    interrupted(lambda: messages.recv(job.last, 1, into), "recv")
    interrupted(lambda: messages.probe(job.last, 1), "probe")
    job.meet()
    messages.send(job.next, 1, one, SECONDS)
    messages.recv(job.last, 1, into, SECONDS)
    expect((into == 1).all(), "a message after an interrupted receive")
    own = weft.Signal.expose(world, "interrupted")
    job.meet()
    interrupted(lambda: own.wait_at_least(1), "wait_at_least")
    interrupted(lambda: world.attach(job.next, "absent"), "attach")
    interrupted(lambda: world.wait_any([slot]), "wait_any")
    with weft.Rendezvous.open(world, weft.RendezvousSpec("interrupted"), timeout=SECONDS) as exchange:
        interrupted(lambda: exchange.recv(job.last, "key", 1), "Rendezvous.recv")
        job.meet()
        exchange.send(job.next, "key", 1, one, SECONDS)
        expect((exchange.recv(job.last, "key", 1, SECONDS).array == 1).all(), "the next recv takes it up")
        job.meet()
    job.meet()
    request.close(), second.close(), remote.close(), own.close(), slot.close()


def ctrl_c_leaves_collectives_under_way(job):
    if job.size == 1:
        return
    tensor, other = job.world.array(4), job.world.array(4)
    tensor[:], other[:] = 1, 2
    if job.rank == 0:
        interrupted(lambda: job.group.all_reduce(tensor), "all_reduce")
        plan = job.group.plan(weft.collective.all_reduce(other))
        job.world.messages.send(1, 4, np.zeros(1), SECONDS)
        plan.start()
        plan.wait(SECONDS)
        plan.close()
    else:
        if job.rank == 1:
            job.world.messages.recv(0, 4, np.zeros(1), SECONDS)
            for rank in range(2, job.size):
                job.world.messages.send(rank, 4, np.zeros(1), SECONDS)
        else:
            job.world.messages.recv(1, 4, np.zeros(1), SECONDS)
        job.group.all_reduce(tensor, timeout=SECONDS)
        job.group.all_reduce(other, timeout=SECONDS)
    job.meet()
    expect((tensor == job.size).all(), "an interrupted collective goes on with the next call")
    expect((other == 2 * job.size).all(), "and so does the group")


def ctrl_c_leaves_control_calls_to_themselves(job):
    if job.size == 1:
        return
    spec, before = weft.RendezvousSpec("abandoned"), len(job.world._node.dependents)
    if job.rank == 0:
        interrupted(lambda: weft.Rendezvous.open(job.world, spec, timeout=SECONDS), "Rendezvous.open")
        expect(len(_handles.abandoned) == 1, "the call goes on")
    job.meet()
    if job.rank != 0:
        weft.Rendezvous.open(job.world, spec, timeout=SECONDS).close()
    expect(soon(lambda: not _handles.abandoned), "the call ends by itself")
    expect(len(job.world._node.dependents) == before, "what it made is freed")
    job.meet()
    with weft.Rendezvous.open(job.world, spec, timeout=SECONDS):
        job.meet()


def asyncio_waits_without_a_thread(job):
    world = job.world
    slot = world.expose(weft.SlotSpec("awaited", (4,)))
    remote = world.attach(job.next, "awaited", SECONDS)
    own = weft.Signal.expose(world, "awaited")
    to = weft.RemoteSignal.attach(world, job.next, "awaited", SECONDS)
    published = world.expose_published(weft.PublishedSpec("awaited version", (4,)))
    reader = world.attach_published(job.next, "awaited version", SECONDS)
    one, into = np.ones(4, np.float32), np.zeros(4, np.float32)
    reduced = job.world.array(4)
    reduced[:] = 1
    threads = threading.active_count()

    async def main():
        first = asyncio.ensure_future(slot.arrival(SECONDS))
        received = job.world.messages.irecv(job.last, 2, into)
        got = asyncio.ensure_future(received.ended(SECONDS))
        seen = asyncio.ensure_future(reader.viewed(SECONDS))
        counted = asyncio.ensure_future(own.reached(3, SECONDS))
        await asyncio.sleep(0.05)
        expect(not first.done() and not got.done() and not counted.done(), "nothing came")
        job.meet()
        request = remote.put_start(one, until="delivered")
        await request
        sent = job.world.messages.isend(job.next, 2, one)
        await sent
        to.add(3)
        published.next().array[:] = 5
        published.publish()
        with await first as arrival:
            expect((arrival.array == 1).all(), "an awaited arrival")
        expect((await got).source == job.last and (into == 1).all(), "an awaited message")
        expect(await counted == 3, "an awaited signal")
        with await seen as arrival:
            expect((arrival.array == 5).all(), "an awaited version")
        plan = job.group.start(weft.collective.all_reduce(reduced))
        await plan
        plan.close()
        expect((reduced == job.size).all(), "an awaited collective")
        remote.put(one)
        with await slot as arrival:
            expect(arrival.sequence == 2, "a slot itself is awaitable")
        job.meet()
        start = time.monotonic()
        try:
            await slot.arrival(0.1)
            expect(False, "a slot without an arrival")
        except weft.Timeout as error:
            expect("awaited" in str(error) and time.monotonic() - start < 1, "an awaited wait has its deadline")
        task = asyncio.ensure_future(slot.arrival(SECONDS))
        await asyncio.sleep(0)
        task.cancel()
        expect(isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError), "cancelled")
        job.meet()
        remote.put(one)
        (await slot).release()
        return [request, sent, received]

    made = asyncio.run(main())
    expect(threading.active_count() == threads, "no thread waits")
    job.meet()
    for handle in (*made, reader, published, to, own, remote, slot):
        handle.close()


def waits_of_other_threads_are_not_divided(job):
    slot = job.world.expose(weft.SlotSpec("elsewhere", (4,)))
    found = []
    thread = threading.Thread(target=lambda: found.append(
        expect_error(weft.Timeout, "elsewhere", lambda: slot.wait(0.3), "a wait of another thread")))
    start = time.monotonic()
    thread.start()
    thread.join()
    expect(found and time.monotonic() - start >= 0.3, "it takes its time")
    slot.close()


BODIES = [ctrl_c_ends_waits, ctrl_c_leaves_collectives_under_way, ctrl_c_leaves_control_calls_to_themselves, asyncio_waits_without_a_thread,
          waits_of_other_threads_are_not_divided]
