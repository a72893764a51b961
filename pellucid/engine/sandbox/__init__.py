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

In this folder: `worker` is the other side, all that runs in those processes; `nursery` keeps the zygote and the template,
`ways` has forks and new processes for blocks, `crew` the workers of a run, `processes` starts and ends them all.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd

from ...errors import PlanError
from ..progress import track
from . import worker
from .backends import Answer
from .pool import Block, Crew
from .processes import environment

ASSUMPTIONS = (
    "The function, and everything it refers to, is public: it was not made from the records.",
    "The function reads nothing about people but the rows it is given, and sends them nowhere.",
    "The function passes nothing from one block to another outside its process: by files, the network or another program.",
    "The function does not attack the machine: it leaves processes alone that it has not started.",
    "A block is too slow or too large because of its own records, not because of the load other blocks put on the machine.",
)
"""What a certificate has to list, because separate processes cannot enforce it."""

STUDY = "pellucid_study_"
BY_VALUE = ("pellucid.explainers.blocks.functions", "pellucid.explainers.blocks.adapters", "pellucid.errors")
"""Modules of ours that functions come from. They are sent with the function, so that workers need not import the package."""


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

    def _sentence(self, answer: Answer) -> str | None:
        limits = self.limits
        if answer.status == worker.ANSWERED:
            return None
        if answer.status == worker.SLOW:
            return f"it took more than {limits.seconds:g} s; make it faster, or allow more with Limits(seconds=...)."
        if answer.status == worker.MEMORY:
            return f"it needed more than {limits.memory / 2**20:,.0f} MiB; use less, or allow more with Limits(memory=...)."
        return f"it failed with {answer.reason.rstrip('.')}." if answer.reason else "it ended its own process."

    def _run(self, blocks: Iterable[Block], total: int, public: bool) -> Generator[Answer, None, None]:
        setup = worker.Setup(
            path=[entry or os.getcwd() for entry in sys.path],
            directory=os.getcwd(),
            environment=environment(),
            function=self._function,
            size=self.size,
            seconds=self.limits.seconds,
            memory=self.limits.memory,
        )
        count = self.limits.workers or cores()
        counts: Counter[bytes] = Counter()
        ended: dict[int, Answer] = {}
        taken, told, more = 0, 0, True
        self.outcomes = Outcomes()
        crew = Crew(setup, public, min(count, total) if total else count)
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
