"""A program for a weft that was installed as a wheel: alone, or as the ranks of a job."""

import numpy as np
import weft

with weft.World.join() as world:
    group = weft.Collectives.open(world)
    array = world.array(1000)
    array[:] = world.rank + 1
    group.all_reduce(array, timeout=20)
    assert (array == np.arange(1, world.size + 1).sum()).all()
    with world.expose(weft.SlotSpec("ring", (4,))) as slot:
        remote = world.attach((world.rank + 1) % world.size, "ring", 20)
        remote.put(np.full(4, world.rank, np.float32), 20)
        with slot.wait(20) as arrival:
            assert (arrival.array == (world.rank - 1) % world.size).all()
        remote.close()
    group.barrier(20)
    print(f"rank {world.rank} of {world.size}: {weft.__file__}")
