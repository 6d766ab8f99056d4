"""How both sides of the comparison take the time of a call."""

import sys
import time

ROUNDS = 1 if "--quick" in sys.argv else 21


def best_of(times, call):
    """The seconds of one call, in the best round."""
    times = times if ROUNDS > 1 else max(times // 20, 1)
    best = 1e9
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, (time.perf_counter() - start) / times)
    return best
