# [python]
import numpy as np
import weft
from weft import pslib

with weft.World.join() as world:
    group = weft.Collectives.open(world)
    total = world.array(3)
    total[:] = world.rank
    group.all_reduce(total)

    server = pslib.ParameterServer(world)
    table = server.table("model", [pslib.TensorSpec("w", (3,))], optimizer=pslib.Optimizer("sgd", 0.5))
    w, gradient = table.parameter("w"), table.gradient("w")
    w[:] = 0
    table.initialize()
    for step in range(30):
        gradient[:] = w - total
        table.push_pull()
    if world.rank == 0:
        print("in Python w is", np.round(w, 2))
# [end]
