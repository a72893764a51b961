"""Runs a user's function on blocks of records, each in a process of its own.

In a subsample-and-aggregate release one record may change the answer of one block and of no other. The noise is calibrated
to that, so it has to be true of any function: one that counts its calls, keeps a cache, draws from a global generator, breaks
its process or never ends. Every block therefore runs in a fresh fork of processes that have never seen a record:

    zygote      started, not forked, by this process, once; has loaded numpy and pandas, and sees no function either
    template    a fork of the zygote that has loaded the function; the last one is kept for another run of the same function
    worker      a fork of the template, for one run; hands blocks on unread
    block       a fork of the worker, for one block

They end with this process, however it ends. On Windows, which cannot fork, a new process is started for every block.

What a function meets there:

- Its state is as it was when it was sent: globals, default arguments, attributes and closures start anew in each block.
- `random` and `numpy.random` are seeded afresh from the operating system in each block, so blocks draw independently. A
  generator that the function brought along, or another library's, starts the same in each block.
- No descriptors but standard input, output and error, and these lead nowhere. Files can be read; no bytes can be written to them.
- Numerical libraries use one thread, and joblib stays in the process.
- `Limits.seconds` of computing, twice as many on the clock, and `Limits.memory` bytes. A block that exceeds them is ended, with
  every process it started, and answers NaN.

An answer comes back as a fixed number of floats in a file of fixed length. Nothing a block wrote is ever unpickled, and no
reason for a failure leaves its process, unless the block is public (`Isolated.trial`).

`ASSUMPTIONS` says what this cannot enforce. Less is enforced outside Linux: macOS does not limit memory, Windows has only
the limit on the clock, and on both a process that a block has detached may live on.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import operator
import os
import pickle
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pandas as pd

from pellucid import isolation_worker as worker
from pellucid.errors import PlanError
from pellucid.progress import track

ASSUMPTIONS = (
    "The function, and everything it refers to, is public: it was not made from the records.",
    "The function reads nothing about people but the rows it is given, and sends them nowhere.",
    "The function passes nothing from one block to another outside its process: by files, the network or another program.",
    "The function does not attack the machine: it leaves processes alone that it has not started.",
    "A block is too slow or too large because of its own records, not because of the load other blocks put on the machine.",
)
"""What a certificate has to list, because separate processes cannot enforce it."""

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
GRACE = 10.0
"""Seconds after the limit on the clock in which a worker has to report; then it is ended too."""
ENDING = 5.0
"""Seconds in which processes that are told to end have to be gone; those that can be killed then are."""
ATTEMPTS = 3
"""How often in a row a worker or template that was ended is started again."""
STUDY = "pellucid_study_"
BY_VALUE = ("pellucid.blocks", "pellucid.adapters", "pellucid.errors")
"""Modules of ours that functions come from. They are sent with the function, so that workers need not import the package."""

Block = pd.DataFrame | dict[str, np.ndarray]


@dataclass(frozen=True)
class Limits:
    """What one block may use."""

    seconds: float = 60.0
    """Of computing; twice as many may pass on the clock."""
    memory: int = 2 * 2**30
    """Bytes, above what the worker has loaded."""
    workers: int | None = None
    """Blocks that run at the same time; None is the number of usable cores."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise PlanError(f"seconds must be a positive number, got {self.seconds!r}; for example Limits(seconds=60).")
        if not self.memory > 0:
            raise PlanError(
                f"memory must be a positive number of bytes, got {self.memory!r}; for example Limits(memory=2 * 2**30)."
            )
        if self.workers is not None and self.workers < 1:
            raise PlanError(f"workers must be at least 1, got {self.workers!r}; leave it out to use every core.")


@dataclass(frozen=True)
class Outcomes:
    """What became of the blocks of a run: exact numbers, for the owner of the process alone; never part of a release."""

    blocks: int = 0
    answered: int = 0
    failed: int = 0
    """Raised, returned something else than the numbers, or ended its process."""
    slow: int = 0
    memory: int = 0


class _Answer(NamedTuple):
    """The end of one block: what happened, the numbers, and for a public block the reason."""

    status: bytes
    numbers: np.ndarray
    reason: str


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Isolated:
    """A function of a block of records, to be run where it can neither see nor change anything but its block.

    `function` takes a DataFrame. It returns `size` numbers, or anything that `adapt` turns into `size` numbers; `adapt`
    runs beside it, in the process of the block.

    >>> mean_age = Isolated(lambda people: people["age"].mean(), 1, Limits(workers=1))
    >>> blocks = [{"age": np.array([30.0, 40.0])}, {"age": np.array([50.0])}]
    >>> [answer.tolist() for answer in mean_age.over(blocks)]
    [[35.0], [50.0]]
    >>> mean_age.outcomes
    Outcomes(blocks=2, answered=2, failed=0, slow=0, memory=0)
    """

    def __init__(
        self,
        function: Callable[[pd.DataFrame], Any],
        size: int,
        limits: Limits | None = None,
        adapt: Callable[[Any], Any] | None = None,
    ):
        if size < 1:
            raise PlanError(f"a block must answer at least one number, got size={size!r}.")
        self.size, self.limits, self.outcomes = size, limits or Limits(), Outcomes()
        try:
            with _by_value():
                self._function = cloudpickle.dumps((function, adapt), protocol=5)
        except Exception as error:
            raise PlanError(
                f"the function cannot be sent to another process ({worker.in_words(error)}). Create what cannot be "
                "copied, such as open files, locks and connections, inside the function."
            ) from None

    def over(self, blocks: Iterable[Block], total: int | None = None) -> Iterator[np.ndarray]:
        """One float64 array of `size` numbers per block, in the order of the blocks.

        NaN everywhere for a block that raised, was too slow, took too much memory or returned nonsense. Single numbers of an
        answer may be NaN or infinite too. A block is taken from `blocks` when a worker is free for it. `total`, the number of
        blocks, is for the progress bar when `blocks` does not know its length.
        """
        total = total or operator.length_hint(blocks)
        run = self._run(blocks, total, public=False)
        with contextlib.closing(run):
            for answer in track(run, total, "running blocks") if total else run:
                yield answer.numbers

    def trial(self, blocks: Iterable[Block]) -> list[str | None]:
        """Try the function on *public* blocks: for each None when it is fine, or one sentence that says what went wrong."""
        with contextlib.closing(self._run(blocks, operator.length_hint(blocks), public=True)) as run:
            return [self._sentence(answer) for answer in run]

    def _sentence(self, answer: _Answer) -> str | None:
        limits = self.limits
        if answer.status == worker.ANSWERED:
            return None
        if answer.status == worker.SLOW:
            return f"it took more than {limits.seconds:g} s; make it faster, or allow more with Limits(seconds=...)."
        if answer.status == worker.MEMORY:
            return f"it needed more than {limits.memory / 2**20:,.0f} MiB; use less, or allow more with Limits(memory=...)."
        return f"it failed with {answer.reason.rstrip('.')}." if answer.reason else "it ended its own process."

    def _run(self, blocks: Iterable[Block], total: int, public: bool) -> Generator[_Answer, None, None]:
        setup = worker.Setup(
            path=[entry or os.getcwd() for entry in sys.path],
            directory=os.getcwd(),
            environment=_environment(),
            function=self._function,
            size=self.size,
            seconds=self.limits.seconds,
            memory=self.limits.memory,
        )
        count = self.limits.workers or cores()
        counts: Counter[bytes] = Counter()
        ended: dict[int, _Answer] = {}
        taken, told, more = 0, 0, True
        self.outcomes = Outcomes()
        crew = _Crew(setup, public, min(count, total) if total else count)
        try:
            crew.start()
            source = iter(blocks)
            while more or told < taken:
                while more and crew.free():
                    try:
                        block = next(source)
                    except StopIteration:
                        more = False
                    else:
                        crew.give(taken, block)
                        taken += 1
                ended.update(crew.ended())
                while told in ended:
                    answer = ended.pop(told)
                    told += 1
                    counts[answer.status] += 1
                    yield answer
                if told < taken or (more and not crew.free()):
                    crew.wait()
        finally:
            crew.stop()
            self.outcomes = Outcomes(
                blocks=counts.total(),
                answered=counts[worker.ANSWERED],
                failed=counts[worker.FAILED],
                slow=counts[worker.SLOW],
                memory=counts[worker.MEMORY],
            )


class _Unloadable(Exception):
    """The function cannot be loaded in a process of its own; the message says why."""


class _Crew:
    """The workers of one run."""

    def __init__(self, setup: worker.Setup, public: bool, count: int):
        self.setup, self.public, self.count, self.owner = setup, public, count, os.getpid()
        self.told = pickle.dumps(setup._asdict(), protocol=5)
        self.template: _Template | None = None
        self.workers: list[_Worker] = []
        self.stopped = False
        self.done: dict[int, _Answer] = {}

    def start(self) -> None:
        """Start the workers; raise when the function cannot be loaded."""
        # A run that is never finished ends with the interpreter, while everything it needs for that still exists.
        atexit.register(self.stop)
        try:
            if FORK:
                self.template = _kept.template(self.told)
            self.workers = [_Forked(self.setup, self.public, self.fork) if FORK else _Spawned(self.setup, self.public)]
            self.workers[0].start()
            while not self.workers[0].ready:
                self.wait()
                if problem := self.workers[0].problem:
                    raise _Unloadable(problem)
        except _Unloadable as error:
            raise PlanError(
                f"the function could not be loaded in a process of its own ({error}). Make sure that every module "
                "it uses can be imported by a new Python process, or define the function in the same file as the call."
            ) from None
        for _ in range(self.count - 1):
            self.workers.append(self.workers[0].another())

    def fork(self) -> socket.socket:
        """The channel of a new worker. A template that is gone is replaced; OSError when there is none to be had."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(OSError, _Unloadable):
                if self.template is None:
                    self.template = _kept.template(self.told)
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
            self.done[index] = _nothing(self.setup, worker.FAILED)
        else:
            one.give(index, pickle.dumps(block, protocol=5))

    def ended(self) -> dict[int, _Answer]:
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
            _kept.give_back(self.template)
            self.template = None
        atexit.unregister(self.stop)


class _Worker:
    """What a crew knows of a worker: whether it can take a block, which one it has, and the files of that block."""

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

    def another(self) -> _Worker:
        """One more like this, when this one is ready."""
        raise NotImplementedError

    def give(self, index: int, block: bytes) -> None:
        """Begin with a block."""
        raise NotImplementedError

    def hear(self) -> _Answer | None:
        """See what has happened, without waiting; the answer when the block has ended."""
        raise NotImplementedError

    def dismiss(self) -> None:
        """Say that no block will follow."""

    def end(self) -> None:
        """End the processes and close everything."""
        self.close()

    def answer(self, ended: bytes) -> _Answer:
        """What the block left in its file, when its process has ended by itself; the file is closed."""
        length, size = self.setup.length(self.public), self.setup.size
        written = worker.contents(self.files[-1], length + 1)
        self.close()
        status = written[:1] if ended == worker.ENDED and len(written) == length else ended
        if status == worker.ANSWERED:
            numbers = np.frombuffer(written, np.float64, size, offset=1).copy()
            if not np.isnan(numbers).all():
                return _Answer(status, numbers, "")
        reason = written[1 + 8 * size :].rstrip(b"\0").decode("utf-8", "replace") if self.public else ""
        return _nothing(self.setup, status if status in (worker.MEMORY, worker.SLOW) else worker.FAILED, reason)

    def forget(self) -> None:
        """Close what a fork of this process has inherited, and leave alone what it belongs to."""
        if self.channel is not None:
            self.channel.close()
        self.close()

    def close(self) -> None:
        for file in self.files:
            os.close(file)
        self.files, self.index = [], None


class _Forked(_Worker):
    """A process that forks for every block, itself a fork of the template."""

    def __init__(self, setup: worker.Setup, public: bool, fork: Callable[[], socket.socket]):
        super().__init__(setup, public)
        self.fork, self.failures = fork, 0

    def start(self) -> None:
        self.ready, self.heard, self.child = False, b"", None
        self.deadline = time.monotonic() + LOADING
        self.channel = self.fork()
        self.channel.setblocking(False)

    def another(self) -> _Forked:
        one = _Forked(self.setup, self.public, self.fork)
        one.restart()
        return one

    def give(self, index: int, block: bytes) -> None:
        assert self.channel is not None
        self.index, self.files = (index, [_file(block), _file(length=self.setup.length(self.public))])
        self.deadline = time.monotonic() + self.setup.clock + GRACE
        # A worker that is gone is noticed when it is heard next.
        with contextlib.suppress(OSError):
            socket.send_fds(self.channel, [worker.PUBLIC if self.public else worker.PRIVATE], self.files)

    def hear(self) -> _Answer | None:
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

    def lost(self, ended: bytes) -> _Answer | None:
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
            _close(self.channel)
            self.channel = None
            if self.child is not None and sys.platform != "linux":
                with contextlib.suppress(OSError):
                    os.killpg(self.child, signal.SIGKILL)


class _Spawned(_Worker):
    """A new process for every block, where processes cannot be forked."""

    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.begin(None, 1 + worker.REASON, LOADING)

    def another(self) -> _Spawned:
        one = _Spawned(self.setup, self.public)
        one.ready = True
        return one

    def begin(self, block: bytes | None, length: int, seconds: float) -> None:
        asked = {**self.setup._asdict(), "block": block, "public": self.public}
        self.mark, self.deadline = _mark(), time.monotonic() + seconds
        self.files = [_file(pickle.dumps(asked, protocol=5)), _file(length=length)]
        self.process = _started(self.mark, [], *self.files)

    def give(self, index: int, block: bytes) -> None:
        self.begin(block, self.setup.length(self.public), self.setup.clock + GRACE)
        self.index = index

    def hear(self) -> _Answer | None:
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
            _end_marked(self.mark, self.process.pid)
            self.process = None


class _Nursery:
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


class _Zygote(_Nursery):
    """A process that has loaded the libraries every function needs, and forks templates."""

    def __init__(self) -> None:
        self.mark = _mark()
        self.channel, theirs = socket.socketpair()
        try:
            with theirs:
                self.process = _started(self.mark, [theirs.fileno()], subprocess.DEVNULL, subprocess.DEVNULL)
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
        _end_marked(self.mark, self.process.pid)

    def forget(self) -> None:
        """In a fork of this process, whose child it is not."""
        self.channel.close()
        self.process.returncode = 0


class _Template(_Nursery):
    """A process that has loaded the function, and forks workers."""

    def __init__(self, zygote: _Zygote, told: bytes):
        self.told = told
        file = _file(told)
        try:
            self.channel = zygote.fork(file)
        finally:
            os.close(file)

    def end(self) -> None:
        _close(self.channel)


class _Kept:
    """What is kept between runs: the zygote, and the template of the last run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.zygote: _Zygote | None = None
        self.last: _Template | None = None

    def template(self, told: bytes) -> _Template:
        """A template for this setup, which belongs to the caller until it is given back. OSError, or _Unloadable."""
        with self.lock:
            last, self.last = self.last, None
        if last is not None:
            if last.told == told and last.fresh():
                return last
            last.end()
        for _ in range(ATTEMPTS):
            with contextlib.suppress(BrokenPipeError):
                zygote = self.living()
                template = _Template(zygote, told)
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
                    raise _Unloadable(problem)
        raise _Unloadable("its processes end at once")

    def living(self) -> _Zygote:
        """The zygote, or another if it is gone."""
        with self.lock:
            if self.zygote is not None and not self.zygote.fresh():
                self.zygote.end()
                self.zygote = None
            if self.zygote is None:
                self.zygote = _Zygote()
            return self.zygote

    def give_back(self, template: _Template) -> None:
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


_kept = _Kept()
atexit.register(_kept.close)
if FORK:
    os.register_at_fork(after_in_child=_kept.forget)


def _close(channel: socket.socket) -> None:
    """Let a fork end, and come back when it has, and everything it left with it."""
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_WR)
        channel.settimeout(ENDING)
        while channel.recv(4096):
            pass
    channel.close()


@contextlib.contextmanager
def _by_value() -> Iterator[None]:
    """While this lasts, what comes from our own modules is pickled whole."""
    with _pickling:
        known = cloudpickle.list_registry_pickle_by_value()
        # Files named in a study are modules of this process alone: no other could import them.
        names = [name for name in sys.modules if name in BY_VALUE or name.startswith(STUDY)]
        ours = [sys.modules[name] for name in names if name not in known]
        for module in ours:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in ours:
                cloudpickle.unregister_pickle_by_value(module)


_pickling = threading.RLock()


def _mark() -> str:
    """A word by which a process and all below it can be found again."""
    return f"{os.getpid()}-{secrets.token_hex(16)}"


def _environment() -> dict[str, str]:
    """The environment of this process, with one thread for numerical libraries."""
    return {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONHASHSEED": "0"}


def _nothing(setup: worker.Setup, status: bytes, reason: str = "") -> _Answer:
    return _Answer(status, np.full(setup.size, np.nan), reason)


def _file(content: bytes = b"", length: int = 0) -> int:
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


def _started(mark: str, descriptors: list[int], stdin: int, stdout: int) -> subprocess.Popen[bytes]:
    """A new Python process for the worker's side: silent, in its own session, with one thread, and marked to be found again."""
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", PROGRAM, *map(str, descriptors)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**_environment(), worker.MARK: mark},
        pass_fds=descriptors,
        start_new_session=True,
    )


def _end_marked(mark: str, child: int | None) -> None:
    """End what a lost worker has left: the group of its block, and on Linux every process that carries its mark."""
    if child is not None and hasattr(os, "killpg"):
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
    wanted, end = f"{worker.MARK}={mark}".encode(), time.monotonic() + ENDING
    while (found := _marked(wanted)) and time.monotonic() < end:
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _marked(wanted: bytes) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environment:
                if wanted in environment.read():
                    found.append(int(name))
    return found
