"""Bodies of the conformance suite for published slots, and for the wait for one of several handles."""

import time

import numpy as np
import weft
from job import SECONDS, expect, expect_error


def versions_are_seen(job):
    spec = weft.PublishedSpec("weights", (16,), "f32", depth=3)
    with job.world.expose_published(spec) as slot, job.world.attach_published(job.next, spec, SECONDS) as reader:
        expect_error(weft.BadArgument, "", slot.publish, "publishing without next()")
        for version in range(1, 6):
            tensor = slot.next(SECONDS)
            array = tensor.array
            array[:] = 10 * job.rank + version
            slot.publish()
            expect(not array.flags.writeable, "a published array can't be written")
            del tensor, array
            job.meet()
            with reader.view(SECONDS) as arrival:
                expect((arrival.array == 10 * job.next + version).all(), "a view has the newest version")
                expect(arrival.sequence == version, "versions are counted from 1")
            expect(not reader.ready, "a version is seen once")
            job.meet()
        into, part = job.world.array(16), np.zeros(4, np.float32)
        reader.see_again()
        reader.get(into, SECONDS)
        expect((into == 10 * job.next + 5).all(), "get copies the version")
        reader.see_again()
        reader.get_runs([(2, 4, part)], SECONDS)
        expect((part == 10 * job.next + 5).all(), "runs are copied")
        reader.see_again()
        with reader.view(SECONDS, runs=[(0, 2), (8, 2)]) as arrival:
            expect((arrival.array.reshape(-1)[:4] == 10 * job.next + 5).all(), "runs are viewed")
        expect(slot.readers == 1 and reader.owner == job.next and reader.spec.shape == (16,), "ends know each other")
        expect_error(weft.BadArgument, "", lambda: reader.get_runs([(0, 8, part)]), "a run that its array can't hold")
        expect_error(weft.Timeout, "weights", lambda: reader.view(0.02), "no newer version")
        job.meet()
    job.meet()


def a_viewed_version_is_not_overwritten(job):
    with job.world.expose_published(weft.PublishedSpec("one", (4,), depth=1)) as slot, \
            job.world.attach_published(job.next, "one", SECONDS) as reader:
        slot.next(SECONDS).array[:] = 1
        slot.publish()
        view = reader.view(SECONDS)
        array = view.array
        job.meet()
        direct = (array == 1).all()
        expect(direct, "the view has the version")
        expect_error(BufferError, "drop it first", view.release, "letting a view go while its array lives")
        job.meet()
        del array
        view.release()
    job.meet()


def wait_any_names_what_is_ready(job):
    spec = weft.SlotSpec("any", (2,))
    first, second = job.world.expose(spec), job.world.expose(weft.SlotSpec("any other", (2,)))
    to_second = job.world.attach(job.next, "any other", SECONDS)
    to_first = job.world.attach(job.next, spec, SECONDS)
    expect_error(weft.Timeout, "", lambda: job.world.wait_any([first, second], 0.02), "nothing is ready")
    job.meet()
    to_second.put(np.zeros(2, np.float32), SECONDS)
    expect(job.world.wait_any([first, second], SECONDS) == 1, "the slot with an arrival is named")
    second.wait(SECONDS).release()
    with job.world.expose_published(weft.PublishedSpec("any version", (1,))) as slot:
        reader = job.world.attach_published(job.next, "any version", SECONDS)
        slot.next().array[:] = 1
        slot.publish()
        request = to_first.put_start(np.zeros(2, np.float32), until="delivered")
        request.wait(SECONDS)
        until = time.monotonic() + SECONDS
        while not (first.ready and reader.ready) and time.monotonic() < until:
            time.sleep(0.001)
        ready = {job.world.wait_any([second, reader, request, first], SECONDS) for _ in range(6)}
        expect(ready == {1, 2, 3}, f"each that is ready is named in turn: {ready}")
        request.close()
        first.wait(SECONDS).release()
        reader.close()
        job.meet()
    expect_error(weft.BadArgument, "can't be waited for", lambda: job.world.wait_any([3]), "no handle")
    for handle in (to_first, to_second, first, second):
        handle.close()


BODIES = [versions_are_seen, a_viewed_version_is_not_overwritten, wait_any_names_what_is_ready]
