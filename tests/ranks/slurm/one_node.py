"""Starts a one-node Slurm cluster for one command: one_node.py COMMAND [ARGUMENT ...]

The cluster's keys, state, sockets and log are in a folder that is removed at the end. Needs root, and munge, slurmctld,
slurmd and slurm-client of Debian. Exit status: the command's; 77 and a line if the cluster can't be started.
"""

import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from jobs import free_port, skip

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")


class Daemons:
    """Processes that end with the test, in the reverse order."""

    def __init__(self, folder):
        self.folder = folder
        self.running = []

    def start(self, name, *arguments, user=None):
        log = open(self.folder / f"{name}.log", "w")
        extra = {}
        if user:
            extra = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.running.append(
            subprocess.Popen(
                [shutil.which(name), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                **extra,
            )
        )
        return self.running[-1]

    def stop(self):
        for process in reversed(self.running):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def logs(self):
        return "\n".join(f"--- {p.name}\n{p.read_text()[-3000:]}" for p in self.folder.glob("*.log"))


def configure(folder):
    host = socket.gethostname().split(".")[0]
    munge_socket = folder / "munge" / "socket"
    (folder / "slurm.conf").write_text(
        f"""ClusterName=weft
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge_socket}
CredType=cred/munge
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""
    )
    for part in ("state", "spool", "munge"):
        (folder / part).mkdir(mode=0o755)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    for path in (folder / "munge", key):
        shutil.chown(path, "munge", "munge")
    return munge_socket


def wait_until_idle(environment):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        said = subprocess.run(
            ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True
        )
        if said.stdout.strip() == "idle":
            return True
        time.sleep(0.3)
    return False


def main():
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        skip(f"no {', '.join(missing)} here (munge, slurmctld, slurmd, slurm-client)")
    if os.geteuid() != 0:
        skip("slurmd and munged are started as root")
    with tempfile.TemporaryDirectory(prefix="weft-slurm-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        munge_socket = configure(folder)
        daemons = Daemons(folder)
        environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        try:
            daemons.start(
                "munged", "--foreground", f"--socket={munge_socket}",
                f"--key-file={folder}/munge/key", f"--pid-file={folder}/munge/pid",
                f"--seed-file={folder}/munge/seed", f"--log-file={folder}/munge/log", user="munge",
            )
            daemons.start("slurmctld", "-D", "-i")
            daemons.start("slurmd", "-D", "-N", socket.gethostname().split(".")[0])
            if not wait_until_idle(environment):
                print(daemons.logs(), flush=True)
                skip("Slurm's node does not come up here (its words are above)")
            status = subprocess.run(sys.argv[1:], env=environment).returncode
            if status != 0:
                print(daemons.logs(), flush=True)
        finally:
            daemons.stop()
    sys.exit(status)


main()
