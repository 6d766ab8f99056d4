"""Finds traces that a job leaves behind on a machine: files, sockets, processes."""

import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
import time

FOLDERS = ("/dev/shm", "/tmp")
# mpirun's own session folders, which it may be slow to remove when ranks were killed.
OF_MPIRUN = re.compile(r"^(ompi|openmpi|orte|prte|pmix|dstore|vader_segment|jf)[._-]?")


# Set inside a room; a setting of the test, which weft does not read.
ROOM = "WEFT_TEST_ROOM"
own = set()  # of FOLDERS and "net": what no other test uses


def enter_room(*needed):
    """Runs the program again in a room where no other program leaves traces: root gets its own network namespace (which
    has all Unix sockets too), /dev/shm and /tmp, which end with the last process inside. /tmp stays the machine's if
    one of the paths `needed` is in it. Other users stay outside: then Traces decides by name and owner."""
    if os.environ.pop(ROOM, ""):
        furnish_room(needed)
        return
    # A host of tests/hosts has a network of its own already.
    flags = ["--mount", "--propagation", "private", *([] if "HOSTS" in os.environ else ["--net"])]
    if os.geteuid() != 0 or subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL).returncode:
        return
    command = ["unshare", *flags, sys.executable, "-B", *sys.argv]
    os.execvpe(command[0], command, {**os.environ, ROOM: "1"})


def furnish_room(needed):
    paths = [*needed, os.getcwd(), *sys.path, *os.environ["PATH"].split(":")]
    for folder in FOLDERS:
        if not any(os.path.realpath(path).startswith(folder + "/") for path in paths):
            subprocess.run(["mount", "-t", "tmpfs", "room", folder], check=True)
            own.add(folder)
    own.add("net")
    if "HOSTS" not in os.environ:
        with socket.socket() as any_socket:
            flags = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
            fcntl.ioctl(any_socket, 0x8914, flags)  # SIOCSIFFLAGS


def listing():
    return {os.path.join(folder, name) for folder in FOLDERS for name in os.listdir(folder)}


def sockets():
    """Names of bound Unix sockets, by inode; abstract ones begin with @."""
    with open("/proc/net/unix") as table:
        rows = [line.split(maxsplit=7) for line in table.readlines()[1:]]
    return {row[6]: row[7].strip() for row in rows if len(row) == 8}


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def sockets_of(pid):
    """Inodes."""
    inodes = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    except OSError:
        pass
    return inodes


def is_given(pid, setting):
    """Whether the process was started with it in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return setting.encode() in environment.read().split(b"\0")
    except OSError:
        return False


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
    """Compares the machine after a job with the machine before it. Other programs come and go meanwhile, other jobs of
    weft among them, so what is new counts when it is the job's: a worker had it open, or its name holds a worker's
    process id; or the name holds "weft" and, outside a room, a socket has no holder but the job's processes."""

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

    def _holds_a_pid(self, name):
        return any(re.search(rf"\b{pid}\b", name) for pid in self.pids)

    def _is_our_file(self, path):
        folder, name = os.path.split(path)
        return self._holds_a_pid(name) or ("weft" in name and folder in own)

    def _our_sockets(self):
        new = {inode: name for inode, name in sockets().items() if inode not in self.sockets}
        new = {inode: name for inode, name in new.items() if "weft" in name or self._holds_a_pid(name)}
        if new and "net" not in own:
            for pid in processes():
                if (held := sockets_of(pid) & new.keys()) and not is_given(pid, f"TMPDIR={self.private_tmp}"):
                    new = {inode: name for inode, name in new.items() if inode not in held}
        return new.values()

    def left(self):
        files = {path for path in listing() - self.files if self._is_our_file(path)}
        files |= {path for path in self.opened if changed_since(path, self.began)}
        files |= {os.path.join(self.private_tmp, name) for name in os.listdir(self.private_tmp)}
        found = [f"file {path}" for path in files if not of_mpirun(path)]
        found += [f"socket {name}" for name in self._our_sockets()]
        found += [f"process {pid}" for pid in self.pids if alive(pid)]
        return sorted(found)
