"""Trains a small network by numpy, data-parallel with weft.pslib:

    mpirun -n 4 python3 train_dense.py
    mpirun -n 4 python3 train_dense.py --publish 10.0.0.1:29400 --token FILE     and read_model.py reads the model

The made-up data are points of two spirals; every rank takes its own share of them."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import weft
from weft import pslib

HIDDEN, POINTS = 32, 4000
SHAPES = {"in": (2, HIDDEN), "in_bias": (HIDDEN,), "mid": (HIDDEN, HIDDEN), "mid_bias": (HIDDEN,), "out": (HIDDEN,),
          "out_bias": (1,)}


def spirals(random: Any, count: int) -> tuple[Any, Any]:
    """Points, and which of the two spirals each is on: 1 or 0."""
    kind = random.integers(0, 2, count)
    angle = random.uniform(0.5, 2.5, count) * np.pi
    turned = angle + np.pi * kind
    points = np.stack([angle * np.cos(turned), angle * np.sin(turned)], 1) / 8 + random.normal(0, 0.02, (count, 2))
    return points.astype(np.float32), kind.astype(np.float32)


def forward(model: dict[str, Any], points: Any) -> tuple[Any, Any, Any]:
    first = np.tanh(points @ model["in"] + model["in_bias"])
    second = np.tanh(first @ model["mid"] + model["mid_bias"])
    return first, second, 1 / (1 + np.exp(-(second @ model["out"] + model["out_bias"])))


def backward(model: dict[str, Any], points: Any, kind: Any, into: dict[str, Any]) -> float:
    """Writes the gradient of the mean loss, and returns the loss."""
    first, second, guess = forward(model, points)
    slope = (guess - kind) / len(points)
    into["out"][:], into["out_bias"][:] = slope @ second, slope.sum()
    slope = np.outer(slope, model["out"]) * (1 - second**2)
    into["mid"][:], into["mid_bias"][:] = first.T @ slope, slope.sum(0)
    slope = (slope @ model["mid"].T) * (1 - first**2)
    into["in"][:], into["in_bias"][:] = points.T @ slope, slope.sum(0)
    guess = np.clip(guess, 1e-6, 1 - 1e-6)
    return float(-np.mean(kind * np.log(guess) + (1 - kind) * np.log(1 - guess)))


def train(world: weft.World, options: argparse.Namespace) -> bool:
    random = np.random.default_rng(1 + world.rank)
    points, kinds = spirals(random, POINTS)
    server = pslib.ParameterServer(world)
    table = server.table("model", [pslib.TensorSpec(name, shape) for name, shape in SHAPES.items()],
                         optimizer=pslib.Optimizer("adam", 0.01))
    model = {name: table.parameter(name) for name in SHAPES}
    slopes = {name: table.gradient(name) for name in SHAPES}
    if world.rank == 0:
        for name, values in model.items():
            values[:] = 0 if name.endswith("bias") else random.normal(0, values.shape[0]**-0.5, values.shape)
    table.initialize()
    publication = None
    if world.rank == 0 and options.publish:
        publisher = pslib.Publisher(world, address=options.publish, token_file=options.token)
        publication = publisher.publication("model", [pslib.PublishedTensor(*item) for item in SHAPES.items()])
        until = time.monotonic() + 30
        while publisher.subscribers < options.readers and time.monotonic() < until:
            time.sleep(0.01)
    for step in range(1, options.steps + 1):
        chosen = random.integers(0, POINTS, options.batch)
        loss = backward(model, points[chosen], kinds[chosen], slopes)
        table.push_pull()
        if publication is not None:
            publication.publish(model, step)
        if world.rank == 0 and step % 50 == 0:
            print(f"step {step:4}  loss {loss:.4f}", flush=True)
    right = float(np.mean((forward(model, points)[2] > 0.5) == (kinds > 0.5)))
    if world.rank == 0:
        print(f"{right:.0%} of the points are on the right spiral", flush=True)
    if publication is not None:
        publisher.leave()
    # Other ranks may be reading this rank's shard: leave before the table goes.
    world.leave()
    return right > 0.9 or options.steps < 300


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a small network by numpy and weft.pslib")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--publish", metavar="HOST:PORT", help="publish the model to readers outside the job")
    parser.add_argument("--token", metavar="FILE", help="the readers' token")
    parser.add_argument("--readers", type=int, default=0, help="wait for this many readers before the first step")
    options = parser.parse_args()
    with weft.World.join() as world:
        return 0 if train(world, options) else 1


if __name__ == "__main__":
    sys.exit(main())
