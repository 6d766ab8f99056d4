"""Reads a rank's stats segment from outside, by nothing but its documented layout."""

import os
import struct

EDGE_HEAD = struct.Struct("<QIIiIQQ8s208s")
COUNTERS_AT = 256
GPU_COUNTERS_AT = 320
RECORD = struct.Struct("<QQQQQQQ8x")
WAIT = struct.Struct("<QQQQQ")


def text(raw):
    return raw.split(b"\0")[0].decode()


class StatsSegmentTest:
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        magic, version, _, self.bytes, count, size = struct.unpack("<8sIIQII", self.read(0, 32))
        if magic != b"weftstat" or version != 6:
            raise ValueError(f"{path}: magic {magic}, version {version}")
        self.sections = {}
        for i in range(count):
            raw = struct.unpack("<16sQIIII", self.read(32 + i * size, 40))
            self.sections[text(raw[0])] = (32 + i * size, *raw[1:4])
        lines = text(self.section("schema")).splitlines()
        self.schema = {line.split()[0]: line.split()[1:] for line in lines}

    def close(self):
        os.close(self.fd)

    def read(self, offset, count):
        return os.pread(self.fd, count, offset)

    def present(self, name):
        return struct.unpack("<I", self.read(self.sections[name][0] + 32, 4))[0]

    def section(self, name):
        _, offset, entry, _ = self.sections[name]
        return self.read(offset, entry * self.present(name))

    def identity(self):
        names = ("rank", "size", "pid", "uid", "start_unix_ns", "start_monotonic_ns", "host")
        raw = struct.unpack("<iiiIQQ64s", self.section("identity")[:96])
        return {**dict(zip(names, raw)), "host": text(raw[-1])}

    def paths(self):
        _, _, entry, _ = self.sections["paths"]
        raw = self.section("paths")
        rows = [struct.unpack_from("<iIiI8s", raw, at) for at in range(0, len(raw), entry)]
        return {row[0]: (self.schema["path_states"][row[1]], row[2], text(row[4])) for row in rows}

    def edges(self):
        _, offset, entry, _ = self.sections["edges"]
        found = []
        for i in range(self.present("edges")):
            at = offset + i * entry
            raw = self.read(at, entry)
            generation, state, role, peer, _, slot, pending, fabric, name = EDGE_HEAD.unpack_from(raw)
            again = struct.unpack("<Q", self.read(at, 8))[0]
            if generation == 0 or generation % 2 or again != generation or self.schema["edge_states"][state] == "free":
                continue
            counts = {}
            for group, first in (("counters", COUNTERS_AT), ("gpu_counters", GPU_COUNTERS_AT)):
                names = self.schema[group]
                counts |= zip(names, struct.unpack_from(f"<{len(names)}Q", raw, first))
            found.append(
                {
                    "slot": text(name),
                    "number": slot,
                    "pending": pending,
                    "state": self.schema["edge_states"][state],
                    "role": self.schema["roles"][role],
                    "peer": peer,
                    "fabric": text(fabric),
                    **counts,
                }
            )
        return found

    def records(self):
        head = struct.unpack("<Q", self.section("recorder")[:8])[0]
        _, offset, entry, cells = self.sections["ring"]
        found = []
        for n in range(max(0, head - cells), head):
            at = offset + n % cells * entry
            stamp, started, _, what, slot, value, _ = RECORD.unpack(self.read(at, entry))
            again = struct.unpack("<Q", self.read(at, 8))[0]
            if stamp == again == 2 * (n + 1):
                event = self.schema["events"][what & 0xFF]
                found.append((started, event, what >> 8 & 0xFFFFFF, slot, value))
        return found


    def waits(self):
        """(since, operation, peer, slot, sequence) of the threads that sleep."""
        _, _, entry, _ = self.sections["waits"]
        raw = self.section("waits")
        rows = [WAIT.unpack_from(raw, at + 8) for at in range(0, len(raw), entry)]
        return [
            (since, self.schema["operations"][what & 0xFF], what >> 8 & 0xFFFFFF, slot, sequence)
            for since, what, slot, sequence, _ in rows
            if since
        ]


def all_stats_of(pid):
    """The process' own stats, and those that it keeps of others."""
    folder = f"/proc/{pid}/fd"
    paths = [os.path.join(folder, fd) for fd in os.listdir(folder)]
    return [path for path in paths if "memfd:weft-status" in os.readlink(path)]


def stats_of(pid):
    found = []
    for path in all_stats_of(pid):
        stats = StatsSegmentTest(path)
        if stats.identity()["pid"] == pid:
            found.append(path)
        stats.close()
    return found
