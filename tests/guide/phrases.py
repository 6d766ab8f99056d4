"""The weft sides of the guide's phrase table for torch.distributed, each run and checked.

Usage, as four ranks: phrases.py
"""

import sys

import numpy as np
import weft
from weft import pslib


def expect(holds, phrase):
    if not holds:
        raise SystemExit(f"{phrase} did something else")


world = weft.World.join()
group = weft.Collectives.open(world)
rank = world.rank
expect((world.rank, world.size) == (group.rank, 4), "rank and size")
to = source = rank ^ 1
x, y = world.array(4), world.array(4)
many, wide = world.array(16), world.array(16)
x[:] = rank + 1
group.all_reduce(x)
expect((x == 10).all(), "all_reduce")
x[:] = rank
group.all_reduce(x, op="avg")
expect((x == 1.5).all(), "all_reduce by avg")
plan = group.start(weft.collective.all_reduce(x))
plan.wait()
plan.close()
expect((x == 6).all(), "start")
x[:] = rank
group.broadcast(x, root=2)
expect((x == 2).all(), "broadcast")
x[:] = rank
group.all_gather(x, many)
expect((many.reshape(4, 4)[:, 0] == range(4)).all(), "all_gather")
group.reduce_scatter(many, y)
expect((y == 4 * rank).all(), "reduce_scatter")
many[:] = rank
group.all_to_all(many, wide)
expect((wide.reshape(4, 4)[:, 3] == range(4)).all(), "all_to_all")
group.barrier()
expect(group.broadcast_object({"lr": 0.1} if rank == 0 else None) == {"lr": 0.1}, "broadcast_object")

x[:] = rank
if rank % 2:
    world.messages.send(to, 7, x)
else:
    world.messages.recv(source, 7, y)
    expect((y == source).all(), "send and recv")
requests = [world.messages.irecv(source, 8, y), world.messages.isend(to, 8, x)]
world.messages.wait_all(requests)
expect((y == source).all(), "isend and irecv")
del requests

part = weft.Collectives.open(world, [rank - rank % 2, rank - rank % 2 + 1])
expect(part.size == 2, "open of ranks")
part.close()

known = world.adopt(np.zeros(8, np.float32))
expect(known.array.shape == (8,), "adopt")
server = pslib.ParameterServer(world)
table = server.table("model", [pslib.TensorSpec("w", (4,))], optimizer=pslib.Optimizer("adamw", 1e-3))
table.parameter("w")[:] = 1
table.initialize()
table.gradient("w")[:] = 0.5
table.push_pull()
expect((table.parameter("w") < 1).all(), "a table in place of DistributedDataParallel and an optimizer")
group.barrier()
group.close()
world.leave()
# One write: those of ranks that write a line in two are mixed.
sys.stdout.write(f"rank {rank} has run every phrase\n")
