"""The other side of the sandbox: what runs in the processes that hold the user's function.

This file is run by its path, not imported, so that a worker does not load the rest of the package. It is one file for that
reason: whatever it shared with other files of ours, it would have to import.

Three processes stand between this package and a block, each a fork of the one before:

- The *zygote* has loaded the libraries that every function needs. It sees neither functions nor records.
- A *template* has loaded one function. It sees no records.
- A *worker* forks for every block: it is handed two descriptors and passes them on to the fork without reading them.

Records are read, and user code runs on them, in the last fork alone, so no process holds anything that a later fork could find.
Without `fork` a process is started for every block (`once`) and does the same.

The answer is written into a file in memory whose length was fixed beforehand: one byte that says what happened, `size`
floats and, for public blocks only, a reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
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
"""What a template or worker tells: loaded, not loaded (text follows), forked (its number), the fork has ended (1: too slow)."""
FORK, FRESH = b"f", b"?"
"""What is asked of a zygote or template: to fork, and whether what it has loaded is still what it would load now."""
PRIVATE, PUBLIC = b"b", b"p"
"""What is asked of a worker: to run a block. A reason for a failure leaves the process of a public one."""
MESSAGE = struct.Struct("=cI")
REASON = 400
"""Bytes kept for a reason when the block is public."""
MARK = "PELLUCID_WORKER"
"""The variable by which processes are found again whose parents are gone."""
PATIENCE = 1.0
"""Seconds in which a process may end by itself."""
SUBREAPER = 36
"""Linux: orphans below this process become its children, so that it can end them."""


class Setup(NamedTuple):
    """What a template is told: where it is, the function, the form of an answer, the limits of a block."""

    path: list[str]
    directory: str
    environment: dict[str, str]
    function: bytes
    size: int
    seconds: float
    memory: int

    @property
    def computing(self) -> int:
        """Seconds of processor time; the operating system counts whole ones."""
        return max(1, math.ceil(self.seconds))

    @property
    def clock(self) -> int:
        """Seconds on the clock: more than of computing, so that a busy machine does not decide who is too slow."""
        return 2 * self.computing

    def length(self, public: bool) -> int:
        """Bytes of an answer."""
        return 1 + 8 * self.size + (REASON if public else 0)


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


Loaded = tuple[Callable[[pd.DataFrame], Any], Callable[[Any], Any] | None]
"""A function and its adapter."""


def load(setup: Setup) -> Loaded:
    """The function and its adapter. What is raised here is about the function alone: no record was sent yet."""
    mark = os.environ[MARK]
    os.environ.clear()
    os.environ.update({**setup.environment, MARK: mark})
    with contextlib.suppress(OSError):
        os.chdir(setup.directory)
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


def limit_all(setup: Setup) -> None:
    """What a worker's forks inherit: memory above what is loaded, no core dumps, and no bytes into files."""
    if resource is None:
        return
    # A write is then refused with an error, and does not end the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    lower(resource.RLIMIT_CORE, 0, 0)
    lower(resource.RLIMIT_FSIZE, 0, 0)
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as sizes:
        room = int(sizes.read().split()[0]) * mmap.PAGESIZE + setup.memory
        lower(resource.RLIMIT_AS, room, room)


def limit_time(setup: Setup) -> None:
    """What each block has for itself."""
    if resource is not None:
        computing = setup.computing + int(time.process_time())
        lower(resource.RLIMIT_CPU, computing, computing + 1)


def lower(kind: int, soft: int, hard: int) -> None:
    """Limit a resource, unless it is limited further already."""
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


def run(setup: Setup, loaded: Loaded, public: bool, block: bytes, result: int) -> NoReturn:
    """Run the function on the block and leave its answer in the file `result`; this process ends here."""
    me = os.getpid()
    function, adapt = loaded
    buffer = mmap.mmap(result, setup.length(public))
    # Always a copy, because what was read-only in the parent arrives read-only, and functions may write into their frame.
    frame = pd.DataFrame(pickle.loads(block), copy=True)
    del block
    os.close(result)
    status, reason = FAILED, ""
    refused: list[bool] = []
    try:
        limit_time(setup)
        if public and resource is not None:
            # Errors do not always tell that a write was refused, or are hidden behind others.
            signal.signal(signal.SIGXFSZ, lambda *_: refused.append(True))
        random.seed()
        np.random.seed()
        answer = function(frame)
        answer = numbers(adapt(answer) if adapt else answer, setup.size)
        buffer[1 : 1 + 8 * setup.size] = answer.tobytes()
        status = ANSWERED
    except MemoryError:
        status = MEMORY
    except BaseException as error:
        if public:
            reason = in_words(error)
            if refused:
                reason = f"a file that it wanted to write: a block cannot write files, so keep everything in memory ({reason})"
    finally:
        # A function that forks comes back twice; only the first process may speak.
        if os.getpid() != me:
            os._exit(1)
        if public:
            start = 1 + 8 * setup.size
            text = reason.encode("utf-8", "replace")[:REASON]
            buffer[start : start + len(text)] = text
        buffer[0:1] = status
        os._exit(0)


def close_others(descriptors: list[int]) -> None:
    """Close every descriptor but these and standard input, output and error."""
    first = 3
    for descriptor in sorted(descriptors):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def forked(setup: Setup, loaded: Loaded, public: bool, descriptors: list[int]) -> NoReturn:
    """The life of a block's fork: a process group of its own, the two descriptors of its block, nothing else of the worker's."""
    try:
        os.setpgid(0, 0)
        close_others(descriptors)
        data, result = descriptors
        block = contents(data)
        os.close(data)
        run(setup, loaded, public, block, result)
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
    """Processes whose parent is this one; none where the operating system does not tell."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else []):
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


def serve(channel: socket.socket, setup: Setup, loaded: Loaded) -> None:
    """Fork for every block, until the parent closes the channel."""
    channel.sendall(MESSAGE.pack(READY, 0))
    while True:
        asked, descriptors, _, _ = socket.recv_fds(channel, 1, 2)
        if not asked:
            return
        child = os.fork()
        if child == 0:
            forked(setup, loaded, asked == PUBLIC, descriptors)
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


def adopt_orphans() -> None:
    """On Linux: what processes below this one leave behind becomes a child of this one, which can then end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


class ForkServer:
    """Forks on demand, and ends whatever a fork has left when it is gone.

    The parent talks to a fork through a channel of its own, the first of the descriptors it sends. The server holds that
    channel open too, until the fork and all it left have ended: when the parent hears the end of the channel, they have.
    """

    def __init__(self, channel: socket.socket, begin: Callable[[list[int]], None], fresh: Callable[[], bool]):
        self.channel, self.begin, self.fresh = channel, begin, fresh
        self.forks: dict[int, tuple[int, float]] = {}
        """Their channels, and when to end them."""
        self.listening = True
        adopt_orphans()
        self.bell, ring = os.pipe()
        os.set_blocking(self.bell, False)
        os.set_blocking(ring, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)

    def keep(self, wanted: Callable[[], bool]) -> None:
        """Until the parent closes the channel, or nobody wants this any more."""
        while self.listening or self.forks:
            heard = self.wait()
            if self.bell in heard:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.bell, 4096)
            if self.channel.fileno() in heard:
                self.listen()
            self.listening = self.listening and wanted()
            for pid, (own, end) in self.forks.items():
                if end == math.inf and (own in heard or not self.listening):
                    self.forks[pid] = own, time.monotonic() + PATIENCE
                elif end < time.monotonic():
                    os.kill(pid, signal.SIGKILL)
            self.reap()

    def wait(self) -> set[int]:
        """The descriptors that have news: someone asks, someone has closed a channel, a fork has ended."""
        poll = select.poll()
        poll.register(self.bell, select.POLLIN)
        if self.listening:
            poll.register(self.channel, select.POLLIN)
        first = time.monotonic() + 1.0
        for own, end in self.forks.values():
            if end == math.inf:
                # Not what is said, which is for the fork, but that nobody will say any more.
                poll.register(own, getattr(select, "POLLRDHUP", select.POLLHUP))
            first = min(first, end)
        return {descriptor for descriptor, _ in poll.poll(max(0.0, 1000 * (first - time.monotonic())))}

    def listen(self) -> None:
        try:
            asked, descriptors, _, _ = socket.recv_fds(self.channel, 1, 2)
        except OSError:
            asked, descriptors = b"", []
        if asked == FORK and descriptors:
            self.fork(descriptors)
        elif asked == FRESH and self.fresh():
            with contextlib.suppress(OSError):
                self.channel.sendall(MESSAGE.pack(READY, 0))
        else:
            self.listening = False

    def fork(self, descriptors: list[int]) -> None:
        own, *rest = descriptors
        try:
            child = os.fork()
        except OSError:
            os.close(own)
        else:
            if child == 0:
                code = 1
                try:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    close_others(descriptors)
                    self.begin(descriptors)
                    code = 0
                finally:
                    os._exit(code)
            self.forks[child] = own, math.inf
        for descriptor in rest:
            os.close(descriptor)

    def reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid in self.forks:
                    own, _ = self.forks.pop(pid)
                    if status:
                        self.end_orphans()
                    os.close(own)

    def end_orphans(self) -> None:
        """What a fork left that did not end by itself. They have no parent but this process, and their own come after them."""
        while orphans := set(children()) - self.forks.keys():
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def changes(modules: set[str]) -> dict[str, int]:
    """When the files of these modules were last written."""
    found = {}
    for name in modules:
        file = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(file, str):
            with contextlib.suppress(OSError):
                found[file] = os.stat(file).st_mtime_ns
    return found


def settle() -> None:
    """Leave what is loaded out of garbage collection, which would touch, and so copy, all of it in every fork."""
    warm_up()
    gc.collect()
    gc.freeze()


def template(channel: socket.socket, told: int) -> None:
    """The life of a template: load the function, say so, and fork workers on demand."""
    adopt_orphans()
    setup = Setup(**pickle.loads(contents(told)))
    os.close(told)
    libraries = set(sys.modules)
    # The zygote's generator would be the same in every template.
    np.random.seed()
    try:
        loaded = load(setup)
    except BaseException as error:
        text = in_words(error).encode("utf-8", "replace")[:REASON]
        channel.sendall(MESSAGE.pack(REFUSED, len(text)) + text)
        return
    settle()
    own = set(sys.modules) - libraries
    written = changes(own)
    channel.sendall(MESSAGE.pack(READY, 0))
    server = ForkServer(
        channel, lambda given: worker(socket.socket(fileno=given[0]), setup, loaded), lambda: changes(own) == written
    )
    server.keep(lambda: True)


def worker(channel: socket.socket, setup: Setup, loaded: Loaded) -> None:
    """The life of a worker: everything that its forks can inherit is done here, once, and not in every block."""
    adopt_orphans()
    limit_all(setup)
    warnings.simplefilter("ignore")
    with one_process(), contextlib.suppress(BrokenPipeError, ConnectionResetError):
        serve(channel, setup, loaded)


def zygote(channel: socket.socket) -> None:
    """The life of the zygote: fork templates on demand, until the process that started it is gone."""
    parent = os.getppid()
    with contextlib.suppress(ImportError):
        importlib.import_module("cloudpickle")
    settle()
    server = ForkServer(channel, lambda given: template(socket.socket(fileno=given[0]), given[1]), lambda: True)
    # A fork of the parent may hold the channel open for longer than the parent lives.
    server.keep(lambda: os.getppid() == parent)


def once() -> None:
    """One block, or none to try loading, from standard input to standard output, which both are files."""
    told, result, nowhere = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    asked = pickle.loads(contents(told))
    os.close(told)
    block, public = asked.pop("block"), asked.pop("public")
    setup = Setup(**asked)
    try:
        loaded = load(setup)
    except BaseException as error:
        if block is None:
            text = in_words(error).encode("utf-8", "replace")[:REASON]
            os.write(result, FAILED + text)
        return
    if block is None:
        os.write(result, ANSWERED)
        return
    limit_all(setup)
    warnings.simplefilter("ignore")
    with one_process():
        run(setup, loaded, public, block, result)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        zygote(socket.socket(fileno=int(sys.argv[1])))
    else:
        once()
    os._exit(0)
