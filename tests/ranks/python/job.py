"""For tests of `import weft`: checks, and the job that all bodies of one program share."""

import sys
import threading
import time
import traceback

import weft

SECONDS = 20


class Job:
    """The rank's world, and what every body needs."""

    def __init__(self, world):
        self.world = world
        self.rank, self.size = world.rank, world.size
        self.next, self.last = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        self.group = weft.Collectives.open(world, timeout=SECONDS)

    def meet(self):
        """Returns when all ranks have called it."""
        self.group.barrier(timeout=SECONDS)


failures = 0


def expect(holds, what):
    """Reports a failure, which the program's exit code then tells; the body goes on."""
    global failures
    if not holds:
        failures += 1
        place = traceback.extract_stack(limit=2)[0]
        print(f"failed: {what} ({place.filename}:{place.lineno})", file=sys.stderr, flush=True)


def expect_error(kind, part, call, what):
    """Expects that `call()` raises a `kind` whose text has `part`. Returns the error."""
    try:
        call()
    except kind as error:
        expect(part in str(error) and "\n" not in str(error), f"{what}: its text is {error}")
        return error
    except BaseException as error:
        expect(False, f"{what}: raised {error!r}")
        return error
    expect(False, f"{what}: nothing was raised")
    return None


def soon(holds):
    """True once `holds()` is, within SECONDS."""
    until = time.monotonic() + SECONDS
    while not holds() and time.monotonic() < until:
        time.sleep(0.001)
    return holds()


def in_thread(call):
    """Runs `call()` on another thread and returns its result or its exception."""
    found = []

    def run():
        try:
            found.append(call())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(SECONDS)
    return found[0] if found else None


def run(*bodies):
    """Runs bodies, functions of a Job, as this rank of the job. Exits with 1 if an expectation failed."""
    with weft.World.join() as world:
        job = Job(world)
        for body in bodies:
            body(job)
            job.meet()
        job.group.close()
    if failures:
        sys.exit(1)
    if job.rank == 0:
        print(f"{len(bodies)} bodies on {job.size} ranks")
