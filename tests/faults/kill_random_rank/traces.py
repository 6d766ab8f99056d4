"""What a job could leave behind on a machine: files, sockets, processes."""

import os
import re
import time

FOLDERS = ("/dev/shm", "/tmp")
# mpirun's own session folders, which it may be slow to remove when ranks were killed.
OF_MPIRUN = re.compile(r"^(ompi|openmpi|orte|prte|pmix|dstore|vader_segment|jf)[._-]?")


def listing():
    return {os.path.join(folder, name) for folder in FOLDERS for name in os.listdir(folder)}


def sockets():
    """Names of bound Unix sockets; abstract ones begin with @."""
    with open("/proc/net/unix") as table:
        rows = [line.split(maxsplit=7) for line in table.readlines()[1:]]
    return {row[7].strip() for row in rows if len(row) == 8}


def open_files(pid):
    """Files of a living process that would outlast it: in FOLDERS, opened or mapped."""
    paths = set()
    for entry in ("fd", "map_files"):
        folder = f"/proc/{pid}/{entry}"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                paths.add(os.readlink(os.path.join(folder, name)))
            except OSError:
                continue
    return {path for path in paths if path.startswith(FOLDERS)}


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def of_mpirun(path):
    return any(OF_MPIRUN.match(part) for part in path.split("/"))


def changed_since(path, when):
    try:
        return os.lstat(path).st_ctime >= when
    except FileNotFoundError:
        return False


class Traces:
    """Compares the machine after a job with the machine before it. Other programs come and go
    meanwhile, so what is new counts when it is the job's: a worker had it open, or its name holds
    "weft" or a worker's process id."""

    def __init__(self, private_tmp):
        self.private_tmp = private_tmp  # the job's TMPDIR: everything in it is the job's
        self.began = time.time()
        self.files = listing()
        self.sockets = sockets()
        self.opened = set()
        self.pids = []

    def look_at(self, pids):
        """While the workers live."""
        self.pids = pids
        for pid in pids:
            self.opened |= open_files(pid)

    def _is_ours(self, name):
        return "weft" in name or any(re.search(rf"\b{pid}\b", name) for pid in self.pids)

    def left(self):
        files = {path for path in listing() - self.files if self._is_ours(os.path.basename(path))}
        files |= {path for path in self.opened if changed_since(path, self.began)}
        files |= {os.path.join(self.private_tmp, name) for name in os.listdir(self.private_tmp)}
        found = [f"file {path}" for path in files if not of_mpirun(path)]
        found += [f"socket {name}" for name in sockets() - self.sockets if self._is_ours(name)]
        found += [f"process {pid}" for pid in self.pids if alive(pid)]
        return sorted(found)
