"""A progress bar for the owner of the process: only on a terminal, and only when the work is long."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 1.5
"""Seconds of work before a bar appears."""


def track(work: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Yield the pieces of work, showing how far it has come. Nothing is written when stderr is not a terminal."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield from work
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    started, bar, task = time.monotonic(), None, None
    try:
        for done, piece in enumerate(work):
            if bar is None and time.monotonic() - started > PATIENCE:
                # Refreshed by hand, between pieces: while user code runs the console belongs to nobody.
                bar = Progress(
                    TextColumn("{task.description}"),
                    BarColumn(),
                    TimeRemainingColumn(),
                    console=Console(stderr=True),
                    auto_refresh=False,
                    transient=True,
                )
                bar.start()
                task = bar.add_task(label, total=total)
            if bar is not None and task is not None:
                bar.update(task, completed=done)
                bar.refresh()
            yield piece
    finally:
        if bar is not None:
            bar.stop()
