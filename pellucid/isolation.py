"""Runs a user's function on blocks of records, each in a process of its own.

In a subsample-and-aggregate release one record may change the answer of one block and of no other. The noise is calibrated
to that, so it has to be true of any function: one that counts its calls, keeps a cache, draws from a global generator, breaks
its process or never ends. Every block therefore runs in a fresh fork of a template: a process that was started, not forked, by
this one, that has loaded the function and has never seen a record. On Windows, which cannot fork, a new process is started for
every block.

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
LOADING = 120.0
"""Seconds a worker may take to load the function."""
GRACE = 10.0
"""Seconds after the limit on the clock in which a template has to report; then it is ended too."""
ATTEMPTS = 3
"""How often in a row a template that was ended is started again."""
MARK = "PELLUCID_WORKER"

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
            function=self._function,
            size=self.size,
            seconds=self.limits.seconds,
            memory=self.limits.memory,
            public=public,
        )
        count = self.limits.workers or cores()
        counts: Counter[bytes] = Counter()
        ended: dict[int, _Answer] = {}
        taken, told, more = 0, 0, True
        self.outcomes = Outcomes()
        crew = _Crew(setup, min(count, total) if total else count)
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


class _Crew:
    """The workers of one run."""

    def __init__(self, setup: worker.Setup, count: int):
        self.setup, self.count, self.owner = setup, count, os.getpid()
        self.workers: list[_Worker] = []
        self.told: int | None = None
        self.done: dict[int, _Answer] = {}

    def start(self) -> None:
        """Start the workers and come back when the first has loaded the function; raise when it cannot be loaded."""
        # A run that is never finished ends with the interpreter, while everything it needs for that still exists.
        atexit.register(self.stop)
        self.told = _file(pickle.dumps(self.setup._asdict(), protocol=5))
        for _ in range(self.count):
            self.workers.append(_Template(self.setup, self.told) if FORK else _Spawned(self.setup))
            self.workers[-1].start()
        while not any(one.ready for one in self.workers):
            self.wait()
            if problem := next((one.problem for one in self.workers if one.problem), None):
                raise PlanError(
                    f"the function could not be loaded in a process of its own ({problem}). Make sure that every module "
                    "it uses can be imported by a new Python process, or define the function in the same file as the call."
                )

    def free(self) -> bool:
        """Can a block be given? Also when no worker is left: it then fails at once."""
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
            return
        workers, self.workers = self.workers, []
        for one in workers:
            one.dismiss()
        for one in workers:
            one.end()
        if self.told is not None:
            os.close(self.told)
            self.told = None
        atexit.unregister(self.stop)


class _Worker:
    """What a crew knows of a worker: whether it can take a block, which one it has, and the files of that block."""

    channel: socket.socket | None = None
    process: subprocess.Popen[bytes] | None = None

    def __init__(self, setup: worker.Setup):
        self.setup = setup
        self.ready = self.broken = False
        self.problem = ""
        self.index: int | None = None
        self.files: list[int] = []
        self.deadline = math.inf

    @property
    def free(self) -> bool:
        return self.ready and self.index is None

    def start(self) -> None:
        """Start the process that loads the function."""
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
        length, size = self.setup.length, self.setup.size
        written = worker.contents(self.files[-1], length + 1)
        self.close()
        status = written[:1] if ended == worker.ENDED and len(written) == length else ended
        if status == worker.ANSWERED:
            numbers = np.frombuffer(written, np.float64, size, offset=1).copy()
            if not np.isnan(numbers).all():
                return _Answer(status, numbers, "")
        reason = written[1 + 8 * size :].rstrip(b"\0").decode("utf-8", "replace") if self.setup.public else ""
        return _nothing(self.setup, status if status in (worker.MEMORY, worker.SLOW) else worker.FAILED, reason)

    def close(self) -> None:
        for file in self.files:
            os.close(file)
        self.files, self.index = [], None


class _Template(_Worker):
    """A process that has loaded the function and forks for every block."""

    def __init__(self, setup: worker.Setup, told: int):
        super().__init__(setup)
        self.told, self.failures = told, 0

    def start(self) -> None:
        self.ready, self.heard, self.child, self.mark = False, b"", None, secrets.token_hex(16)
        self.deadline = time.monotonic() + LOADING
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.channel.setblocking(False)
            self.process = _started(self.mark, [theirs.fileno(), self.told], subprocess.DEVNULL, subprocess.DEVNULL)

    def give(self, index: int, block: bytes) -> None:
        assert self.channel is not None
        self.index, self.files = index, [_file(block), _file(length=self.setup.length)]
        self.deadline = time.monotonic() + self.setup.clock + GRACE
        # A template that is gone is noticed when it is heard next.
        with contextlib.suppress(OSError):
            socket.send_fds(self.channel, [b"b"], self.files)

    def hear(self) -> _Answer | None:
        if self.broken or self.channel is None:
            return None
        try:
            part = self.channel.recv(4096)
        except BlockingIOError:
            if time.monotonic() < self.deadline:
                return None
            return self.lost(worker.SLOW, "it took too long to load")
        except OSError:
            part = b""
        if not part:
            return self.lost(worker.FAILED, "its process ended while loading")
        self.heard += part
        while len(self.heard) >= worker.MESSAGE.size:
            kind, value = worker.MESSAGE.unpack_from(self.heard)
            text = self.heard[worker.MESSAGE.size :]
            if kind == worker.READY and not self.ready:
                self.ready, self.deadline, self.failures = True, math.inf, 0
            elif kind == worker.STARTED and self.index is not None:
                self.child = value
            elif kind == worker.ENDED and self.index is not None:
                self.heard, self.deadline, self.child = text, math.inf, None
                return self.answer(worker.SLOW if value else worker.ENDED)
            elif kind == worker.REFUSED and not self.ready and len(text) < value <= worker.REASON:
                return None
            else:
                said = text[:value].decode("utf-8", "replace") if kind == worker.REFUSED else "its process was disturbed"
                return self.lost(worker.FAILED, said)
            self.heard = text
        return None

    def lost(self, ended: bytes, problem: str) -> _Answer | None:
        """The template is gone, or has to go: the block it had fails, and another takes its place."""
        answer = self.answer(ended) if self.index is not None else None
        loaded = self.ready
        self.kill()
        self.problem = "" if loaded else problem
        self.failures += 1
        self.broken = self.failures > ATTEMPTS
        if not self.broken:
            try:
                self.start()
            except OSError:
                self.kill()
                self.broken = True
        return answer

    def dismiss(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def end(self) -> None:
        # The template ends by itself, and before that what its block has started, once the channel is closed.
        if self.process is not None:
            try:
                self.process.wait(GRACE / 2)
            except subprocess.TimeoutExpired:
                self.kill()
        self.kill()
        self.close()

    def kill(self) -> None:
        """End the template and what its fork has left, without its help."""
        self.dismiss()
        self.ready = False
        if self.process is None:
            return
        clean = self.process.poll() == 0
        self.process.kill()
        self.process.wait()
        _end_marked(self.mark, None if clean else self.child)
        self.process = None


class _Spawned(_Worker):
    """A new process for every block, where processes cannot be forked."""

    def start(self) -> None:
        self.begin({**self.setup._asdict(), "public": True, "block": None}, 1 + worker.REASON, LOADING)

    def begin(self, asked: dict[str, Any], length: int, seconds: float) -> None:
        self.mark = secrets.token_hex(16)
        self.deadline = time.monotonic() + seconds
        self.files = [_file(pickle.dumps(asked, protocol=5)), _file(length=length)]
        self.process = _started(self.mark, [], *self.files)

    def give(self, index: int, block: bytes) -> None:
        self.begin({**self.setup._asdict(), "block": block}, self.setup.length, self.setup.clock + GRACE)
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

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            _end_marked(self.mark, self.process.pid)
            self.process = None


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
    environment = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONHASHSEED": "0", MARK: mark}
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", worker.__file__, *map(str, descriptors)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=environment,
        pass_fds=descriptors,
        start_new_session=True,
    )


def _end_marked(mark: str, child: int | None) -> None:
    """End what a lost worker has left: the group of its block, and on Linux every process that carries its mark."""
    if child is not None and hasattr(os, "killpg"):
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
    wanted, end = f"{MARK}={mark}".encode(), time.monotonic() + GRACE / 2
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
