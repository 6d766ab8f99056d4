"""Bodies of the conformance suite for signals and rendezvous."""

import numpy as np
import weft
from job import SECONDS, expect, expect_error


def signals_count(job):
    with weft.Signal.expose(job.world, "count", 5) as own, \
            weft.RemoteSignal.attach(job.world, job.next, "count", SECONDS) as remote:
        expect(remote.owner == job.next and own.value >= 5, "a signal has its first value")
        job.meet()
        remote.add(2)
        expect(own.wait_at_least(7, SECONDS) == 7, "what a peer adds is seen")
        job.meet()
        expect(remote.fetch_add(1, SECONDS) == 7 and own.wait_at_least(8, SECONDS) == 8, "the value before is returned")
        job.meet()
        expect(remote.compare_swap(8, 20, SECONDS) == 8 and own.wait_at_least(20, SECONDS) == 20, "values are swapped")
        job.meet()
        expect(own.fetch_add(-1) == 20 and own.value == 19, "the owner adds, modulo 2^64")
        expect(own.compare_swap(19, 0) == 19 and own.value == 0, "and swaps")
        expect_error(weft.Timeout, "", lambda: own.wait_at_least(1, 0.02), "a value that is not reached")
        job.meet()
        slot = job.world.expose(weft.SlotSpec("signalled", (3,)))
        to = job.world.attach(job.next, "signalled", SECONDS)
        remote.put(to, np.ones(3, np.float32), 4, SECONDS)
        own.wait_at_least(4, SECONDS)
        expect(slot.ready, "who sees the value sees the tensor")
        slot.wait(SECONDS).release()
        job.meet()
        to.close()
        slot.close()


def rendezvous_by_key_and_step(job):
    seen = []
    spec = weft.RendezvousSpec("exchange", observer=seen.append)
    with weft.Rendezvous.open(job.world, spec, timeout=SECONDS) as exchange:
        own = job.world.array((2, 3))
        own[:] = job.rank
        exchange.send(job.next, "gradient", 1, own, SECONDS)
        exchange.send(job.next, "gradient", 2, np.full(5, job.rank, np.int32), SECONDS)
        exchange.send_dead(job.next, "dead", 1, SECONDS)
        exchange.send_error(job.next, "failed", 1, "cancelled", "no more data", SECONDS)
        exchange.send_encoded(job.next, "encoded", 1, 9, b"a value", SECONDS)
        got = exchange.recv(job.last, "gradient", 1, SECONDS)
        expect(got.array.shape == (2, 3) and (got.array == job.last).all(), "the key's tensor comes")
        both = exchange.recv_many(job.last, [("gradient", 2), ("dead", 1), ("failed", 1)], SECONDS)
        expect((both[0].array == job.last).all() and both[0].array.dtype == np.int32, "several come at once")
        expect(both[1].is_dead and both[1].array is None, "a dead tensor has no content")
        expect(isinstance(both[2], weft.Cancelled) and "no more data" in str(both[2]), "an error is its sender's")
        value = exchange.recv(job.last, "encoded", 1, SECONDS)
        expect(value.codec == 9 and value.bytes() == b"a value", "an encoded value is its bytes")
        expect(not exchange.ready(job.last, "late", 1), "nothing of that key")
        expect_error(weft.Timeout, "late", lambda: exchange.recv(job.last, "late", 1, 0.02), "nothing within the time")
        exchange.cancel(job.last, "late", 1)
        exchange.serve(SECONDS)
        expect(not exchange.lent(job.next, "gradient", 1), "what was fetched is no longer lent")
        job.meet()
    expect(job.size == 1 or any(event["message"] == "tensor_request" and event["peer"] == job.last for event in seen),
           "an observer sees the messages")


BODIES = [signals_count, rendezvous_by_key_and_step]
