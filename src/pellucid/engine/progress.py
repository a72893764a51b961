"""A progress bar for the owner of the process: on a terminal or in a notebook, and only when the work is long."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 1.5
"""Seconds of work before a bar appears."""


class Bar:
    """One bar. It appears when the work turns out to be long, and is refreshed by hand, between pieces of work: while user code
    runs the console belongs to nobody."""

    def __init__(self, total: float, label: str):
        self.total, self.label, self.done = total, label, 0.0
        self._watched = bool(sys.stderr and sys.stderr.isatty()) or in_notebook()
        self._started, self._shown = time.monotonic(), None  # type: tuple[float, Any]

    def show(self, ahead: float = 0.0) -> None:
        """How far the work has come, `ahead` of what is done."""
        if not self._watched:
            return
        if self._shown is None:
            if time.monotonic() - self._started <= PATIENCE:
                return
            self._shown = _appeared(self.total)
        self._shown.update(self._shown.task_ids[0], completed=min(self.done + ahead, self.total), description=self.label)
        self._shown.refresh()

    def stop(self) -> None:
        if self._shown is not None:
            self._shown.stop()


def in_notebook() -> bool:
    """Whether a notebook runs this process. Nothing is imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _appeared(total: float) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    shown = Progress(
        *columns,
        console=Console(stderr=True, force_terminal=True) if in_notebook() else Console(stderr=True),
        auto_refresh=False,
        transient=True,
    )
    shown.start()
    shown.add_task("", total=total)
    return shown


_whole: ContextVar[Bar | None] = ContextVar("whole", default=None)
"""The bar that all work inside moves, in place of bars of its own."""


def current_bar() -> Bar | None:
    """The bar of the work that this is part of, if it has one."""
    return _whole.get()


@contextlib.contextmanager
def together(total: float, label: str) -> Iterator[Bar]:
    """One bar for several pieces of work: whatever is tracked inside moves it by up to one."""
    bar = Bar(total, label)
    token = _whole.set(bar)
    try:
        yield bar
    finally:
        _whole.reset(token)
        bar.stop()


def track(work: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Yield the pieces of work, showing how far it has come. Nothing is written when stderr is not a terminal."""
    whole = _whole.get()
    bar = whole or Bar(total, label)
    try:
        for done, piece in enumerate(work):
            bar.show(done / max(total, 1) if whole else done)
            yield piece
    finally:
        if whole is None:
            bar.stop()
