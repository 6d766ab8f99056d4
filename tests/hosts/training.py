"""The training example on several hosts without RDMA learns bit for bit what it learns on one through shared
memory, also with compressed gradients, and its transfers cost what they must: one request each, nothing copied, nothing registered and no control
message once the job has settled.

On host1: training.py RANKS_SH PROGRAM TEXT
"""

import sys
import tempfile

from jobs import Failures, expect, run
from training_report import expect_all_steady, files_in, losses_and_report

RANKS = "4"
MODEL = "--steps 40 --hidden 48 --embed 16 --length 24 --batch 8 --sample 0".split()


def train(ranks_sh, program, text, *more, **settings):
    with tempfile.TemporaryDirectory() as folder:
        done = run(["bash", ranks_sh, RANKS, program, "--text", text, *MODEL, *more, *files_in(folder)], **settings)
        expect(done.returncode == 0, f"{done.stdout}\nwith {more} and {settings} it ended with {done.returncode}")
        losses, report = losses_and_report(folder)
        return losses, report["transfers"]


def train_here(*more):
    return train(*sys.argv[1:], *more, HOSTS="1", WEFT_FABRIC="shm")


here, _ = train_here()
there, report = train(*sys.argv[1:])
failures = Failures()
differ = [pair for pair in zip(here, there) if pair[0] != pair[1]]
failures.expect(here and here == there, f"the losses differ: {differ[:1]}")
for kind in ("int8", "top_k"):
    some = ("--compress", kind)
    same = train_here(*some)[0] == train(*sys.argv[1:], *some)[0]
    failures.expect(same, f"the losses differ with gradients compressed by {kind}")
fabrics = {path["host"]: path["fabric"] for path in report["paths"]}
print("hosts are reached by", fabrics)
right = fabrics == {"host1": "shm", "host2": "tcp"}
failures.expect(right, f"host1 must be reached by shm and host2 by tcp: {fabrics}")
expect_all_steady(failures, report)
failures.end()
