"""Fits a slope for each of 1000 lines by numpy and weft.pslib; c_trainer/least_squares.c gives the same bits.

    mpirun -n 3 python3 least_squares.py"""

from __future__ import annotations

import sys

import numpy as np
import weft
from weft import pslib

LINES, STEPS = 1000, 200


def main() -> int:
    with weft.World.join() as world:
        server = pslib.ParameterServer(world)
        table = server.table("fit", [pslib.TensorSpec("slopes", (LINES,))], optimizer=pslib.Optimizer("adam", 0.05))
        slopes, gradient = table.parameter("slopes"), table.gradient("slopes")
        slopes[:] = 0
        table.initialize()
        line = np.arange(LINES)
        truth = (line % 7 - 3).astype(np.float32)
        for step in range(1, STEPS + 1):
            x = ((line * 37 + world.rank * 11 + step * 5) % 64 - 32).astype(np.float32) / np.float32(32)
            gradient[:] = (slopes * x - truth * x) * x
            table.push_pull()
        worst = float(np.abs(slopes - truth).max())
        if world.rank == 0:
            print(f"{STEPS} steps, worst slope off by {worst:.4f}, bits {sum(slopes.view(np.uint32).tolist()):#x}")
        # Other ranks may be reading this rank's shard: leave before the table goes.
        world.leave()
    return 0 if worst < 0.2 else 1


if __name__ == "__main__":
    sys.exit(main())
