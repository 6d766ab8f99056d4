"""A rank that raises, exits or is killed: the others' exception names it within a second.

Usage: deaths.py MPIRUN..., or under it, deaths.py --rank END"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import weft

VICTIM = 1
ENDS = {"raises": weft.Error, "exits": weft.Error, "is_killed": weft.PeerFailed, "raises_in_its_world": weft.PeerLeft}


def say(line):
    """Lines of several ranks reach the launcher whole."""
    os.write(1, (line + "\n").encode())


def end(how):
    say(f"ends at {time.time()}")
    if how == "exits":
        sys.exit(3)
    if how == "is_killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise KeyError("a rank that fails")


def live(world, how):
    slot = world.expose(weft.SlotSpec("step", (4,)))
    remote = world.attach((world.rank + 1) % world.size, "step", 20)
    group = weft.Collectives.open(world, timeout=20)
    group.barrier(20)
    if world.rank == VICTIM:
        end(how)
    for what, wait in (("collective", lambda: group.all_reduce(np.zeros(4, np.float32), timeout=20)),
                       ("alive", lambda: time.sleep(0.2) or world.alive([VICTIM])),
                       ("attach", lambda: world.attach(VICTIM, "later", 20))):
        try:
            wait()
            say(f"{what}: no error")
        except weft.Error as error:
            say(f"{what}: {type(error).__name__} peer {error.peer} at {time.time()}: {error}")
    os._exit(0)  # the survivors need no order any more


def rank(how):
    world = weft.World.join()
    if how == "raises_in_its_world":
        with world:
            live(world, how)
    live(world, how)


def main():
    failed = 0
    for how, kind in ENDS.items():
        job = subprocess.run([*sys.argv[1:], "--enable-recovery", "-n", "3", sys.executable, __file__, "--rank", how],
                             timeout=60, capture_output=True, text=True)
        lines = job.stdout.splitlines()
        ended = [float(line.split()[-1]) for line in lines if line.startswith("ends at")]
        for what in ("collective", "alive", "attach"):
            told = [line for line in lines if line.startswith(what)]
            right = [line for line in told if f" peer {VICTIM} " in line and "no error" not in line and ended
                     and float(line.split(" at ")[1].split(":")[0]) - ended[0] < 1 + (what != "collective")
                     and (issubclass(getattr(weft, line.split()[1]), kind))]
            if len(right) != 2:
                failed += 1
                print(f"failed: a rank that {how}: {what}: {told}\n{job.stderr}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        rank(sys.argv[2])
    else:
        main()
