"""Bodies of the conformance suite for messages."""

import weakref

import numpy as np
import weft
from job import SECONDS, expect, expect_error


def messages_are_taken_by_source_and_tag(job):
    messages = job.world.messages
    small, large = job.world.array(4), job.world.array(100_000)
    small[:], large[:] = job.rank, job.rank + 0.5
    sent = [messages.isend(job.next, 7, large), messages.isend(job.next, 8, small)]
    into = job.world.array(100_000)
    info = messages.recv(job.last, 8, into, SECONDS)
    expect((info.source, info.tag, info.bytes) == (job.last, 8, 16) and (into[:4] == job.last).all(), "a tag is taken")
    info = messages.probe(weft.ANY_SOURCE, weft.ANY_TAG, SECONDS)
    expect((info.source, info.tag, info.bytes) == (job.last, 7, 400_000), "a message is probed")
    info = messages.recv(weft.ANY_SOURCE, (6, 6), into, SECONDS)
    expect(info.tag == 7 and (into == job.last + 0.5).all(), "bits of a tag are taken")
    messages.wait_all(sent, SECONDS)
    expect(messages.wait_any(sent, SECONDS) in (0, 1), "a request that has ended is named")
    expect(messages.iprobe(weft.ANY_SOURCE, weft.ANY_TAG) is None, "nothing is left")


def arrays_of_others_are_sent_too(job):
    messages = job.world.messages
    for count in (3, 50_000):
        values = np.arange(count, dtype=np.int64) + job.rank
        into = np.zeros(count, np.int64)
        info = messages.sendrecv(job.next, 1, values, job.last, 1, into, SECONDS)
        expect(info.bytes == 8 * count and (into == np.arange(count) + job.last).all(), "numpy's memory crosses")
    request = messages.isend(job.next, 2, np.full(50_000, 3.0))  # the array is dropped while it is sent
    received = np.zeros(50_000)
    messages.recv(job.last, 2, received, SECONDS)
    request.wait(SECONDS)
    expect((received == 3).all(), "an array that is dropped while it is sent is kept")


def receives_end_by_time_and_by_cancel(job):
    messages = job.world.messages
    into = job.world.array(4)
    expect_error(weft.Timeout, "", lambda: messages.recv(job.last, 5, into, 0.02), "no message")
    expect_error(weft.Timeout, "", lambda: messages.recv(job.last, 5, into, 0.15), "no message for a while")
    error = expect_error(weft.Timeout, "sendrecv: ",
                         lambda: messages.sendrecv(job.next, 55, into, job.last, 56, into, 0.02), "nothing to exchange")
    expect(error is not None and error.operation == "sendrecv", "the operation of an exchange")
    messages.recv(job.last, 55, into, SECONDS)
    error = expect_error(weft.Timeout, "probe: ", lambda: messages.probe(job.last, 5, 0.02), "nothing to probe")
    expect(error is not None and error.operation == "probe" and error.host != "", "the fields of a probe")
    request = messages.irecv(job.last, 5, into)
    expect(not request.test(), "nothing came")
    request.cancel()
    expect_error(weft.Cancelled, "", lambda: request.wait(SECONDS), "a receive that was cancelled")
    messages.irecv(job.last, 5, into).close()
    job.meet()
    messages.send(job.next, 5, np.zeros(9, np.float32), SECONDS)
    expect_error(weft.Mismatch, "", lambda: messages.recv(job.last, 5, into, SECONDS), "a larger message")
    messages.send(job.next, 5, np.full(2, 8, np.float32), SECONDS)
    expect(messages.recv(job.last, 5, into, SECONDS).bytes == 8 and into[0] == 8, "a smaller message")


def element_types_are_compared(job):
    messages = job.world.messages
    sent = [messages.isend(job.next, 6, np.full(3, 1.5, np.float32)) for _ in range(3)]
    expect(messages.probe(job.last, 6, SECONDS).dtype == "f32", "the type is probed")
    error = expect_error(weft.Mismatch, "i64", lambda: messages.recv(job.last, 6, np.zeros(3, np.int64), SECONDS),
                         "another type")
    expect(error is not None and "f32" in str(error), "both types are named")
    raw = np.zeros(12, np.uint8)
    expect(messages.recv(job.last, 6, raw, SECONDS).dtype == "f32" and (raw.view("f4") == 1.5).all(), "bytes take any")
    into = np.zeros(3, np.float32)
    request = messages.irecv(job.last, 6, into)
    expect(job.world.wait_any([request], SECONDS) == 0 and request.wait(SECONDS).bytes == 12, "messages in a wait set")
    messages.wait_all(sent, SECONDS)


def each_array_and_report_is_the_call_s_own(job):
    """Calls keep the small array that they had last, and the report of a message like the one before."""
    messages = job.world.messages
    arrays = [job.world.array(4), job.world.array(8), job.world.array(500)]
    into = [job.world.array(500) for _ in range(2)]
    for turn in range(30):
        array, target, tag = arrays[turn // 2 % 3], into[turn // 3 % 2], turn // 4 % 2
        array[:] = turn + job.rank
        messages.send(job.next, tag, array, SECONDS)
        info = messages.recv(job.last, tag, target, SECONDS)
        expect(info == weft.MessageInfo(job.last, tag, array.nbytes, "f32"), f"the report of message {turn}")
        expect((target[:array.size] == turn + job.last).all(), f"the elements of message {turn}")
    sent = arrays[0]
    sent.shape = (2, 2)  # the same object, and the same memory
    messages.send(job.next, 1, sent, SECONDS)
    expect(messages.recv(job.last, 1, into[0], SECONDS).bytes == 16, "an array that has got another shape")
    fresh = job.world.array(8)
    fresh.flags.writeable = False
    expect_error(weft.BadArgument, "read-only", lambda: messages.recv(job.last, 1, fresh[:4], 0.0), "a read-only part")
    # Large arrays are not kept.
    large = weakref.ref(job.world.array(100_000))
    expect(large() is None, "an array is freed when it is dropped")
    array = job.world.array(100_000)
    large = weakref.ref(array)
    messages.send(job.rank, 1, array[:10], SECONDS)
    messages.recv(job.rank, 1, array, SECONDS)
    del array
    expect(large() is None, "a large array is freed when it is dropped after a call")


BODIES = [element_types_are_compared, each_array_and_report_is_the_call_s_own, messages_are_taken_by_source_and_tag,
          arrays_of_others_are_sent_too, receives_end_by_time_and_by_cancel]
