"""The workers of one run: who is free, which blocks have ended, and the end of them all."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import selectors
import socket
import time

import numpy as np
import pandas as pd

from ...errors import PlanError
from . import worker
from .backends import Answer, ForkWorker, SpawnWorker, Worker, nothing
from .processes import ATTEMPTS, FORK
from .zygote import Template, Unloadable, kept

Block = pd.DataFrame | dict[str, np.ndarray]


class Pool:
    """The workers of one run."""

    def __init__(self, setup: worker.Setup, public: bool, count: int):
        self.setup, self.public, self.count, self.owner = setup, public, count, os.getpid()
        self.told = pickle.dumps(setup._asdict(), protocol=5)
        self.template: Template | None = None
        self.workers: list[Worker] = []
        self.stopped = False
        self.done: dict[int, Answer] = {}

    def start(self) -> None:
        """Start the workers; raise when the function cannot be loaded."""
        # A run that is never finished ends with the interpreter, while everything it needs for that still exists.
        atexit.register(self.stop)
        try:
            if FORK:
                self.template = kept.template(self.told)
            self.workers = [ForkWorker(self.setup, self.public, self.fork) if FORK else SpawnWorker(self.setup, self.public)]
            self.workers[0].start()
            while not self.workers[0].ready:
                self.wait()
                if problem := self.workers[0].problem:
                    raise Unloadable(problem)
        except Unloadable as error:
            raise PlanError(
                f"the function could not be loaded in a process of its own ({error}). Make sure that every module "
                "it uses can be imported by a new Python process, or define the function in the same file as the call."
            ) from None
        for _ in range(self.count - 1):
            self.workers.append(self.workers[0].another())

    def fork(self) -> socket.socket:
        """The channel of a new worker. A template that is gone is replaced; OSError when there is none to be had."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(OSError, Unloadable):
                if self.template is None:
                    self.template = kept.template(self.told)
                return self.template.fork()
            if self.template is not None:
                self.template.end()
                self.template = None
        raise OSError("no worker can be started")

    def check(self) -> None:
        """May this go on?"""
        if os.getpid() != self.owner:
            raise PlanError("a run cannot be continued in a fork of the process that began it; begin it there.")
        if self.stopped:
            # The interpreter is about to end and this is a daemon thread: it goes without a word and without answers.
            raise SystemExit

    def free(self) -> bool:
        """Can a block be given? Also when no worker is left: it then fails at once."""
        self.check()
        return any(one.free for one in self.workers) or all(one.broken for one in self.workers)

    def give(self, index: int, block: Block) -> None:
        """Let a free worker run this block."""
        one = next((one for one in self.workers if one.free), None)
        if one is None:
            self.done[index] = nothing(self.setup, worker.FAILED)
        else:
            one.give(index, pickle.dumps(block, protocol=5))

    def ended(self) -> dict[int, Answer]:
        """The blocks that ended since this was last asked."""
        done, self.done = self.done, {}
        return done

    def wait(self) -> None:
        """Wait a moment for news, unless there are some."""
        self.check()
        if self.done:
            return
        channels = [one.channel for one in self.workers if one.channel is not None]
        if channels:
            with selectors.DefaultSelector() as selector:
                for channel in channels:
                    selector.register(channel, selectors.EVENT_READ)
                selector.select(0.5)
        else:
            time.sleep(0.005)
        for one in self.workers:
            index = one.index
            if (answer := one.hear()) is not None and index is not None:
                self.done[index] = answer

    def stop(self) -> None:
        """End every process of the run, and wait until they have ended. A fork of the owner leaves them alone."""
        if os.getpid() != self.owner:
            for one in self.workers:
                one.forget()
            if self.template is not None:
                self.template.channel.close()
            return
        workers, self.workers, self.stopped = self.workers, [], True
        for one in workers:
            one.dismiss()
        for one in workers:
            one.end()
        if self.template is not None:
            kept.give_back(self.template)
            self.template = None
        atexit.unregister(self.stop)
