"""Training is reproducible, learns, and costs what it says.

Two runs of the same ranks give the same bits; other numbers of ranks give the same losses to
rounding; the steady state copies nothing, registers nothing and sends no control message.

Usage: training_repeats.py PROGRAM TEXT MPIRUN [FLAG ...]
"""

import sys
import tempfile

from jobs import Failures, expect, job, run
from training_report import expect_steady, files_in, losses_and_report

STEPS = 60
ROUNDING = 1e-4


def train(ranks):
    program, text, *mpirun = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--text", text, "--steps", STEPS, "--sample", 0, *files_in(folder)]
        done = run(job(mpirun, ranks, program, *options))
        expect(done.returncode == 0, f"{ranks} ranks ended with {done.returncode}:\n{done.stdout}")
        losses, report = losses_and_report(folder)
        return [float.fromhex(line.split()[-1]) for line in losses], report


failures = Failures()
first, report = train(4)
again, _ = train(4)
failures.expect(len(first) == STEPS, f"{len(first)} losses of {STEPS} steps")
failures.expect(first == again, "two runs of 4 ranks differ")
for ranks in (1, 8):
    other, _ = train(ranks)
    worst = max(abs(a - b) / abs(b) for a, b in zip(other, first))
    print(f"{ranks} ranks against 4: losses differ by at most {worst:.2e}, relative")
    failures.expect(worst <= ROUNDING, f"{ranks} ranks differ from 4 ranks by {worst:.2e}")
failures.expect(first[-1] < 0.7 * first[0], f"the loss went from {first[0]} to {first[-1]} only")
expect_steady(failures, "the job", report["transfers"]["job"])
failures.end()
