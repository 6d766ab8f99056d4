"""The first words of a connection between ranks, and the sockets at which ranks listen."""

import pathlib
import struct

HANDSHAKE = struct.Struct("<IIiiiHH8s32s")
MAGIC = 0x6C6C6577


def version_in_force():
    """The version of the handshake in the sources."""
    source = pathlib.Path(__file__).parents[3] / "p2p" / "transport" / "address" / "rank_address.hpp"
    lines = source.read_text().splitlines()
    return next(int(line.split("=")[1].strip(" ;")) for line in lines if "kVersion =" in line)


VERSION = version_in_force()


def handshake(random, size, job=bytes(8)):
    """As of rank 1 of a job of `size` ranks."""
    return HANDSHAKE.pack(MAGIC, VERSION, size, 1, 0, 0, 0, job, random.randbytes(32))


def rows(table):
    """The words of each line of a table in /proc/net, without its heading."""
    return [line.split() for line in pathlib.Path("/proc/net", table).read_text().splitlines()[1:]]


def unix_acceptors():
    """The abstract addresses of ranks, by inode."""
    found = [row for row in rows("unix") if len(row) > 7 and row[3] == "00010000" and row[7].startswith("@weft-")]
    return {row[6]: "\0" + row[7][1:] for row in found}


def tcp_acceptors():
    """The addresses and ports at which processes listen, by inode; the addresses in hexadecimal."""
    return {row[9]: row[1].split(":") for row in rows("tcp") if row[3] == "0A"}
