"""The other side of `isolation`: what runs in the processes that hold the user's function.

This file is run by its path, not imported, so that a worker does not load the rest of the package.

A *template* loads the function and then only forks: it is handed two descriptors for a block and passes them on to the fork
without reading them. Records are read, and user code runs on them, in the fork alone, so the template never holds anything
that a later fork could find. Without `fork` a process is started for every block (`once`) and does the same.

The answer is written into a file in memory whose length was fixed beforehand: one byte that says what happened, `size`
floats and, for public blocks only, a reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import mmap
import os
import pickle
import random
import select
import signal
import socket
import struct
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

ANSWERED, FAILED, MEMORY, SLOW = b"A", b"F", b"M", b"S"
"""What happened to a block; zero, the byte the file starts with, means that the process ended without a word."""
READY, REFUSED, STARTED, ENDED = b"r", b"x", b"s", b"e"
"""What a template tells: loaded, not loaded (text follows), forked (its number), the fork has ended (1: too slow)."""
MESSAGE = struct.Struct("=cI")
REASON = 400
"""Bytes kept for a reason when the block is public."""
SUBREAPER = 36
"""Linux: orphans below this process become its children, so that it can end them."""


class Setup(NamedTuple):
    """What a worker is told before any block: where to import from, the function, the limits, whether blocks are public."""

    path: list[str]
    function: bytes
    size: int
    seconds: float
    memory: int
    public: bool

    @property
    def computing(self) -> int:
        """Seconds of processor time; the operating system counts whole ones."""
        return max(1, math.ceil(self.seconds))

    @property
    def clock(self) -> int:
        """Seconds on the clock: more than of computing, so that a busy machine does not decide who is too slow."""
        return 2 * self.computing

    @property
    def length(self) -> int:
        """Bytes of an answer."""
        return 1 + 8 * self.size + (REASON if self.public else 0)


def contents(descriptor: int, most: int | None = None) -> bytes:
    """The bytes of a file, at most so many, whatever position others that share the descriptor have left it at."""
    length = os.fstat(descriptor).st_size if most is None else most
    if not hasattr(os, "pread"):
        os.lseek(descriptor, 0, os.SEEK_SET)
        return os.read(descriptor, length)
    parts, at = [], 0
    while at < length and (part := os.pread(descriptor, length - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def shared_memory() -> set[str]:
    """The memory this process would share with its forks; empty where the operating system does not tell."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            return {line.split()[0] for line in lines if line.split()[1].startswith("rw") and line.split()[1].endswith("s")}
    except OSError:
        return set()


def load(setup: Setup) -> tuple[Callable[[pd.DataFrame], Any], Callable[[Any], Any] | None]:
    """The function and its adapter. What is raised here is about the function alone: no record was sent yet."""
    sys.path[:] = setup.path
    before = shared_memory()
    function, adapt = pickle.loads(setup.function)
    if shared_memory() - before:
        raise RuntimeError("it creates memory that processes share, through which one block could see another")
    return function, adapt


def in_words(error: BaseException) -> str:
    """The kind of an error and its message, on one line."""
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def warm_up() -> None:
    """Do on made-up records what every block will do first: libraries then load their parts once, not once in every fork."""
    columns = {"number": np.arange(3.0), "whole": np.arange(3), "text": np.array(["a", "b", "a"], dtype=object)}
    frame = pd.DataFrame(pickle.loads(pickle.dumps(columns, protocol=5)), copy=True)
    numbers([frame["number"].mean(), frame["whole"].iloc[0], (frame["text"] == "a").mean()], 3)
    with one_process():
        frame.groupby("text")["number"].mean()


def limit(setup: Setup) -> None:
    """Processor time, memory above what is loaded, no core dumps, and no bytes into files."""
    if resource is None:
        return
    wanted = [(resource.RLIMIT_CORE, 0, 0), (resource.RLIMIT_FSIZE, 0, 0)]
    computing = setup.computing + int(time.process_time())
    wanted.append((resource.RLIMIT_CPU, computing, computing + 1))
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as sizes:
        room = int(sizes.read().split()[0]) * mmap.PAGESIZE + setup.memory
        wanted.append((resource.RLIMIT_AS, room, room))
    for kind, soft, hard in wanted:
        highest = resource.getrlimit(kind)[1]
        if highest != resource.RLIM_INFINITY:
            soft, hard = min(soft, highest), min(hard, highest)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (soft, hard))


def one_process() -> contextlib.AbstractContextManager[Any]:
    """Libraries that spread work over processes through joblib stay in this one."""
    if "joblib" not in sys.modules:
        return contextlib.nullcontext()
    return sys.modules["joblib"].parallel_config(backend="sequential")


def numbers(answer: Any, size: int) -> np.ndarray:
    """The answer as `size` floats, or an error that says what it was instead."""
    wanted = f"expected {size} numbers" if size > 1 else "expected one number"
    array = np.asarray(answer)
    if np.iscomplexobj(array) or array.dtype.kind in "mM":
        raise TypeError(f"{wanted}, got {array.dtype} values")
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{wanted}, got {type(answer).__name__}") from None
    if array.size != size or np.squeeze(array).ndim > 1:
        raise ValueError(f"{wanted}, got an answer of shape {array.shape}")
    if np.isnan(array).all():
        raise ValueError("the answer is NaN everywhere")
    return array.reshape(size)


def run(setup: Setup, function: Callable, adapt: Callable | None, block: bytes, result: int) -> NoReturn:
    """Run the function on the block and leave its answer in the file `result`; this process ends here."""
    me = os.getpid()
    buffer = mmap.mmap(result, setup.length)
    # Always a copy, because what was read-only in the parent arrives read-only, and functions may write into their frame.
    frame = pd.DataFrame(pickle.loads(block), copy=True)
    del block
    os.close(result)
    status, reason = FAILED, ""
    try:
        limit(setup)
        random.seed()
        np.random.seed()
        warnings.simplefilter("ignore")
        with one_process():
            answer = function(frame)
            answer = numbers(adapt(answer) if adapt else answer, setup.size)
        buffer[1 : 1 + 8 * setup.size] = answer.tobytes()
        status = ANSWERED
    except MemoryError:
        status = MEMORY
    except BaseException as error:
        if setup.public:
            reason = in_words(error)
    finally:
        # A function that forks comes back twice; only the first process may speak.
        if os.getpid() != me:
            os._exit(1)
        if setup.public:
            start = 1 + 8 * setup.size
            text = reason.encode("utf-8", "replace")[:REASON]
            buffer[start : start + len(text)] = text
        buffer[0:1] = status
        os._exit(0)


def forked(setup: Setup, function: Callable, adapt: Callable | None, descriptors: list[int]) -> NoReturn:
    """The life of a fork: a process group of its own, the two descriptors of its block, nothing else of the template's."""
    try:
        os.setpgid(0, 0)
        first = 3
        for descriptor in sorted(descriptors):
            os.closerange(first, descriptor)
            first = descriptor + 1
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))
        data, result = descriptors
        block = contents(data)
        os.close(data)
        run(setup, function, adapt, block, result)
    finally:
        os._exit(1)


def end_all(child: int) -> None:
    """End whatever a block left running: its process group, and on Linux also what moved out of it."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(OSError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            for pid in children():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)


def children() -> list[int]:
    """Processes whose parent is this one."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as status:
            # The name of a program may hold anything, a bracket too: the fields start after the last one.
            if int(status.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


def watch(child: int, channel: socket.socket, setup: Setup) -> bool:
    """Wait for the end of a fork. Was it too slow? Ends it when its time is up or when nobody listens any more."""
    deadline = time.monotonic() + setup.clock
    try:
        sign: int | None = os.pidfd_open(child)
    except (AttributeError, OSError):
        sign = None
    listened: list[Any] = [channel] if sign is None else [channel, sign]
    try:
        while True:
            pid, status, used = os.wait4(child, os.WNOHANG)
            if pid:
                over = used.ru_utime + used.ru_stime >= setup.computing
                return over or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
            left = deadline - time.monotonic()
            pause = min(left, 1.0) if sign is not None else min(left, 0.005)
            heard = select.select(listened, [], [], max(0.0, pause))[0]
            if left <= 0 or channel in heard:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return True
    finally:
        if sign is not None:
            os.close(sign)


def serve(channel: socket.socket, setup: Setup, function: Callable, adapt: Callable | None) -> None:
    """Fork for every block, until the parent closes the channel or is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        if not select.select([channel], [], [], 1.0)[0]:
            continue
        asked, descriptors, _, _ = socket.recv_fds(channel, 1, 2)
        if not asked:
            return
        child = os.fork()
        if child == 0:
            forked(setup, function, adapt, descriptors)
        try:
            for descriptor in descriptors:
                os.close(descriptor)
            # The fork does the same: whichever comes first, nobody finds it outside a group of its own.
            with contextlib.suppress(OSError):
                os.setpgid(child, child)
            channel.sendall(MESSAGE.pack(STARTED, child))
            slow = watch(child, channel, setup)
        finally:
            end_all(child)
        channel.sendall(MESSAGE.pack(ENDED, slow))


def template(channel: socket.socket, told: int) -> None:
    """Load the function, say so, and fork on demand."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    setup = Setup(**pickle.loads(contents(told)))
    os.close(told)
    try:
        function, adapt = load(setup)
    except BaseException as error:
        text = in_words(error).encode("utf-8", "replace")[:REASON]
        channel.sendall(MESSAGE.pack(REFUSED, len(text)) + text)
        return
    warm_up()
    # What is loaded is left out of garbage collection, which would touch, and so copy, all of it in every fork.
    gc.freeze()
    channel.sendall(MESSAGE.pack(READY, 0))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        serve(channel, setup, function, adapt)


def once() -> None:
    """One block, or none to try loading, from standard input to standard output, which both are files."""
    told, result, nowhere = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    asked = pickle.loads(contents(told))
    os.close(told)
    block = asked.pop("block")
    setup = Setup(**asked)
    try:
        function, adapt = load(setup)
    except BaseException as error:
        if block is None:
            text = in_words(error).encode("utf-8", "replace")[:REASON]
            os.write(result, FAILED + text)
        return
    if block is None:
        os.write(result, ANSWERED)
        return
    run(setup, function, adapt, block, result)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        template(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    else:
        once()
    os._exit(0)
