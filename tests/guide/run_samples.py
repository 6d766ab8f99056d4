"""The samples of docs/guide.md do what it says.

Usage: run_samples.py SOURCE BIN PYTHON_PACKAGE PYTHON|none MPIRUN [FLAG ...]
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from jobs import Failures, job, run, running, start, until, without_launcher, write_token

SOURCE, BIN, PACKAGE, PYTHON, *MPIRUN = sys.argv[1:]
HERE = pathlib.Path(SOURCE) / "tests/guide"
failures = Failures()
expect = failures.expect

# Lines of the job of guide_samples, each of which must come once for each number of the second column.
SAMPLES = [
    (r"heat 1", 1),
    (r"rank \d has the sum 10", 4),
    (r"step 1: mean 1\.5", 1),
    (r"step 2: mean 3", 1),
    (r"step 3: mean 4\.5", 1),
    (r"the ranks from 0 on sum up to 2", 1),
    (r"the ranks from 1 on sum up to 4", 1),
    (r"the others' numbers sum up to 6", 1),
    (r"rank 0 got 3", 1),
    (r"rank 3 got 2", 1),
    (r"a sentence of i32\[5\]", 1),
    (r"a sentence of i32\[11\]", 1),
    (r"rank [123] saw version 5", 3),
    (r"step 2 has 102", 1),
    (r"step 1 has 101", 1),
    (r"in step: 600 gradients used, 0 late ones not", 1),
    (r"in step: rank [012] has w 1\.0 of version 200", 3),
    (r"at most 2 steps apart: 600 gradients used, 0 late ones not", 1),
    (r"at most 2 steps apart: rank [012] has w \S+ of version \d+", 3),
    (r"each on its own: 600 gradients used, 0 late ones not", 1),
    (r"each on its own: rank [012] has w \S+ of version \d+", 3),
    (r"the first 2 of 3: \d+ gradients used, \d+ late ones not", 1),
    (r"the first 2 of 3: rank [012] has w \S+ of version \d+", 3),
    (r"late ones later: 600 gradients used, 0 late ones not", 1),
    (r"rank [012]: 7 has -6, 42 has -3, its own row -1", 3),
    (r"saved up to version 4, went on to 8", 1),
    (r"came at last: f32\[1\]", 1),
    (r"wait: timeout: slot \"slow\": nothing came from rank 1 .*", 1),
    (r"attach: mismatch: slot \"four\": .*f32\[5\].*f32\[4\].*", 1),
    (r"put: mismatch: slot \"four\" of rank 0 .*f32\[5\].*f32\[4\].*", 1),
    (r"wait: closed: .*", 1),
    (r"wait: bad_argument: .*Slot.*", 1),
    (r"the tensor still has 7", 1),
    (r"rank \d of 4 has run every phrase", 4),
    (r"rank \d has run every sample", 4),
]


def program(name):
    return os.path.join(BIN, f"guide_{name}")


def says(done, *lines):
    """The job ended well and printed each line, a pattern, the number of times that stands beside it."""
    said = done.stdout.splitlines()
    expect(done.returncode == 0, f"{done.args[-1]} ended with {done.returncode}")
    for line, times in lines:
        found = sum(bool(re.fullmatch(line, one)) for one in said)
        expect(found == times, f"{found} lines, not {times}, are {line}")
    print(done.stdout)


def first_programs():
    says(run(job(MPIRUN, 2, program("first_put"))), ("step 1: 10", 1), ("step 2: 20", 1), ("step 3: 30", 1))
    says(run(job(MPIRUN, 4, program("training"))), (r"version 200: w is 1\.50", 1))
    says(run(job(MPIRUN, 2, program("all_reduce_c"))), ("the sum in C is 3", 2))


def samples_of_one_job():
    with tempfile.TemporaryDirectory(prefix="guide-") as folder:
        says(run(job(MPIRUN, 4, program("samples"), folder)), *SAMPLES)


def python_samples():
    settings = {"PYTHONPATH": PACKAGE}
    says(run(job(MPIRUN, 2, PYTHON, HERE / "training.py"), **settings), (r"in Python w is \[1\. 1\. 1\.\]", 1))
    says(run(job(MPIRUN, 4, PYTHON, HERE / "phrases.py"), **settings), (r"rank \d has run every phrase", 4))


def survivors_go_on():
    done = run(job(MPIRUN, 3, program("survivors"), survive=True))
    print(done.stdout)
    for rank in (0, 1):
        expect(f"rank {rank}, step 1: 3 ranks" in done.stdout, f"rank {rank} before the death")
        expect(f"rank {rank}, step 3: 2 ranks" in done.stdout, f"rank {rank} after the death")
        expect(re.search(rf"rank {rank}: .*peer_failed: .*rank 2", done.stdout), f"rank {rank} names the dead one")


def a_reader_outside_the_job():
    with tempfile.TemporaryDirectory(prefix="guide-") as folder:
        settings = {
            "WEFT_SUBSCRIBE_ADDR": os.path.join(folder, "policy.addr"),
            "WEFT_SUBSCRIBE_TOKEN_FILE": write_token(os.path.join(folder, "token")),
        }
        reader = start([program("reader")], env=without_launcher(settings))
        says(run(job(MPIRUN, 2, program("publisher")), **settings))
        said = reader.communicate(timeout=60)[0]
    print(said)
    expect(reader.returncode == 0, f"the reader ended with {reader.returncode}")
    expect(said.splitlines()[-1:] == ["step 30: w is 30"], "the reader's last version is the publisher's last")


def normal(line):
    """A line of weft-status without what differs from job to job."""
    line = re.sub(r"\d+(\.\d+)?", "N", line)
    return re.sub(r"(ALIVE|SUSPECT) +\S+", r"\1 HOST", re.sub(r" on [^;]+;", " on HOST;", " ".join(line.split())))


def a_hang_is_explained():
    """The ranks' lines that the guide shows are those of weft-status, up to numbers and names of hosts."""
    guide = (pathlib.Path(SOURCE) / "docs/guide.md").read_text()
    shown = re.search(r"\$ weft-status\n(.*?)\n\n", guide, re.DOTALL)[1]
    wanted = [normal(line) for line in shown.splitlines() if re.search(r"\d ALIVE|late:", line)]
    with running(job(MPIRUN, 3, program("hang")), WEFT_TIMEOUT="50s") as hanging:

        def status():
            text = run([os.path.join(BIN, "weft-status"), "--job", str(hanging.pid)]).stdout
            return text if "for which 2 ranks wait" in text else None

        text = until("weft-status names the late rank", 20, status)
        hanging.send_signal(signal.SIGTERM)
        hanging.communicate(timeout=20)
    print(text)
    lines = [normal(line) for line in text.splitlines()]
    for line in wanted:
        expect(line in lines, f"weft-status does not print: {line}")


def main():
    first_programs()
    samples_of_one_job()
    if PYTHON != "none":
        python_samples()
    survivors_go_on()
    a_reader_outside_the_job()
    a_hang_is_explained()
    failures.end()


main()
