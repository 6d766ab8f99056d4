import weft

with weft.World.join() as world:
    spec = weft.SlotSpec("numbers", (4,), "f32")
    if world.rank == 0:
        with world.expose(spec) as slot, slot.wait() as arrival:
            print(*arrival.array, "came from rank 1")
    elif world.rank == 1:
        array = world.array(4)
        array[:] = 2, 4, 8, 16
        world.attach(0, spec).put(array)
