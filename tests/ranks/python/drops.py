"""Steps of a loop that drops requests, slots, arrays, plans and tensors unfinished: memory of the process and of the arenas
stays flat, and so do descriptors.

Usage: drops.py STEPS, as a rank of a job"""

import gc
import os
import pathlib
import sys

import numpy as np
import weft
from job import SECONDS, expect

STEPS = int(sys.argv[1])


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def used(world):
    return sum(arena["used_bytes"] + arena["quarantined_bytes"] for arena in world.report()["arenas"])


def step(world, group, remote, own, number):
    world.array(1000)[:] = number
    world.array((10, 10))[2:4]
    world.adopt(np.zeros(500))
    np.from_dlpack(world.allocate(50))
    if number % 8 == 0:
        # Neither closed nor read, and in a cycle.
        slot = world.expose(weft.SlotSpec(f"dropped {number}", (8,), depth=2))
        cycle = [slot, world.attach(world.rank, f"dropped {number}", SECONDS)]
        cycle.append(cycle)
        cycle[1].put(np.ones(8, np.float32))
        cycle.append(cycle[1].put_start(np.ones(8, np.float32)))
        cycle.append(slot.wait(SECONDS).array)
    remote.put_start(np.full(8, number, np.float32))
    remote.put_start(np.full(8, number, np.float32))
    own.wait(SECONDS).array
    own.wait(SECONDS)
    world.messages.irecv(world.rank, 1, np.zeros(4))
    if number % 4 == 0:
        group.plan(weft.collective.all_reduce(world.array(100)))
        group.start(weft.collective.barrier()).wait(SECONDS)


def run(world):
    group = weft.Collectives.open(world, timeout=SECONDS)
    own = world.expose(weft.SlotSpec("own", (8,), depth=2))
    remote = world.attach((world.rank + 1) % world.size, "own", SECONDS)
    seen = []
    for number in range(STEPS):
        step(world, group, remote, own, number)
        if number in (STEPS // 2, STEPS - 1):
            gc.collect()
            weft._memory.forget_unused()
            seen.append((resident(), used(world), descriptors(), weft._memory.kept(), len(world._node.dependents)))
    half, end = seen
    expect(end[0] - half[0] < 2 << 20, f"the process grew by {end[0] - half[0]} bytes in {STEPS // 2} steps")
    expect(end[1] <= half[1] + (64 << 10), f"the arenas grew from {half[1]} to {end[1]} bytes")
    expect(end[2] <= half[2], f"descriptors grew from {half[2]} to {end[2]}")
    expect(end[3] <= 4 and end[4] <= half[4], f"kept objects: {half[3:]} and {end[3:]}")
    if world.rank == 0:
        print(f"after half the steps and at the end: {half}, {end}")
    group.barrier(SECONDS)


with weft.World.join() as world:
    run(world)
    gc.collect()
import job  # noqa: E402

sys.exit(job.failures > 0)
