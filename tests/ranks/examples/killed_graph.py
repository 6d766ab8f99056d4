"""A job of image_graph of which a rank is killed in a step."""

import random
import re
import time

from jobs import Job, expect, job, kill_and_hear

START_S, END_S = 80, 20
# The shell becomes the program, so its process id is the rank's.
NAMED = 'echo "rank $OMPI_COMM_WORLD_RANK pid $$"; exec "$@"'
LINE = r"rank (?P<rank>\d+) pid (?P<pid>\d+)|step +\d+/|image_graph: (?P<end>.*)"


def kill_one(mpirun, ranks, graph, *options, ready, longest):
    """Kills a rank, up to `longest` seconds after `ready(job)` has returned. Expects the others to name it, and returns
    their last lines."""
    command = job(mpirun, ranks, "sh", "-c", NAMED, "sh", graph, "--steps", 10**8, *options, survive=True)
    with Job(command, LINE) as running:
        pids = {}
        until = time.monotonic() + START_S
        while len(pids) < ranks:
            line, _ = running.next_line(until)
            expect(not line["end"], f"a rank ended before any was killed: {line[0]}")
            if line["pid"]:
                pids[int(line["rank"])] = int(line["pid"])
        ready(running)
        victim = random.randrange(ranks)
        time.sleep(random.uniform(0, longest))
        print(f"rank {victim} is killed", flush=True)
        ends = kill_and_hear(running, pids, victim, END_S)
    for end in ends:
        print(end)
        expect(re.match(r"step \d+: ", end), f"it did not end in a step: {end}")
    return ends
