"""The programs of README do what it says.

Usage: in_readme.py FIRST_PUT TRAINER GRAPH MPIRUN [FLAG ...]
"""

import re
import sys

from jobs import expect, job, run

first_put, trainer, graph, *mpirun = sys.argv[1:]
done = run(job(mpirun, 2, first_put))
expect(done.returncode == 0 and "2 4 8 16 came from rank 1" in done.stdout, f"the first put:\n{done.stdout}")
done = run(job(mpirun, 3, trainer))
learnt = done.stdout.splitlines().count("version 200: w is 1.0")
expect(done.returncode == 0 and learnt == 3, f"the trainer:\n{done.stdout}")
done = run(job(mpirun, 2, graph))
print(done.stdout)
expect(done.returncode == 0, f"the graph ended with {done.returncode}")
for rank in (0, 1):
    losses = [float(loss) for loss in re.findall(rf"rank {rank}: loss (\S+)", done.stdout)]
    expect(len(losses) == 30, f"rank {rank} has {len(losses)} losses")
    expect(max(losses[:3]) > 1 and max(losses[-3:]) < 1e-3, f"rank {rank} did not learn: {losses}")
