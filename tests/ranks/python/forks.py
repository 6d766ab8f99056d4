"""Forks of a rank's process: as the workers of a data loader, and as a program that forks and ends."""

import atexit
import gc
import multiprocessing
import os

import numpy as np
import weft
from job import SECONDS, expect


def _batches(queue, seed, count):
    random = np.random.default_rng(seed)
    for _ in range(count):
        queue.put(random.standard_normal((8, 4)).astype(np.float32))


def workers_load_while_the_rank_trains(job):
    context = multiprocessing.get_context("fork")
    queue = context.Queue(4)
    workers = [context.Process(target=_batches, args=(queue, seed, 10)) for seed in range(2)]
    for worker in workers:
        worker.start()
    gradient = job.world.array(4)
    for _ in range(20):
        gradient[:] = queue.get(timeout=SECONDS).sum(axis=0)
        job.group.all_reduce(gradient, timeout=SECONDS)
        expect(np.isfinite(gradient).all(), "a batch of a worker is reduced")
    for worker in workers:
        worker.join(SECONDS)
        expect(worker.exitcode == 0, f"a worker ends with {worker.exitcode}")


def a_fork_that_ends_harms_no_one(job):
    spec = weft.SlotSpec("beside a fork", (4,))
    held = [job.world.expose(spec)]
    job.meet()
    held.append(job.world.attach(job.next, spec, SECONDS))
    held.append(held[1].put_start(np.full(4, job.rank, np.float32)))
    child = os.fork()
    if child == 0:
        # Drops what the rank holds, and ends as a program does.
        refused = False
        try:
            job.world.array(3)
        except weft.Forked:
            refused = True
        held.clear()
        gc.collect()
        atexit._run_exitfuncs()
        os._exit(0 if refused else 1)
    status = os.waitpid(child, 0)[1]
    expect(status == 0, f"a fork that drops everything ends with {status}")
    with held[0].wait(SECONDS) as arrival:
        expect((arrival.array == job.last).all(), "the rank's put goes on")
    held[2].wait(SECONDS)
    held[1].put(np.full(4, 9, np.float32), SECONDS)
    with held[0].wait(SECONDS) as arrival:
        expect((arrival.array == 9).all(), "and its slots serve")
    job.meet()
    for handle in reversed(held):
        handle.close()


BODIES = [workers_load_while_the_rank_trains, a_fork_that_ends_harms_no_one]
