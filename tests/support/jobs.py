"""What the drivers of jobs share: to start a job, to bound its time, to read its lines, to judge it.

Settings are environment variables, given as keyword arguments.
"""

import contextlib
import os
import queue
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

# Variables that launchers set for their ranks begin so.
LAUNCHERS = ("PMIX_", "PMI_", "OMPI_", "SLURM_", "WEFT_")


class Failed(SystemExit):
    """A check that does not hold. Uncaught, it ends the test with its text."""

    def __init__(self, what):
        super().__init__(what)
        self.code = f"failed: {what}"


def expect(holds, what):
    if not holds:
        raise Failed(what)


def skip(why):
    print(f"skipped: {why}", flush=True)
    sys.exit(77)


class Failures:
    """For a test that goes on after a failure."""

    def __init__(self):
        self.texts = []

    def expect(self, holds, what):
        if not holds:
            self.texts.append(what)

    def end(self):
        sys.exit("\n".join(f"failed: {text}" for text in self.texts) or 0)


def is_full():
    return os.environ.get("WEFT_TEST_FULL", "0") not in ("", "0")


def draw_seed():
    """WEFT_TEST_SEED, or a new number, which is printed; seeds the module `random` by it."""
    seed = int(os.environ.get("WEFT_TEST_SEED", random.SystemRandom().getrandbits(31)))
    print(f"WEFT_TEST_SEED={seed} repeats the random choices", flush=True)
    random.seed(seed)
    return seed


def job(mpirun, ranks, *program, survive=False):
    """The command of a job. `survive`: the death of a rank does not end the others."""
    flags = ["--enable-recovery"] if survive else []
    return [*mpirun, *flags, "-n", str(ranks), *map(str, program)]


def environment(settings):
    return os.environ | settings


def without_launcher(settings):
    """The environment of a process that is not a launcher's."""
    return {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)} | settings


def start(command, env=None, **settings):
    """Its output and its errors come by `stdout`, as text."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=env or environment(settings),
    )


def run(command, seconds=110, env=None, **settings):
    """As start(), to its end. A command that takes longer than `seconds` is ended and has failed."""
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        env=env or environment(settings),
    )


@contextlib.contextmanager
def running(command, **settings):
    """As start(); a process that still runs at the end of the block is killed."""
    with start(command, **settings) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def joined(process, ranks):
    """The process ids by rank, once all `ranks` have said that they joined."""
    pids = {}
    for line in process.stdout:
        print(line, end="", flush=True)
        for found in re.finditer(r"joined rank (\d+) pid (\d+)", line):
            pids[int(found[1])] = int(found[2])
        if len(pids) == ranks:
            return pids
    raise Failed(f"only {len(pids)} of {ranks} ranks joined")


def until(what, seconds, holds, pause=0.05):
    """Waits until `holds()` is true, and returns its value."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        expect(time.monotonic() < end, f"within {seconds} s: {what}")
        time.sleep(pause)
    return found


def expect_nothing_left(traces, seconds=5):
    """After a job's end; the kernel may need a moment for a large process."""
    end = time.monotonic() + seconds
    while left := traces.left():
        expect(time.monotonic() < end, "left behind: " + ", ".join(left))
        time.sleep(0.05)


def expect_survivors(output, ranks, what):
    """Each of `ranks` must have said that all was as it must be."""
    missing = [rank for rank in ranks if f"rank {rank} survived" not in output]
    if missing:
        print(output)
    expect(not missing, f"{what}: the ranks {missing} did not survive as they must")


class Job:
    """A job whose lines come by a thread. Those that match `pattern` are handed on, each with the time at which it
    came. The job ends with the block of `with`, which prints the output if it ends by an exception."""

    def __init__(self, command, pattern, **settings):
        self.pattern = re.compile(pattern)
        self.lines = queue.Queue()
        self.output = []
        self.process = start(command, **settings)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.stop()
        if kind:
            print("".join(self.output), flush=True)

    def _read(self):
        for line in self.process.stdout:
            self.output.append(line)
            # Two ranks' lines may share one of mpirun's.
            for match in self.pattern.finditer(line):
                self.lines.put((match, time.monotonic()))

    def next_line(self, end):
        """The next match and its time, at the latest at `end`."""
        try:
            return self.lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise Failed("the ranks' lines did not come in time") from None

    def wait(self, seconds):
        """The exit status of the launcher, which has said all by then."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"the launcher still runs after {seconds:.0f} s") from None
        self.reader.join()
        return status

    def stop(self, seconds=5):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()


def repeat(runs, one_run):
    """Calls one_run(number) `runs` times and goes on after a failure; it returns what to print."""
    failures = 0
    for number in range(1, runs + 1):
        try:
            print(f"run {number}: {one_run(number)}", flush=True)
        except Failed as failure:
            failures += 1
            print(f"run {number}: failed: {failure}", flush=True)
    expect(failures == 0, f"{failures} of {runs} runs")


def kill_and_hear(running, pids, victim, within):
    """Kills a rank of the Job `running`, whose lines have a group `end`. Returns the last lines of the others, each of
    which must name it."""
    os.kill(pids[victim], signal.SIGKILL)
    ends = []
    until = time.monotonic() + within
    while len(ends) < len(pids) - 1:
        line, _ = running.next_line(until)
        if line["end"]:
            ends.append(line["end"])
    running.wait(within)
    for end in ends:
        expect(re.search(rf"\brank {victim}\b", end), f"it does not name rank {victim}: {end}")
    return ends


def free_port():
    """Below the ports that the system gives to connections, so that none takes it meanwhile."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as given:
        first_given = int(given.read().split()[0])
    while True:
        port = random.randrange(10240, first_given if first_given > 10240 else 32768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def write_token(path):
    """A secret of its own, which only its owner may read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(os.urandom(32).hex() + "\n")
    return path
