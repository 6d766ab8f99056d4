"""Bodies of the conformance suite for collectives, and Python's objects between ranks."""

import numpy as np
import weft
from job import SECONDS, expect, expect_error
from weft._callbacks import Working


def every_collective_gives_its_result(job):
    group, size, rank = job.group, job.size, job.rank
    ranks = np.arange(size, dtype=np.float32)
    for make in (lambda *shape: job.world.array(shape), lambda *shape: np.zeros(shape, np.float32)):
        one, out = make(3), make(3)
        many, wide = make(3 * size), make(3 * size)
        group.barrier(SECONDS)
        one[:] = rank
        group.all_reduce(one, out, timeout=SECONDS)
        expect((out == ranks.sum()).all(), "all_reduce")
        for op, wanted in (("max", size - 1), ("min", 0), ("avg", ranks.mean()), ("prod", 0 if size else 1)):
            group.all_reduce(one, out, op, SECONDS)
            expect(np.allclose(out, wanted), f"all_reduce by {op}")
        group.reduce(one, out if rank == 0 else None, timeout=SECONDS)
        expect(rank != 0 or (out == ranks.sum()).all(), "reduce")
        group.all_gather(one, many, timeout=SECONDS)
        expect((many == np.repeat(ranks, 3)).all(), "all_gather")
        wide[:] = 0
        group.gather(one, wide if rank == size - 1 else None, size - 1, timeout=SECONDS)
        expect((wide == (np.repeat(ranks, 3) if rank == size - 1 else 0)).all(), "gather")
        group.scatter(wide if rank == size - 1 else None, out, size - 1, timeout=SECONDS)
        expect((out == rank).all(), "scatter")
        group.reduce_scatter(many, out, timeout=SECONDS)
        expect((out == size * rank).all(), "reduce_scatter")
        many[:] = np.repeat(ranks, 3) * 10 + rank
        group.all_to_all(many, wide, timeout=SECONDS)
        expect((wide == np.repeat(ranks, 3) + 10 * rank).all(), "all_to_all")
        group.scan(one, out, timeout=SECONDS)
        expect((out == ranks[:rank + 1].sum()).all(), "scan")
        one[:] = rank + 1
        group.broadcast(one, size - 1, SECONDS)
        expect((one == size).all(), "broadcast")
        one[:] = rank
        group.all_reduce(one, timeout=SECONDS)
        expect((one == ranks.sum()).all(), "all_reduce in place")
    before = group.bytes_copied
    group.all_reduce(np.zeros(100_000, np.float32), timeout=SECONDS)
    expect(group.bytes_copied > before or size == 1, "copies of others' memory are counted")
    counts = [place + 1 for place in range(size)]
    out = job.world.array(sum(counts), "i32")
    own = job.world.array(rank + 1, "i32")
    own[:] = rank
    group.all_gather(own, out, counts, SECONDS)
    expect(out.tolist() == sum(([place] * (place + 1) for place in range(size)), []), "parts of their own sizes")
    expect_error(weft.BadArgument, "1 counts" if size != 1 else "2 counts",
                 lambda: group.all_gather(own, out, [1] if size != 1 else [1, 2]), "too few counts")
    expect_error(weft.BadArgument, "one of sum, prod", lambda: group.all_reduce(own, op="median"), "no such reduction")


def groups_are_split(job):
    whole = job.world.group()
    part = whole.split(job.rank % 2, -job.rank, SECONDS)
    expect(part.members == tuple(rank for rank in reversed(range(job.size)) if rank % 2 == job.rank % 2), "a part")
    rest = whole.split(None if job.rank == 0 else 3, timeout=SECONDS)
    expect(rest.members == (() if job.rank == 0 else tuple(range(1, job.size))), "a rank without a colour")
    expect_error(weft.BadArgument, "no colour", lambda: whole.split(-2), "no colour")
    for wait in (lambda: whole.split(0, timeout=-1), lambda: job.world.messages.probe(0, 1, -0.5),
                 lambda: job.group.barrier(float("nan")), lambda: job.world.leave(-1)):
        expect_error(weft.BadArgument, "timeout", wait, "a timeout below 0")
    tensor = job.world.array(10)
    with job.group.plan(weft.collective.all_reduce(tensor)) as plan:
        tensor[:] = 1
        plan.start()
        expect(job.world.wait_any([plan], SECONDS) == 0, "a plan in a wait set")
        plan.wait(SECONDS)
        expect((tensor == job.size).all(), "the sum")


def plans_run_often(job):
    tensor = job.world.array(1000)
    with job.group.plan(weft.collective.all_reduce(tensor)) as plan:
        for step in range(20):
            tensor[:] = step
            plan.run(SECONDS)
            expect((tensor == step * job.size).all(), "a plan's result")
        token = job.world.array(1)
        if job.size > 1 and job.rank > 0:
            job.world.messages.recv(0, 3, token, SECONDS)
        plan.start()
        if job.size > 1 and job.rank == 0:
            expect(not plan.test(), "a plan that others have not entered")
            expect_error(weft.BadArgument, "", plan.start, "a plan that is under way")
            expect_error(weft.BadArgument, "still open", job.group.close, "closing a group whose plan is held")
            expect_error(weft.Timeout, "", lambda: plan.wait(0.02), "a plan that others have not entered")
            for rank in range(1, job.size):
                job.world.messages.send(rank, 3, token, SECONDS)
        plan.wait(SECONDS)
        expect(plan.test(), "a plan that has ended")
    plans = [job.group.start(weft.collective.all_reduce(tensor)), job.group.start(weft.collective.barrier())]  # which run in this order
    for plan in reversed(plans):
        plan.wait(SECONDS)
        plan.close()
    expect(job.group.rank == job.rank and job.group.ranks == tuple(range(job.size)), "a group knows its ranks")


def reductions_may_be_the_users(job):
    def larger(into, other):
        np.maximum(into, other, out=into)

    tensor = job.world.array(500, "f64")
    tensor[:] = job.rank
    job.group.all_reduce(tensor, op=larger, timeout=SECONDS)
    expect((tensor == job.size - 1).all(), "a function of Python's combines")
    expect_error(ZeroDivisionError if job.size > 1 else weft.Error, "",
                 lambda: job.group.all_reduce(tensor, op=lambda into, other: 1 // 0, timeout=SECONDS)
                 if job.size > 1 else weft.errors.raise_last(8), "a function that raises")


def what_a_reduction_keeps_stays(job):
    kept = []

    def larger(into, other):
        np.maximum(into, other, out=into)
        kept.append((into, other[1:], into.copy(), other[1:].copy()))

    tensor = job.world.array(500, "f64")
    for step in range(3):
        tensor[:] = job.rank + 10 * step
        job.group.all_reduce(tensor, op=larger, timeout=SECONDS)
        expect((tensor == job.size - 1 + 10 * step).all(), "a function that keeps its arrays combines")
    del tensor
    job.group.all_reduce(np.full(500, -1.0), timeout=SECONDS)
    expect(all((into == first).all() and (other == second).all() for into, other, first, second in kept),
           "arrays that a reduction has kept stay as they were")
    tensor = np.full(500, job.rank, np.float64)
    for into, other, *_ in kept:
        into[:], other[:] = -5, -5
    job.group.all_reduce(tensor, op=lambda into, other: np.maximum(into, other, out=into), timeout=SECONDS)
    expect((tensor == job.size - 1).all(), "and may be written")
    expect(job.size == 1 or 0 < len(Working._spare) <= Working._MOST, "memory that no function keeps is used again")


def groups_of_some_ranks(job):
    every = job.world.group()
    expect(every.members == tuple(range(job.size)) and every.rank == job.rank and every.epoch == 0, "the group of all")
    last = every.subset([job.size - 1])
    expect(last.size == 1 and last.place_of(job.size - 1) == 0 and last.place_of(job.size) == -1, "a subset")
    expect(last.id != every.id or job.size == 1, "groups are told apart")
    if job.rank == job.size - 1:
        with weft.Collectives.open(job.world, last, SECONDS) as group, \
                weft.Collectives.open(job.world, [job.rank], SECONDS) as other:
            value = job.world.array(1)
            value[:] = 4
            group.all_reduce(value)
            other.all_reduce(value)
            expect(value[0] == 4, "a group of one")
    job.meet()
    survivors = every.shrink(SECONDS)
    expect(survivors.members == every.members and survivors.epoch == 1, "all survive")


def objects_are_exchanged(job):
    root = job.size - 1
    value = {"rank": job.rank, "weights": np.arange(1000.0), "text": "ö"}
    got = job.group.broadcast_object(value if job.rank == root else None, root, SECONDS)
    expect(got["rank"] == root and (got["weights"] == np.arange(1000.0)).all() and got["text"] == "ö", "broadcast")
    got["weights"][0] = 1  # an array of its own, which may be written
    gathered = job.group.gather_object([job.rank] * (job.rank + 1), root, SECONDS)
    expect(gathered == ([[place] * (place + 1) for place in range(job.size)] if job.rank == root else None), "gather")
    mine = job.group.scatter_object([f"for {place}" for place in range(job.size)] if job.rank == root else None, root,
                                    SECONDS)
    expect(mine == f"for {job.rank}", "scatter")
    expect_error(weft.BadArgument, "give one for each rank", lambda: job.group.scatter_object(
        [] if job.rank == root else None, root, SECONDS), "too few objects")


def objects_that_pickle_refuses_end_the_call_of_every_rank(job):
    bad = lambda: None  # noqa: E731: pickle refuses it
    group, root = job.group, job.size - 1
    own = Exception if job.rank == root else weft.BadArgument
    text = "" if job.rank == root else "can't be pickled"
    expect_error(own, text, lambda: group.broadcast_object(bad if job.rank == root else None, root, SECONDS), "broadcast")
    expect_error(own, text, lambda: group.gather_object(bad if job.rank == root else 1, root, SECONDS), "gather")
    values = [1] * (job.size - 1) + [bad] if job.rank == root else None
    expect_error(own, text, lambda: group.scatter_object(values, root, SECONDS), "scatter")
    expect(group.broadcast_object(7 if job.rank == root else None, root, SECONDS) == 7, "the group goes on")


BODIES = [every_collective_gives_its_result, groups_are_split, plans_run_often, reductions_may_be_the_users,
          what_a_reduction_keeps_stays, groups_of_some_ranks, objects_are_exchanged,
          objects_that_pickle_refuses_end_the_call_of_every_rank]
