"""The engine for all cores of one machine: the same table, read by several processes.

Each of them reads a range of rows and sends back exact totals, as whole numbers; these are added up here. For pairs and couples
rows first go, through files without names, to the process that has their bucket. The processes are started when a table is
opened, and end with the engine or with this process, however it ends.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from ..errors import PlanError, ReleaseFailed
from ..public.schema import Relation, Schema, Unit
from ..query import Blocks, Couples, Pairs, Sum
from . import spill
from .kept import Kept
from .kernel import BATCH_ROWS, Work, added
from .local import LocalEngine
from .payload import Sender, Shelf
from .progress import track
from .sandbox.processes import environment, new_file
from .shield import CHANGED, STOPPED
from .shuffled import buckets_for, fields_of
from .spill import Shuffle
from .tables import MemoryTable, ParquetTable
from .units import HELD
from .worker import CHANGED as CHANGED_THERE
from .worker import DONE, INTERRUPTED, Setting, chunk_of

PER_WORKER = 4
"""Pieces of a pass for every process: enough that all end at about the same time."""
FEWEST_ROWS = 1 << 10
"""Rows of a piece at least."""
PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from pellucid.engine.worker import main; main({}, {})"

Task = tuple[str, tuple[Any, ...]]
"""What is to be done, and with which rows or buckets."""


class Process:
    """One process, and what it has of ours."""

    def __init__(self, setting: Setting, descriptors: Sequence[int]):
        ours, theirs = socket.socketpair()
        with theirs:
            path = json.dumps([entry or os.getcwd() for entry in sys.path])
            program = PROGRAM.format(theirs.fileno(), os.getpid())
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", program, path],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=environment(), pass_fds=[theirs.fileno(), *descriptors], start_new_session=True,
            )  # fmt: skip
        self.channel, self.shelf, self.content = Connection(ours.detach()), Shelf[bool](), -1
        self.channel.send_bytes(pickle.dumps(setting, protocol=5))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.channel.close()


class Processes:
    """The processes of one engine."""

    def __init__(self, settings: Sequence[Setting], descriptors: Sequence[int]):
        self._settings, self._descriptors, self._owner = settings, descriptors, os.getpid()
        self._running: list[Process] = []
        self._turn, self._one_at_a_time = 0, threading.Lock()

    def start(self) -> None:
        if any(one.process.poll() is not None for one in self._running):
            self.end()
        if not self._running:
            self._running = [Process(setting, self._descriptors) for setting in self._settings]

    def end(self) -> None:
        """End them all. Those of a process that was forked are not its own."""
        running, self._running = self._running, []
        for one in running if os.getpid() == self._owner else ():
            one.end()

    def run(self, sender: Sender, work: Work, content: tuple[Any, ...], tasks: Sequence[Task]) -> Iterator[Any]:
        """What became of every task, as they end. Whatever goes wrong with one ends them all."""
        with self._one_at_a_time:
            done = False
            try:
                self.start()
                yield from self._run(sender, *sender.packed(content, work.asking), deque(tasks))
                done = True
            finally:
                if not done:
                    # Whoever is still at work is at work for nobody.
                    self.end()

    def _run(self, sender: Sender, packed: bytes, boxes: Sequence[int], tasks: deque[Task]) -> Iterator[Any]:
        self._turn += 1
        free, busy = list(self._running), dict[Any, Process]()
        while tasks or busy:
            while tasks and free:
                one = free.pop()
                self._give(one, tasks.popleft(), sender, packed, boxes)
                busy[one.channel] = one
            for channel in wait(list(busy)):
                try:
                    answer = json.loads(channel.recv_bytes())  # type: ignore[union-attr]
                except (EOFError, OSError):
                    raise ReleaseFailed(STOPPED) from None
                if answer["status"] == INTERRUPTED:
                    raise KeyboardInterrupt
                if answer["status"] != DONE:
                    raise ReleaseFailed(CHANGED if answer["status"] == CHANGED_THERE else STOPPED)
                free.append(busy.pop(channel))
                yield answer["found"]

    def _give(self, one: Process, task: Task, sender: Sender, packed: bytes, boxes: Sequence[int]) -> None:
        do, chosen = task
        asked: dict[str, Any] = {"do": do, "with": chosen, "content": None, "boxes": []}
        if one.content != self._turn:
            asked["content"] = packed
            asked["boxes"] = [(number, None if number in one.shelf else sender.box(number)) for number in boxes]
            for number in boxes:
                one.shelf.use(number, True)
            one.content = self._turn
        try:
            one.channel.send_bytes(pickle.dumps(asked, protocol=5))
        except OSError:
            raise ReleaseFailed(STOPPED) from None


def checked_workers(workers: Any) -> int:
    """A number of processes, or an error in words."""
    if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= 1024:
        raise PlanError(f"workers={workers!r}: give the number of processes that read the table, at least 1.")
    if workers > 1 and not hasattr(os, "preadv"):
        raise PlanError(f"workers={workers!r}: several processes need Linux, or another system with preadv; leave workers out.")
    return workers


class ProcessEngine(LocalEngine):
    """As `LocalEngine`, with several processes that read the table side by side; the same integers.

    Blocks and strict sessions have processes of their own, as many as there are cores: rows are read for them by this process.
    """

    def __init__(
        self,
        data: Any,
        schema: Schema,
        relation: Relation,
        unit: Unit,
        batch_rows: int = BATCH_ROWS,
        held: int = HELD,
        workers: int = 2,
    ):
        super().__init__(data, schema, relation, unit, batch_rows, held)
        self.workers, self.name = checked_workers(workers), f"{workers} processes of one machine"
        self._sender, files = Sender(schema), [spill.new_file() for _ in range(workers)]
        self._files = files
        descriptors, table = [file.fileno() for file in files], self.table
        place: ParquetTable | int
        shared: list[int] = []
        if isinstance(table, MemoryTable):
            shared.append(place := new_file())
            self.table = table.shared(place)
        else:
            assert isinstance(table, ParquetTable)
            place = table
        parts = None
        if self.people is not None:
            # One byte more: no file of no rows can be mapped.
            shared.append(new_file(self.people.parts.tobytes() + bytes(8)))
            parts = shared[-1], self.people.parts.dtype.str
        settings = [Setting(schema, place, unit.column, parts, tuple(descriptors), own) for own in range(workers)]
        self._processes = Processes(settings, [*descriptors, *shared])
        weakref.finalize(self, _closed, self._processes, files, shared)
        self._processes.start()

    def _of_records(self, parts: Sequence[Sum], kept: Kept) -> list[list[int]]:
        tasks: list[Task] = [("records", split) for split in self._splits()]
        if self.asking.strict or not tasks:
            return super()._of_records(parts, kept)
        work = self._work(*parts)
        return added(self._done(work, (work,), tasks, "reading records"))

    def _of_order(self, part: Sum, kept: Kept) -> list[int]:
        over, work = part.over, self._work(part)
        couples_of_whom = isinstance(over, Couples) and (self.relation != "replace" or self.people is not None)
        if isinstance(over, Blocks) or self.asking.strict or couples_of_whom or not self.rows:
            return super()._of_order(part, kept)
        assert isinstance(over, Pairs | Couples)
        whole = [0] * part.size
        for labels in self._orders(over, kept):
            try:
                found = self._of_one_order(work, labels)
            finally:
                for file in self._files:
                    os.ftruncate(file.fileno(), 0)
            whole = [a + b for a, b in zip(whole, found)]
        return whole

    def _of_one_order(self, work: Work, labels: Any) -> list[int]:
        # Each process holds one bucket and the one that follows.
        buckets = max(buckets_for(self.rows, work, self.held) * min(self.workers, 4), PER_WORKER * self.workers)
        writing: list[Task] = [("shuffle", split) for split in self._splits()]
        told = self._done(work, (work, labels, buckets), writing, "sorting records")
        chunks = [chunk_of(chunk) for of_one in told for chunk in of_one]
        shuffle = Shuffle(fields_of(work, self.people is not None), buckets, chunks)
        each = np.array_split(np.array(shuffle.occupied, dtype=int), PER_WORKER * self.workers)
        reading: list[Task] = [("pairs", (some.tolist(),)) for some in each if len(some)]
        found = added(self._done(work, (work, shuffle), reading, "reading pairs"))
        return found[0] if found else [0] * work.sums[0].size

    def _done(self, work: Work, content: tuple[Any, ...], tasks: Sequence[Task], label: str) -> list[Any]:
        self.check_unchanged()
        found = list(track(self._processes.run(self._sender, work, content, tasks), len(tasks), label))
        self.check_unchanged()
        return found

    def _splits(self) -> list[tuple[int, int]]:
        """Ranges of rows, one for each task: from row group to row group where there are enough of them."""
        rows = self.rows
        least = min(max(FEWEST_ROWS, self.asking.rows), max(FEWEST_ROWS, -(-rows // self.workers)))
        size = max(least, -(-rows // (PER_WORKER * self.workers)))
        cuts, borders = [0], np.array([*self.table.borders, rows])
        while cuts[-1] < rows:
            near = int(borders[np.abs(borders - (cuts[-1] + size)).argmin()])
            cuts.append(near if near > cuts[-1] and abs(near - cuts[-1] - size) <= size // 2 else min(cuts[-1] + size, rows))
        return list(zip(cuts[:-1], cuts[1:]))


def _closed(processes: Processes, files: Sequence[Any], shared: Sequence[int]) -> None:
    processes.end()
    for file in files:
        file.close()
    for descriptor in shared:
        os.close(descriptor)
