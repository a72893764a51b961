"""Passes over a table in Spark: every row exactly once, or there is no answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ReleaseFailed
from ...public.asking import DEFAULT
from ..shield import CHANGED, STOPPED
from . import ordered, tasks
from .jobs import collected, quiet
from .payload import pickled
from .settings import versions
from .shuffle import NOWHERE, PACKETS, ByBlock, Gathering, Layout, Order, Resending, Scatter, Scattering
from .source import Source

PARTITIONS = 64
"""Tasks that buckets are shared out among, at most."""


class Passes:
    """Runs work next to rows and brings back integers, one list for each task that has any."""

    def __init__(self, source: Source):
        self._source = source
        self.asking = DEFAULT
        self._versions = versions()

    def _pickled(self, work: Any) -> bytes:
        return pickled(work, self._source.schema, self.asking)

    @property
    def _key(self) -> int:
        return self._source.numbering.key

    def over(self, body: tasks.Body, work: Any, columns: Sequence[str]) -> list[list[int]]:
        """What each partition answers."""
        task = tasks.Task(body, self._pickled(work), self._key, self._versions)
        return self._answers(mapped(self._source.selected(columns), task, tasks.ANSWER), 1)

    def shuffled(
        self,
        body: Any,
        work: Any,
        layout: Layout,
        columns: Sequence[str],
        ids: str | None,
        ways: Sequence[Order | ByBlock],
        batch_rows: int,
        filled: int = 0,
    ) -> list[list[int]]:
        """What each bucket answers; those below `filled` also where they have no rows."""
        packets = self._packets(layout, columns, ids, ways, batch_rows)
        gathering = Gathering(body, self._pickled(work), layout, self._key, self._versions)
        buckets = sum(way.buckets for way in ways)
        return self._answers(_by_bucket(self._with_all(packets, filled), gathering, tasks.ANSWER, buckets), len(ways))

    def divided(
        self, dividing: ordered.Dividing, columns: Sequence[str], ids: str | None, order: Order, batch_rows: int
    ) -> list[list[int]]:
        """What each bucket of blocks answers, where ranks decide about blocks: rows go on from buckets of labels."""
        payload, layout = self._pickled(dividing), dividing.layout
        packets = self._packets(layout, columns, ids, [order], batch_rows)
        resending = Resending(ordered.divide, payload, layout, self._key, self._versions)
        again = self._with_all(_by_bucket(packets, resending, PACKETS, order.buckets), dividing.tasks)
        gathering = Gathering(ordered.over_blocks, payload, layout, self._key, self._versions)
        return self._answers(_by_bucket(again, gathering, tasks.ANSWER, dividing.tasks), 1)

    def shown(
        self, stage: Any, columns: Sequence[str], files: Sequence[str] | None = None, span: tuple[int, int] | None = None
    ) -> tuple[list[bytes], int, int]:
        """Packets as they are, from some files or a range of places in one, with how many rows were read and their marks."""
        frame = self._source.selected(columns, files, span)
        return self._contents(mapped(frame, Scattering(self._pickled(stage), self._key, self._versions), PACKETS))

    def regrouped(self, body: Any, work: Any, ids: str, order: Order, batch_rows: int) -> list[bytes]:
        """Packets that are made of whole buckets."""
        layout = Layout((), ())
        packets = self._packets(layout, (), ids, [order], batch_rows)
        resending = Resending(body, self._pickled(work), layout, self._key, self._versions)
        contents, rows, marks = self._contents(_by_bucket(packets, resending, PACKETS, order.buckets))
        self._source.check_rows(rows, marks)
        return contents

    def _contents(self, frame: Any) -> tuple[list[bytes], int, int]:
        answers = _finished(collected(frame, "reading records"))
        contents = [bytes(a["content"]) for a in answers if a["bucket"] != NOWHERE]
        return contents, sum(a["rows"] for a in answers), sum(a["ids"] for a in answers)

    def _packets(
        self, layout: Layout, columns: Sequence[str], ids: str | None, ways: Sequence[Order | ByBlock], batch_rows: int
    ) -> Any:
        scatter = Scatter(self._source.schema, layout, self._source.numbering, ids, tuple(ways), batch_rows)
        names = [*columns, *([ids] if ids and ids not in columns else [])]
        scattering = Scattering(self._pickled(scatter), self._key, self._versions)
        return mapped(self._source.selected(names), scattering, PACKETS)

    def _with_all(self, packets: Any, filled: int) -> Any:
        """With an empty packet for each of the first buckets: blocks without a row have an answer too."""
        from pyspark.sql import functions as F

        if not filled:
            return packets
        empty = self._source.spark.range(filled).select(
            F.col("id").cast("int").alias("bucket"), F.lit(False).alias("guest"), F.lit(tasks.DONE).alias("status"),
            F.lit(0).cast("long").alias("rows"), F.lit(0).cast("long").alias("ids"), F.lit(b"").alias("content"),
        )  # fmt: skip
        return packets.unionByName(empty)

    def _answers(self, frame: Any, times: int) -> list[list[int]]:
        """What tasks answered; every row was read so many times, or nothing is."""
        answers = _finished(collected(frame, "reading records"))
        self._source.check_rows(sum(a["rows"] for a in answers), sum(a["ids"] for a in answers), times)
        return [tasks.unpacked(bytes(answer["answer"])) for answer in answers]


def _finished(answers: list[Any] | None) -> list[Any]:
    """What tasks sent, if all of them came to their end."""
    if answers is None:
        raise ReleaseFailed(STOPPED)
    ended = {answer["status"] for answer in answers}
    if tasks.INTERRUPTED in ended:
        raise KeyboardInterrupt
    if tasks.CHANGED in ended:
        raise ReleaseFailed(CHANGED)
    if ended - {tasks.DONE}:
        raise ReleaseFailed(STOPPED)
    return answers


def _by_bucket(packets: Any, stage: Gathering, schema: str, buckets: int) -> Any:
    def gathered(table: Any) -> Any:
        return stage(table)

    with quiet():
        return packets.repartition(min(PARTITIONS, buckets + 1), "bucket").groupBy("bucket").applyInArrow(gathered, schema)


def mapped(frame: Any, stage: Any, schema: str) -> Any:
    with quiet():
        return frame.mapInArrow(stage, schema)
