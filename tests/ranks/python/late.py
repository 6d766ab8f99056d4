"""A collective whose other rank is stopped ends at its deadline, though that rank still holds its tensors."""

import os
import signal
import sys
import time

import numpy as np
import weft

SECONDS, GRACE = 1.0, 0.3
world = weft.World.join()
group = weft.Collectives.open(world, timeout=20)
other = group.broadcast_object(os.getpid() if world.rank == 1 else None, root=1)
tensor = world.array(4 << 20)
tensor[:] = 1
late = ""
if world.rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
else:
    while True:
        with open(f"/proc/{other}/stat") as stat:
            if stat.read().rsplit(")", 1)[1].split()[0] == "T":
                break
    began = time.monotonic()
    try:
        group.all_reduce(tensor, timeout=SECONDS)
        late = "a call without rank 1 has ended well"
    except weft.Timeout as error:
        took = time.monotonic() - began
        print(f"after {took:.3f} s: {error}", flush=True)
        if not SECONDS - 0.1 <= took <= SECONDS + GRACE:
            late = f"it ended after {took:.3f} s, not {SECONDS}"
    os.kill(other, signal.SIGCONT)
world.leave()
sys.exit(late or 0)
