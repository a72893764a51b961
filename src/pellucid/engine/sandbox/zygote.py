"""The processes that stay between runs, seen from this side: the zygote, and the template of the last function."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import threading
import time

from . import worker
from .processes import ATTEMPTS, ENDING, FORK, LOADING, close_fork, end_marked, new_file, new_mark, start_program


class Unloadable(Exception):
    """The function cannot be loaded in a process of its own; the message says why."""


class ForkServerProxy:
    """This side of a process that forks on demand."""

    channel: socket.socket

    def fork(self, *descriptors: int) -> socket.socket:
        """The channel of a new fork, which gets these descriptors too. OSError when the process is gone."""
        mine, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self.channel, [worker.FORK], [theirs.fileno(), *descriptors])
        except BaseException:
            mine.close()
            raise
        return mine

    def problem(self) -> str:
        """Wait until everything is loaded; why it could not be, or nothing."""
        end, said = time.monotonic() + LOADING, b""
        while len(said) < (size := worker.MESSAGE.size) or said[:1] == worker.REFUSED:
            left = end - time.monotonic()
            self.channel.settimeout(max(0.001, left))
            try:
                part = self.channel.recv(4096) if left > 0 else b""
            except OSError:
                part = b""
            if not part:
                break
            said += part
        if said[:1] == worker.READY:
            return ""
        if said[:1] == worker.REFUSED:
            return said[size:].decode("utf-8", "replace")
        return "it took too long to load" if time.monotonic() >= end else "its process ended while loading"

    def fresh(self) -> bool:
        """Is it alive, and are the files that it has loaded still the same?"""
        with contextlib.suppress(OSError):
            self.channel.sendall(worker.FRESH)
            return not self.problem()
        return False


class Zygote(ForkServerProxy):
    """A process that has loaded the libraries every function needs, and forks templates."""

    def __init__(self) -> None:
        self.mark = new_mark()
        self.channel, theirs = socket.socketpair()
        try:
            with theirs:
                self.process = start_program(self.mark, [theirs.fileno()], subprocess.DEVNULL, subprocess.DEVNULL)
        except BaseException:
            self.channel.close()
            raise

    def end(self) -> None:
        """It ends by itself, and before that everything below it, once the channel is closed."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.process.wait(ENDING) == 0:
                return
        self.process.kill()
        self.process.wait()
        end_marked(self.mark, self.process.pid)

    def forget(self) -> None:
        """In a fork of this process, whose child it is not."""
        self.channel.close()
        self.process.returncode = 0


class Template(ForkServerProxy):
    """A process that has loaded the function, and forks workers."""

    def __init__(self, zygote: Zygote, told: bytes):
        self.told = told
        file = new_file(told)
        try:
            self.channel = zygote.fork(file)
        finally:
            os.close(file)

    def end(self) -> None:
        close_fork(self.channel)


class Kept:
    """What is kept between runs: the zygote, and the template of the last run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.zygote: Zygote | None = None
        self.last: Template | None = None

    def template(self, told: bytes) -> Template:
        """A template for this setup, which belongs to the caller until it is given back. OSError, or Unloadable."""
        with self.lock:
            last, self.last = self.last, None
        if last is not None:
            if last.told == told and last.fresh():
                return last
            last.end()
        for _ in range(ATTEMPTS):
            with contextlib.suppress(BrokenPipeError):
                zygote = self.living()
                template = Template(zygote, told)
                problem = "it was interrupted"
                try:
                    problem = template.problem()
                finally:
                    if problem:
                        template.end()
                if not problem:
                    return template
                # When the zygote is gone too, that says nothing about the function.
                if zygote is self.living():
                    raise Unloadable(problem)
        raise Unloadable("its processes end at once")

    def living(self) -> Zygote:
        """The zygote, or another if it is gone."""
        with self.lock:
            if self.zygote is not None and not self.zygote.fresh():
                self.zygote.end()
                self.zygote = None
            if self.zygote is None:
                self.zygote = Zygote()
            return self.zygote

    def give_back(self, template: Template) -> None:
        """Keep this one; the one kept so far ends."""
        with self.lock:
            last, self.last = self.last, template
        if last is not None:
            last.end()

    def close(self) -> None:
        """End everything that is kept, and wait for it."""
        with self.lock:
            zygote, last, self.zygote, self.last = self.zygote, self.last, None, None
        if last is not None:
            last.end()
        if zygote is not None:
            zygote.end()

    def forget(self) -> None:
        """In a fork of this process: what is kept belongs to the process it was forked from."""
        if self.last is not None:
            self.last.channel.close()
        if self.zygote is not None:
            self.zygote.forget()
        self.__init__()  # type: ignore[misc]


kept = Kept()
atexit.register(kept.close)
if FORK:
    os.register_at_fork(after_in_child=kept.forget)
