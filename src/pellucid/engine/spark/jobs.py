"""A job of Spark, from start to end: progress for the owner, interrupts that cancel it, and errors that say nothing."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from ..progress import Bar, current_bar

LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""By which PySpark writes errors, and what they quote, to the console."""
MOMENT = 0.2
"""Seconds between two looks at how far a job has come."""
ENDING = 30.0
"""Seconds in which a job that was cancelled has to end."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Inside, PySpark does not write errors to the console, nor that it does not know pandas 3: tasks use Arrow and NumPy."""
    before = [(logger, logger.disabled) for logger in map(logging.getLogger, LOGGERS)]
    for logger, _ in before:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
            yield
    finally:
        for logger, disabled in before:
            logger.disabled = disabled


def collected(frame: Any, label: str) -> list[Any] | None:
    """The rows of a DataFrame, or None if the job failed: why is not said, because Spark's errors quote cells.

    An interrupt cancels the job, on the cluster too.
    """
    from pyspark.util import inheritable_thread_target

    spark, tag = frame.sparkSession, f"pellucid-{secrets.token_hex(8)}"
    outcome: list[Any] = []
    done = threading.Event()

    def work() -> None:
        try:
            with quiet():
                _name(spark, tag, label)
                outcome.append(frame.collect())
        except BaseException:
            pass
        finally:
            done.set()

    # In a thread that has the settings of this one: the pool of a scheduler, for example.
    thread = threading.Thread(target=inheritable_thread_target(spark)(work), daemon=True)
    thread.start()
    try:
        _watch(spark, tag, label, done)
    except KeyboardInterrupt:
        with contextlib.suppress(Exception):
            spark.interruptTag(tag)
        done.wait(ENDING)
        raise
    return outcome[0] if outcome else None


def _is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _name(spark: Any, tag: str, label: str) -> None:
    spark.addTag(tag)
    if not _is_connect(spark):
        spark.sparkContext.setJobGroup(tag, f"pellucid: {label}", interruptOnCancel=True)


def _watch(spark: Any, tag: str, label: str, done: threading.Event) -> None:
    """Wait, and show how many tasks have ended where Spark tells."""
    whole = current_bar()
    bar = whole or Bar(1.0, label)
    try:
        while not done.wait(MOMENT):
            with contextlib.suppress(Exception):
                bar.show(_share_done(spark, tag))
    finally:
        if whole is None:
            bar.stop()


def _share_done(spark: Any, tag: str) -> float:
    if _is_connect(spark):
        return 0.0
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(tag)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    tasks = sum(stage.numTasks for stage in stages if stage)
    return sum(stage.numCompletedTasks for stage in stages if stage) / max(tasks, 1)
