"""The examples in Python, as users start them; the same least squares in C++, C and Python have the same bits.

Usage: examples.py PROJECT_FOLDER LIBRARY_FOLDER CC C_PROGRAM CPP_PROGRAM MPIRUN..."""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import job

PROJECT, LIBRARIES, CC, C_PROGRAM, CPP_PROGRAM, *MPIRUN = sys.argv[1:]


def run(ranks, *command, wait=True):
    started = subprocess.Popen([*MPIRUN, "-n", str(ranks), *map(str, command)] if ranks else [*map(str, command)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return finish(started) if wait else started


def finish(started):
    output, errors = started.communicate(timeout=60)
    job.expect(started.returncode == 0, f"{started.args}: status {started.returncode}\n{output}{errors}")
    return output


def example(name):
    return sys.executable, pathlib.Path(PROJECT, "mpirun_examples/python", f"{name}.py")


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
        run(2, *example("train_dense"), "--publish", address, "--token", token, "--readers", "1")
        job.expect("the trainer has left" in finish(reader), "the reader reads until the trainer has left")


def readmes_programs():
    """The programs of README below "From C and Python", as they stand there: at most 12 lines each."""
    text = pathlib.Path(PROJECT, "README.md").read_text().split("## From C and Python")[1]
    with tempfile.TemporaryDirectory() as folder:
        sources = {}
        for language, ending in (("python", "py"), ("c", "c")):
            source = re.search(rf"```{language}\n(.*?)```", text, flags=re.S)[1]
            job.expect(len([line for line in source.splitlines() if line]) <= 12, f"README's {language} has 12 lines")
            sources[language] = pathlib.Path(folder, f"first_put.{ending}")
            sources[language].write_text(source)
        program = pathlib.Path(folder, "first_put_c")
        subprocess.run([CC, "-Wall", "-Wextra", "-Werror", sources["c"], f"-I{PROJECT}/bindings/c/include",
                        f"-L{LIBRARIES}", "-lweft", f"-Wl,-rpath,{LIBRARIES}", "-o", program], check=True)
        wanted = "came from rank 1"
        job.expect(wanted in run(2, sys.executable, sources["python"]), "README's program in Python")
        job.expect(wanted in run(1, program, ":", "-n", "1", sys.executable, sources["python"]), "README's in C")


os.environ["PYTHONDEVMODE"] = "1"
readmes_programs()
the_same_bits()
a_reader_outside_the_job()
job.expect("% of the points" in run(3, *example("train_dense")), "a dense trainer")
run(3, *example("train_sparse"))
sys.exit(job.failures > 0)
