"""Files that must stay what they were when they were opened, and actions whose errors must not be heard."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..errors import ReleaseFailed
from .shield import CHANGED

T = TypeVar("T")

State = tuple[int, ...]
"""What tells one state of a file from another."""

TICK = 12_000_000
"""Nanoseconds, more than the clock of a file system takes for a step: later changes get a later time."""


def state_of(stat: os.stat_result) -> State:
    # The time of the last change of any kind is the operating system's: unlike that of the last writing, nobody can set it back.
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def check_state(file: Any, state: State) -> None:
    if state_of(os.fstat(file.fileno())) != state:
        raise ReleaseFailed(CHANGED)


def let_pass(states: Sequence[State]) -> None:
    """Wait until whatever happens to these files from now on has a later time than what happened last."""
    wait = max(state[-1] for state in states) + TICK - time.time_ns()
    if 0 < wait <= TICK:
        time.sleep(wait / 1e9)


def attempt(action: Callable[[], T]) -> T | None:
    """What the action gives, or None. Errors are raised by callers afterwards, so that none has a library's message behind it."""
    try:
        return action()
    except Exception:
        return None
