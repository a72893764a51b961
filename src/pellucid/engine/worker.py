"""The other side of `processes`: one process that reads its part of a table and answers with whole numbers alone.

Its standard output and error lead nowhere. Whatever goes wrong is one word, and no reason leaves the process. It ends with the
process that started it, however that ends.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ..errors import ReleaseFailed
from ..mechanisms.labels import Labels
from ..public.fitted import walks
from ..public.rows import Rows
from ..public.schema import Schema
from . import spill
from .ids import labels_of_ids
from .kernel import Work
from .orders import bucket_of
from .payload import Receiver
from .shield import CHANGED_SINCE, shielded
from .shuffled import LARGE, arrays_of, fields_of, labelled, pairs_of
from .spill import Chunk, Shuffle
from .tables import Table, mapped

DONE, STOPPED, CHANGED, INTERRUPTED = "done", "stopped", "changed", "interrupted"


@dataclass(frozen=True)
class Setting:
    """What a process is started with."""

    schema: Schema
    table: Table | int
    """The files, or the descriptor of one that holds a table of memory."""
    ids: str | None
    parts: tuple[int, str] | None
    """The descriptor and type of the parts of all rows, where people are units."""
    files: tuple[int, ...]
    """Descriptors of the files that rows are spilled to, one for every process."""
    own: int
    """Which of them this process writes to."""


class Worker:
    """Does what it is told with rows of the table."""

    def __init__(self, setting: Setting):
        self.setting, self.receiver = setting, Receiver(setting.schema)
        self.table: Table = mapped(setting.table, setting.ids) if isinstance(setting.table, int) else setting.table
        self.parts: np.ndarray | None = None
        if setting.parts is not None:
            file, kind = setting.parts
            self.parts = np.frombuffer(mmap.mmap(file, 0, prot=mmap.PROT_READ), dtype=kind)[: self.table.rows]

    def read(self, work: Work, size: int, start: int, stop: int) -> Iterator[Rows]:
        for cells in self.table.batches(work.columns, size, start, stop):
            end = start + len(cells[work.columns[0]])
            yield work.decoded(cells, None if self.parts is None else self.parts[start:end].astype(np.int64))
            start = end

    def labels(self, labels: Labels, size: int, start: int, stop: int) -> Iterator[np.ndarray]:
        if self.setting.ids is not None:
            for batch in self.table.batches([self.setting.ids], size, start, stop):
                yield labels_of_ids(labels, batch[self.setting.ids])[0]
        else:
            for first in range(start, stop, size):
                yield labels.of_rows(first, min(first + size, stop))

    def records(self, work: Work, start: int, stop: int) -> list[list[int]]:
        """The totals of some rows."""
        return work.of_records(self.read(work, max(work.sizes), start, stop))

    def shuffle(self, work: Work, labels: Labels, buckets: int, start: int, stop: int) -> list[Any]:
        """Where some rows were written."""
        own, chunks = self.setting.own, []
        fields = fields_of(work, self.parts is not None)
        for rows, found in labelled(self.read(work, LARGE, start, stop), self.labels(labels, LARGE, start, stop)):
            arrays = arrays_of(rows, found, start)
            place = bucket_of(arrays[spill.LABEL], buckets)
            chunk = spill.write(self.setting.files[own], own, start, place, buckets, arrays, fields)
            chunks.append([chunk.start, chunk.file, chunk.offset, chunk.cuts.tolist()])
            start += len(rows)
        return chunks

    def pairs(self, work: Work, shuffle: Shuffle, chosen: Sequence[int]) -> list[list[int]]:
        """The totals of the pairs of some buckets."""
        return work.of_pairs(pairs_of(work, shuffle, self.setting.files, chosen, work.sizes[0]))

    def answer(self, asked: dict[str, Any], content: Any) -> dict[str, Any]:
        """What became of a task: whole numbers, or a word."""
        try:
            do = getattr(self, asked["do"])
            return {"status": DONE, "found": shielded(lambda: do(*content, *asked["with"]))}
        except KeyboardInterrupt:
            return {"status": INTERRUPTED}
        except ReleaseFailed as failure:
            return {"status": CHANGED if str(failure) == CHANGED_SINCE else STOPPED}
        except BaseException:
            return {"status": STOPPED}


def chunk_of(told: Sequence[Any]) -> Chunk:
    """Where rows were written, as a worker has told."""
    return Chunk(int(told[0]), int(told[1]), int(told[2]), np.array(told[3], dtype=np.int64))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main(channel: int, parent: int) -> None:
    """Answer until the other side has gone."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # There are as many processes as there are cores to be used.
    walks.MOST_THREADS = 1
    told, worker, content = Connection(channel), None, ()
    while True:
        try:
            asked = pickle.loads(told.recv_bytes())
            if worker is None:
                worker = Worker(asked)
                continue
            answer: dict[str, Any] = {"status": STOPPED}
            # A payload that cannot be loaded here is refused, and whoever sent it goes on.
            try:
                for number, sent in asked["boxes"]:
                    worker.receiver.take(number, sent)
                if asked["content"] is not None:
                    content = ()
                    content = worker.receiver.unpacked(asked["content"])
                answer = worker.answer(asked, content) if content else answer
            except Exception:
                pass
            told.send_bytes(json.dumps(answer).encode())
        except (EOFError, OSError):
            os._exit(0)
