"""The two ways to give every block a process of its own, seen from this side: forks of a worker, or new processes."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import worker
from .processes import ATTEMPTS, LOADING, close_fork, end_marked, new_file, new_mark, start_program

GRACE = 10.0
"""Seconds after the limit on the clock in which a worker has to report; then it is ended too."""


class Answer(NamedTuple):
    """The end of one block: what happened, the numbers, and for a public block the reason."""

    status: bytes
    numbers: np.ndarray
    reason: str


def nothing(setup: worker.Setup, status: bytes, reason: str = "") -> Answer:
    return Answer(status, np.full(setup.size, np.nan), reason)


class Worker:
    """What a pool knows of a worker: whether it can take a block, which one it has, and the files of that block."""

    channel: socket.socket | None = None

    def __init__(self, setup: worker.Setup, public: bool):
        self.setup, self.public = setup, public
        self.ready = self.broken = False
        self.problem = ""
        self.index: int | None = None
        self.files: list[int] = []
        self.deadline = math.inf

    @property
    def free(self) -> bool:
        return self.ready and self.index is None

    def start(self) -> None:
        """Start a process."""
        raise NotImplementedError

    def another(self) -> Worker:
        """One more like this, when this one is ready."""
        raise NotImplementedError

    def give(self, index: int, block: bytes) -> None:
        """Begin with a block."""
        raise NotImplementedError

    def hear(self) -> Answer | None:
        """See what has happened, without waiting; the answer when the block has ended."""
        raise NotImplementedError

    def dismiss(self) -> None:
        """Say that no block will follow."""

    def end(self) -> None:
        """End the processes and close everything."""
        self.close()

    def answer(self, ended: bytes) -> Answer:
        """What the block left in its file, when its process has ended by itself; the file is closed."""
        length, size = self.setup.length(self.public), self.setup.size
        written = worker.contents(self.files[-1], length + 1)
        self.close()
        status = written[:1] if ended == worker.ENDED and len(written) == length else ended
        if status == worker.ANSWERED:
            numbers = np.frombuffer(written, np.float64, size, offset=1).copy()
            if not np.isnan(numbers).all():
                return Answer(status, numbers, "")
        reason = written[1 + 8 * size :].rstrip(b"\0").decode("utf-8", "replace") if self.public else ""
        return nothing(self.setup, status if status in (worker.MEMORY, worker.SLOW) else worker.FAILED, reason)

    def forget(self) -> None:
        """Close what a fork of this process has inherited, and leave alone what it belongs to."""
        if self.channel is not None:
            self.channel.close()
        self.close()

    def close(self) -> None:
        for file in self.files:
            os.close(file)
        self.files, self.index = [], None


class ForkWorker(Worker):
    """A process that forks for every block, itself a fork of the template."""

    def __init__(self, setup: worker.Setup, public: bool, fork: Callable[[], socket.socket]):
        super().__init__(setup, public)
        self.fork, self.failures = fork, 0

    def start(self) -> None:
        self.ready, self.heard, self.child = False, b"", None
        self.deadline = time.monotonic() + LOADING
        self.channel = self.fork()
        self.channel.setblocking(False)

    def another(self) -> ForkWorker:
        one = ForkWorker(self.setup, self.public, self.fork)
        one.restart()
        return one

    def give(self, index: int, block: bytes) -> None:
        assert self.channel is not None
        self.index, self.files = (index, [new_file(block), new_file(length=self.setup.length(self.public))])
        self.deadline = time.monotonic() + self.setup.clock + GRACE
        # A worker that is gone is noticed when it is heard next.
        with contextlib.suppress(OSError):
            socket.send_fds(self.channel, [worker.PUBLIC if self.public else worker.PRIVATE], self.files)

    def hear(self) -> Answer | None:
        if self.channel is None:
            return None
        try:
            part = self.channel.recv(4096)
        except BlockingIOError:
            return None if time.monotonic() < self.deadline else self.lost(worker.SLOW)
        except OSError:
            part = b""
        if not part:
            return self.lost(worker.FAILED)
        self.heard += part
        while len(self.heard) >= worker.MESSAGE.size:
            kind, value = worker.MESSAGE.unpack_from(self.heard)
            self.heard = self.heard[worker.MESSAGE.size :]
            if kind == worker.READY and not self.ready:
                self.ready, self.deadline, self.failures = True, math.inf, 0
            elif kind == worker.STARTED and self.index is not None:
                self.child = value
            elif kind == worker.ENDED and self.index is not None:
                self.deadline, self.child = math.inf, None
                return self.answer(worker.SLOW if value else worker.ENDED)
            else:
                return self.lost(worker.FAILED)
        return None

    def lost(self, ended: bytes) -> Answer | None:
        """The worker is gone, or has to go: the block it had fails, and another takes its place."""
        self.failures += not self.ready
        self.kill()
        answer = self.answer(ended) if self.index is not None else None
        self.restart()
        return answer

    def restart(self) -> None:
        self.broken = self.failures > ATTEMPTS
        if not self.broken:
            try:
                self.start()
            except OSError:
                self.broken = True
        if self.broken:
            self.problem = "its processes end at once"

    def dismiss(self) -> None:
        if self.channel is not None:
            with contextlib.suppress(OSError):
                self.channel.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        self.kill()
        self.close()

    def kill(self) -> None:
        """End the worker and what its fork has left."""
        self.ready = False
        if self.channel is not None:
            close_fork(self.channel)
            self.channel = None
            if self.child is not None and sys.platform != "linux":
                with contextlib.suppress(OSError):
                    os.killpg(self.child, signal.SIGKILL)


class SpawnWorker(Worker):
    """A new process for every block, where processes cannot be forked."""

    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.begin(None, 1 + worker.REASON, LOADING)

    def another(self) -> SpawnWorker:
        one = SpawnWorker(self.setup, self.public)
        one.ready = True
        return one

    def begin(self, block: bytes | None, length: int, seconds: float) -> None:
        asked = {**self.setup._asdict(), "block": block, "public": self.public}
        self.mark, self.deadline = new_mark(), time.monotonic() + seconds
        self.files = [new_file(pickle.dumps(asked, protocol=5)), new_file(length=length)]
        self.process = start_program(self.mark, [], *self.files)

    def give(self, index: int, block: bytes) -> None:
        self.begin(block, self.setup.length(self.public), self.setup.clock + GRACE)
        self.index = index

    def hear(self) -> Answer | None:
        if self.process is None:
            return None
        if (code := self.process.poll()) is None and time.monotonic() < self.deadline:
            return None
        self.kill()
        if self.ready:
            slow = code is None or code == -getattr(signal, "SIGXCPU", 0)
            return self.answer(worker.SLOW if slow else worker.ENDED)
        said = worker.contents(self.files[-1], 1 + worker.REASON)
        self.close()
        self.ready = said[:1] == worker.ANSWERED
        if not self.ready:
            self.problem = said[1:].rstrip(b"\0").decode("utf-8", "replace") or "its process ended while loading"
        return None

    def end(self) -> None:
        self.kill()
        self.close()

    def forget(self) -> None:
        if self.process is not None:
            self.process.returncode = 0
        super().forget()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            end_marked(self.mark, self.process.pid)
            self.process = None
