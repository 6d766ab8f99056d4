"""Reads the model that train_dense.py publishes, outside the job and without a launcher, until the trainer has left:

    python3 read_model.py 10.0.0.1:29400 TOKEN_FILE"""

from __future__ import annotations

import sys

import numpy as np
import weft
from weft import pslib


def main() -> int:
    address, token = sys.argv[1:]
    seen = 0
    with pslib.Reader.join("model", address=address, token_file=token) as reader:
        names = [spec.name for spec in reader.tensors]
        while True:
            try:
                reader.pull_newer()
            except weft.PeerLeft:
                break
            seen += 1
            norm = sum(float(np.square(reader.array(name)).sum()) for name in names)**0.5
            print(f"version {reader.version} of step {reader.step}: {len(names)} tensors, norm {norm:.3f}", flush=True)
    print(f"the trainer has left after {seen} versions that were read", flush=True)
    return 0 if seen else 1


if __name__ == "__main__":
    sys.exit(main())
