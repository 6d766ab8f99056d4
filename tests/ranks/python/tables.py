"""weft.pslib in Python: dense and sparse tables, rules, publications and their readers."""

import os
import pathlib
import random
import tempfile

import numpy as np
import weft
from job import SECONDS, expect, expect_error
from weft import pslib

SPECS = [pslib.TensorSpec("weights", (8, 4)), pslib.TensorSpec("bias", (4,))]


def train(job, table, steps):
    """Steps with a gradient of rank + 1; returns the sum of what the first element moved by."""
    weights = table.parameter("weights")
    if table._server.works:
        weights[:] = 1
        table.parameter("bias")[:] = 0
    table.initialize(SECONDS)
    for _ in range(steps):
        table.gradient("weights")[:] = job.rank + 1
        table.gradient("bias")[:] = 2
        table.push_pull(SECONDS)
    return weights


def dense_tables_train(job):
    with pslib.ParameterServer(job.world, "dense") as server:
        expect(server.works and server.serves, "every rank works and serves")
        mean = (job.size + 1) / 2
        with server.table("sgd", SPECS, optimizer=pslib.Optimizer("sgd", 0.5), timeout=SECONDS) as table:
            weights = train(job, table, 3)
            expect(np.allclose(weights, 1 - 3 * 0.5 * mean) and np.allclose(table.parameter("bias"), -3), "three steps of sgd")
            expect(table.version == 3 and table.pulled == (3, tuple(range(job.size))), "the version, and who made it")
            expect(sum(piece.count for piece in table.pieces) == 36 and "weights" in table.describe(), "the shard map")
            expect(table.statistics.skipped == 0 and table.compression.bytes_spared == 0, "counters")
            job.meet()
        schedule = pslib.Schedule("linear", period=10)
        expect(schedule.factor(1) == 1 and 0 < schedule.factor(5) < 1, "a schedule's factor")
        with server.table("adam", SPECS, optimizer=pslib.Optimizer("adam", 0.1), schedule=schedule,
                          compression=pslib.Compression("int8"), clip_norm=1.0, timeout=SECONDS) as table:
            weights = train(job, table, 2)
            expect((weights < 1).all() and np.isfinite(weights).all(), "adam with a schedule and compression moves")
            job.meet()
        expect_error(weft.BadArgument, "one of sgd", lambda: server.table("x", SPECS, optimizer=pslib.Optimizer("best")),
                     "no such rule")
        expect_error(weft.BadArgument, "give a weft.pslib.Optimizer", lambda: server.table("x", SPECS, optimizer="sgd"),
                     "a rule's name")
        expect_error(weft.BadArgument, "give a weft.pslib.TensorSpec", lambda: server.table("x", [("w", (2,))]),
                     "no spec")
        expect_error(weft.BadArgument, "give a weft.pslib.Consistency",
                     lambda: server.sparse_table("x", 2, consistency=3), "no consistency")
    pieces = pslib.shard_map(SPECS, [0])
    expect([piece.count for piece in pieces] == [32, 4] or sum(piece.count for piece in pieces) == 36, "a map without a table")


def rules_may_be_the_users(job):
    kept = []

    def apply(step, parameters, gradient, states):
        states[0] += gradient
        parameters -= np.float32(step.learning_rate) * states[0]
        kept.append(([parameters, gradient, states[0]], [parameters.copy(), gradient.copy(), states[0].copy()]))

    server = pslib.ParameterServer(job.world, "rules")
    rule = pslib.Rule("sum of gradients", apply, 1)
    with server.table("own", SPECS, optimizer=pslib.Optimizer(rule, 0.25), timeout=SECONDS) as table:
        weights = train(job, table, 3)
        expect(np.allclose(weights, 1 - 0.25 * 6 * (job.size + 1) / 2), "a rule of Python's")
        job.meet()
    expect((kept or job.size > 1) and all((array == copy).all() for call in kept for array, copy in zip(*call)),
           "arrays that a rule has kept stay as they were, also after the table")
    failing = pslib.Rule("fails", lambda step, parameters, gradient, states: 1 // 0)
    with server.table("failing", SPECS, optimizer=pslib.Optimizer(failing, 0.25), timeout=SECONDS) as table:
        expect_error(ZeroDivisionError, "", lambda: train(job, table, 1), "a rule that raises") \
            if job.size == 1 else _train_past_failures(job, table)
        job.meet()
    server.close()


def _train_past_failures(job, table):
    try:
        train(job, table, 1)
    except ZeroDivisionError:
        pass  # on a rank whose shard has elements


def sparse_tables_train(job):
    with pslib.ParameterServer(job.world, "sparse") as server, \
            server.sparse_table("rows", 4, optimizer=pslib.Optimizer("sgd", 1.0), spread=0, timeout=SECONDS) as table:
        ids = np.array([3, 1 << 40, 7], np.uint64)
        rows = table.lookup(ids, timeout=SECONDS)
        expect(rows.shape == (3, 4) and (rows == 0).all() and table.dim == 4, "rows start as zeros")
        job.meet()
        table.push(ids[:2], np.ones((2, 4), np.float32), SECONDS)
        rows = table.push_lookup([7], np.full((1, 4), 2, np.float32), ids, np.empty((3, 4), np.float32), SECONDS)
        table.flush(SECONDS)
        job.meet()
        rows = table.lookup(ids, timeout=SECONDS)
        expect(np.allclose(rows[0], -1) and np.allclose(rows[2], -2), f"rows are updated: {rows[:, 0]}")
        expect(0 <= table.server_of(7) < job.size and table.statistics.looked_up >= 0, "rows have a server")
        expect_error(weft.BadArgument, "shape (1, 4)", lambda: table.push([1], np.ones((1, 3), np.float32)), "short rows")
        expect_error(weft.BadArgument, "below 0", lambda: table.lookup([-1]), "a negative id")
        expect_error(weft.BadArgument, "give integers", lambda: table.lookup([0.5]), "no integer")
        job.meet()


def _publisher(job, token):
    """At a port of its own, outside the range that the kernel gives to others."""
    for port in random.sample(range(20000, 30000), 50):
        try:
            return pslib.Publisher(job.world, address=f"127.0.0.1:{port}", token_file=token)
        except weft.Error as error:
            taken = error
    raise taken


def publications_are_read(job):
    if job.rank != 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        token = pathlib.Path(folder, "token")
        token.write_text("a token of 32 bytes or more for readers\n")
        token.chmod(0o600)
        publisher = _publisher(job, token)
        specs = [pslib.PublishedTensor("weights", (100, 10)), pslib.PublishedTensor("steps", (1,), "i64")]
        publication = publisher.publication("model", specs)
        weights, steps = np.arange(1000, dtype=np.float32).reshape(100, 10), np.array([5])
        publication.publish([weights, steps], step=5)
        reader = pslib.Reader.join("model", address=publisher.address.split(",")[0], token_file=token, timeout=SECONDS)
        expect([spec.name for spec in reader.tensors] == ["weights", "steps"] and reader.tensors[0].shape == (100, 10),
               "a reader knows the tensors")
        reader.pull_latest(SECONDS)
        first = reader.array("weights")
        expect((first == weights).all() and reader.array("steps")[0] == 5 and reader.step == 5 and reader.version == 1
               and reader.whole, "a version is read")
        expect(not first.flags.writeable, "which can't be written")
        expect_error(weft.Timeout, "", lambda: reader.pull_newer(0.02), "no newer version")
        weights[3] = -1
        publication.publish({"steps": steps, "weights": weights}, step=6)
        reader.pull_newer(SECONDS)
        expect((reader.array("weights")[3] == -1).all() and reader.step == 6, "a newer version is read")
        expect(reader.statistics.deltas_taken == 1 and publication.statistics.version == 2, "as the rows that changed")
        expect_error(weft.BadArgument, "no array for steps", lambda: publication.publish({"weights": weights}), "too few")
        expect(publisher.subscribers == 1 and publisher.rejected_connections == 0, "the publisher knows its readers")
        reader.close()
        publication.close()
        publisher.close()
        os.unlink(token)


BODIES = [dense_tables_train, rules_may_be_the_users, sparse_tables_train, publications_are_read]
