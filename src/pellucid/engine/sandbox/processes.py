"""Processes for user code, from the outside: started with one thread, found again by a mark, and ended."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time

from . import worker

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)
FORK = hasattr(os, "fork")
PROGRAM = worker.__file__
LOADING = 120.0
"""Seconds a process may take to load the function."""
ENDING = 5.0
"""Seconds in which processes that are told to end have to be gone; those that can be killed then are."""
ATTEMPTS = 3
"""How often in a row a worker or template that was ended is started again."""


def new_mark() -> str:
    """A word by which a process and all below it can be found again."""
    return f"{os.getpid()}-{secrets.token_hex(16)}"


def environment() -> dict[str, str]:
    """The environment of this process, with one thread for numerical libraries."""
    return {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONHASHSEED": "0"}


def new_file(content: bytes = b"", length: int = 0) -> int:
    """A file without a name, in memory where the operating system has such files."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("block")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, length)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    if content:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def start_program(mark: str, descriptors: list[int], stdin: int, stdout: int) -> subprocess.Popen[bytes]:
    """A new Python process for the worker's side: silent, in its own session, with one thread, and marked to be found again."""
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", PROGRAM, *map(str, descriptors)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**environment(), worker.MARK: mark},
        pass_fds=descriptors,
        start_new_session=True,
    )


def end_marked(mark: str, child: int | None) -> None:
    """End what a lost worker has left: the group of its block, and on Linux every process that carries its mark."""
    if child is not None and hasattr(os, "killpg"):
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
    wanted, end = f"{worker.MARK}={mark}".encode(), time.monotonic() + ENDING
    while (found := marked(wanted)) and time.monotonic() < end:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def marked(wanted: bytes) -> list[int]:
    """Living processes that carry a mark; none where the operating system does not tell."""
    found = []
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as variables:
                if wanted in variables.read():
                    found.append(int(name))
    return found


def close_fork(channel: socket.socket) -> None:
    """Let a fork end, and come back when it has, and everything it left with it."""
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_WR)
        channel.settimeout(ENDING)
        while channel.recv(4096):
            pass
    channel.close()
