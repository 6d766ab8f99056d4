"""The ranks that compare.py starts: prints "NAME BYTES SECONDS", the best of several rounds, and the time of an empty method.

    mpirun -n 2 python3 by_weft.py"""

from rounds import best_of

import weft


def say(name, size, seconds):
    print(f"{name} {size} {seconds:.4g}", flush=True)


class Empty:
    def method(self):
        pass


def measure_puts(world, size):
    spec = weft.SlotSpec(f"put{size}", (size,), "u8", flow="unsafe_synchronous")
    slot = world.expose(spec) if world.rank == 0 else None
    if world.rank == 1:
        remote, array = world.attach(0, spec), world.array(size, "u8")
        say("put", size, best_of(20_000 if size < 4096 else 50, lambda: remote.put(array)))
    # As in C++, so that both have their arrays at the same places.
    token = world.array(1, "u8")
    if world.rank == 1:
        world.messages.send(0, 1, token)
    elif world.rank == 0:
        world.messages.recv(1, 1, token)
        slot.close()


def measure_ping_pong(world):
    array, other, send, recv = world.array(8, "u8"), 1 - world.rank, world.messages.send, world.messages.recv

    def first():
        send(other, 2, array)
        recv(other, 2, array)

    def second():
        recv(other, 2, array)
        send(other, 2, array)

    seconds = best_of(5000, first if world.rank == 0 else second)
    if world.rank == 0:
        say("ping_pong", 8, seconds)


def measure_all_reduce(world):
    with weft.Collectives.open(world) as group:
        array = world.array(1 << 18)
        array[:] = 0
        seconds = best_of(200, lambda: group.all_reduce(array))
        if world.rank == 0:
            say("all_reduce", 1 << 20, seconds)
        with group.plan(weft.collective.all_reduce(array)) as plan:
            seconds = best_of(200, plan.run)
            if world.rank == 0:
                say("all_reduce_plan", 1 << 20, seconds)


with weft.World.join() as world:
    empty = Empty()
    if world.rank == 1:
        say("empty_method", 0, best_of(100_000, empty.method))
        nothing = best_of(100_000, lambda: None)
        say("empty_lambda", 0, nothing)
    for size in (8, 1 << 20, 16 << 20):
        measure_puts(world, size)
    measure_ping_pong(world)
    measure_all_reduce(world)
