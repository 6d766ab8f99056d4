"""The examples in Python, as users start them; the same least squares in C++, C and Python have the same bits.

Usage: examples.py EXAMPLES_FOLDER C_PROGRAM CPP_PROGRAM MPIRUN..."""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import job

EXAMPLES, C_PROGRAM, CPP_PROGRAM, MPIRUN = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]


def run(ranks, *command, wait=True):
    started = subprocess.Popen([*MPIRUN, "-n", str(ranks), *map(str, command)] if ranks else [*map(str, command)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return finish(started) if wait else started


def finish(started):
    output, errors = started.communicate(timeout=60)
    job.expect(started.returncode == 0, f"{started.args}: status {started.returncode}\n{output}{errors}")
    return output


def example(name):
    return sys.executable, EXAMPLES / "python" / f"{name}.py"


def the_same_bits():
    found = set()
    for program in ([C_PROGRAM], [CPP_PROGRAM], example("least_squares")):
        found |= set(re.findall(r"bits (0x[0-9a-f]+)", run(3, *program)))
    job.expect(len(found) == 1, f"C, C++ and Python have the same bits: {found}")


def a_reader_outside_the_job():
    with tempfile.TemporaryDirectory() as folder:
        token = pathlib.Path(folder, "token")
        token.write_text("a token of 32 bytes or more for readers\n")
        token.chmod(0o600)
        address = f"127.0.0.1:{random.randrange(20000, 30000)}"
        reader = run(0, *example("read_model"), address, token, wait=False)
        time.sleep(0.5)  # so that it has joined before the trainer ends
        run(2, *example("train_dense"), "--publish", address, "--token", token)
        job.expect("the trainer has left" in finish(reader), "the reader reads until the trainer has left")


os.environ["PYTHONDEVMODE"] = "1"
the_same_bits()
a_reader_outside_the_job()
job.expect("came from rank 1" in run(2, *example("first_put")), "README's first program")
job.expect("% of the points" in run(3, *example("train_dense")), "a dense trainer")
run(3, *example("train_sparse"))
sys.exit(job.failures > 0)
