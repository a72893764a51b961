"""Black boxes asked in processes of their own: every question by one that has seen no other question.

What a black box remembers of one question is gone before the next. Within a question it still sees all of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from ..errors import ReleaseFailed
from ..query.functions import Limits
from .sandbox import Isolated
from .shield import STOPPED

LIMITS = Limits(seconds=3600.0, memory=1 << 40)
"""None to speak of: a question that is cut short would take the answers of everybody in it."""


def apart(answers_to: Callable[[Any], np.ndarray], size: int, questions: Iterable[Any]) -> Iterator[np.ndarray]:
    """The answers to each question of `size` rows."""
    run = Isolated(answers_to, size + 1, LIMITS, _and_done)
    for answers in run.over(_frame(inputs) for inputs in questions):
        yield answers[:-1]
    if run.outcomes.answered < run.outcomes.blocks:
        # Rows that fail have no answer, so a question without any was cut short by something else than its rows.
        raise ReleaseFailed(STOPPED)


def _and_done(answers: np.ndarray) -> np.ndarray:
    """One number more than answers, so that a question in which every row fails is still an answered one."""
    return np.append(answers, 1.0)


def _frame(inputs: Any) -> pd.DataFrame:
    return inputs if isinstance(inputs, pd.DataFrame) else pd.DataFrame(inputs)
