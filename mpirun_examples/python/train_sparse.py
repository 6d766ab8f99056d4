"""Trains a model of made-up clicks by numpy: categories have rows in a sparse table, the rest is in a dense one.

    mpirun -n 4 python3 train_sparse.py"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import weft
from weft import pslib

CATEGORIES, FIELDS, ROW = 5000, 6, 8


def clicks(random: Any, truth: Any, count: int) -> tuple[Any, Any]:
    """Ids of shown categories, a few for each impression, and whether it was clicked."""
    ids = random.zipf(1.3, (count, FIELDS)) % CATEGORIES
    chance = 1 / (1 + np.exp(-truth[ids].sum(1)))
    return ids.astype(np.uint64), (random.uniform(size=count) < chance).astype(np.float32)


def train(world: weft.World, steps: int, batch: int) -> bool:
    truth = np.random.default_rng(7).normal(0, 1, CATEGORIES)
    random = np.random.default_rng(100 + world.rank)
    server = pslib.ParameterServer(world)
    rows = server.sparse_table("categories", ROW, optimizer=pslib.Optimizer("adagrad", 0.1), spread=0.05)
    dense = server.table("head", [pslib.TensorSpec("weights", (ROW,)), pslib.TensorSpec("bias", (1,))],
                         optimizer=pslib.Optimizer("adam", 0.01))
    weights, bias = dense.parameter("weights"), dense.parameter("bias")
    if world.rank == 0:
        weights[:], bias[:] = 0.5, 0
    dense.initialize()
    losses = []
    for step in range(1, steps + 1):
        ids, clicked = clicks(random, truth, batch)
        found = rows.lookup(ids).reshape(batch, FIELDS, ROW)
        summed = found.sum(1)
        guess = 1 / (1 + np.exp(-(summed @ weights + bias)))
        slope = ((guess - clicked) / batch).astype(np.float32)
        dense.gradient("weights")[:] = slope @ summed
        dense.gradient("bias")[:] = slope.sum()
        rows.push(ids, np.repeat(np.outer(slope, weights), FIELDS, 0).astype(np.float32))
        dense.push_pull()
        guess = np.clip(guess, 1e-6, 1 - 1e-6)
        losses.append(float(-np.mean(clicked * np.log(guess) + (1 - clicked) * np.log(1 - guess))))
        if world.rank == 0 and step % 50 == 0:
            print(f"step {step:4}  loss {np.mean(losses[-50:]):.4f}", flush=True)
    rows.flush()
    world.leave()
    return steps < 200 or bool(np.mean(losses[-50:]) < 0.9 * np.mean(losses[:20]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a model of clicks by numpy and a sparse table")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    with weft.World.join() as world:
        return 0 if train(world, options.steps, options.batch) else 1


if __name__ == "__main__":
    sys.exit(main())
