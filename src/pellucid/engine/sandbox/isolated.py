"""A function that runs on blocks of records, each in a process of its own: what it is given, and what became of it."""

from __future__ import annotations

import contextlib
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
from ...query.functions import BlockFunction, Limits, modules_sent_whole
from ..progress import track
from . import worker
from .backends import Answer
from .pool import Block, Pool
from .processes import environment


@dataclass(frozen=True)
class Outcomes:
    """What became of the blocks of a run: exact numbers, for the owner of the process alone; never part of a release."""

    blocks: int = 0
    """All of them."""
    answered: int = 0
    """Gave the numbers, or some of them."""
    failed: int = 0
    """Raised, returned something else than the numbers, or ended its process."""
    slow: int = 0
    """Took more than the allowed seconds."""
    memory: int = 0
    """Needed more than the allowed bytes."""


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
            with by_value():
                self._function = cloudpickle.dumps((function, adapt), protocol=5)
        except Exception as error:
            raise PlanError(
                f"the function cannot be sent to another process ({worker.in_words(error)}). Create what cannot be "
                "copied, such as open files, locks and connections, inside the function."
            ) from None

    @classmethod
    def of(cls, function: BlockFunction) -> Isolated:
        """The function of a query over blocks."""
        return cls(function.function, len(function.default), function.limits, function.adapt)

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
        pool = Pool(setup, public, min(count, total) if total else count)
        try:
            pool.start()
            source = iter(blocks)
            while more or told < taken:
                while more and pool.free():
                    try:
                        block = next(source)
                    except StopIteration:
                        more = False
                    else:
                        pool.give(taken, block)
                        taken += 1
                ended.update(pool.ended())
                while told in ended:
                    answer = ended.pop(told)
                    told += 1
                    counts[answer.status] += 1
                    yield answer
                if told < taken or (more and not pool.free()):
                    pool.wait()
        finally:
            pool.stop()
            self.outcomes = Outcomes(
                blocks=counts.total(),
                answered=counts[worker.ANSWERED],
                failed=counts[worker.FAILED],
                slow=counts[worker.SLOW],
                memory=counts[worker.MEMORY],
            )


@contextlib.contextmanager
def by_value(also_ours: bool = True) -> Iterator[None]:
    """While this lasts, what comes from modules that say so is pickled whole; those of this package where it is not loaded."""
    with _pickling:
        known = cloudpickle.list_registry_pickle_by_value()
        package = __name__.partition(".")[0]
        ours = [module for module in modules_sent_whole() if module.__name__ not in known]
        ours = [module for module in ours if also_ours or module.__name__.partition(".")[0] != package]
        for module in ours:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in ours:
                cloudpickle.unregister_pickle_by_value(module)


_pickling = threading.RLock()
