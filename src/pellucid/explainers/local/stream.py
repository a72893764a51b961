"""Questions one after another: near answers are handed on, others are paid for, and the last ones cost nothing.

What happens to a question depends on the record asked about, on what was released before and on what is left of the budget: all
of it is known to whoever asks. No rows are in scope here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import PlanError
from ...release.stream import Stream
from .encoder import Encoder
from .history import Answered, History
from .methods import explain, non_interactive
from .moments import smallest_in_ball
from .questions import Questions
from .results import LocalExplanation
from .settings import Settings

STARTS = 16
"""Earlier explanations offered as places to start from: the nearest ones."""

FITTED = 100
"""Earlier answers that are fitted together around a new record: the nearest ones."""


@dataclass(frozen=True)
class Comparison:
    """An explanation against the best one without noise. Computed from records: not private, for evaluation only."""

    excess: float
    """How far its loss lies above the smallest one."""
    relative: float
    """The same as a part of what the best one explains."""
    distance: float
    """How far φ is from the best φ."""
    status: str = "not private"


class LocalStream(Stream):
    """A slice of a budget for questions about records, one after another. `Session.open` makes it; use it in a with-statement.

    Nothing is reserved when it is opened (with one account per record: all of it is) and every step is charged just before it is
    taken, so what was not used is still there when it is closed. Opened again with the same settings, it goes on where it was:
    what was released and the records asked about are in the ledger.
    """

    def __init__(self, settings: Settings, encoder: Encoder, questions: Questions, shape: tuple[int, int] | None = None):
        super().__init__(questions.channel)
        self.settings, self._encoder, self._questions, self._shape = settings, encoder, questions, shape
        self._known = History(encoder.length)
        self._drift = settings.weight.drift(encoder.farthest, settings.radius)
        self._catch_up()

    def explain(self, record: Any, label: str = "", *, pay: bool = True) -> LocalExplanation:
        """Explain the model around one record, a dict of values by column name; a column may be left out where the schema
        declares what stands for a missing value.

        `label` is a name by which you will know the answer again. In this order: an answer near enough is handed on, free; else
        the question is asked and paid for; else, when the slice is used up, what was said before is fitted around the record,
        free. With `pay=False` nothing is ever spent (the non-interactive phase of the paper).
        """
        if not isinstance(label, str):
            raise PlanError(f"label={label!r}: give a short text by which you will know the answer again.")
        with self._lock:
            self._check_open()
            asked, level = self._placed(record)
            self._catch_up()
            near = self._known.nearest(asked, self.settings.within) if self.settings.within else None
            if near is not None:
                return self._questions.free(replace(self._handed_on(level, *near), label=label))
            if pay and self._questions.affordable():
                kept = self._questions.keep(replace(self._asked(asked, level), label=label))
                self._catch_up()
                return kept
            if len(self._known):
                return self._questions.free(replace(self._fitted(asked, level), label=label))
        if not pay:
            raise PlanError("nothing was answered yet, so there is nothing to say for free; ask with pay=True first.")
        raise PlanError(
            f"the stream cannot pay {float(self.settings.price):.6g} for a question and has answered nothing yet; open it with "
            "more, or raise the budget of the account."
        )

    def distance_to_optimum(self, record: Any, explanation: LocalExplanation, *, not_private: bool = False) -> Comparison:
        """How far an explanation is from the best one. This reads records without noise: for evaluation runs on data that may be
        shown. The account is marked in the ledger, and its later certificates say that its total is not bounded."""
        if not not_private:
            raise PlanError(
                "the distance to the optimum is computed from records without noise and marks the account as not private for "
                "good; if that is meant, say not_private=True."
            )
        with self._lock:
            self._check_open()
            return compared(
                *self._questions.compare(*self._placed(record)), explanation.phi, self.settings.radius, self._encoder.projector
            )

    def _placed(self, record: Any) -> tuple[tuple[float, ...], float | None]:
        """The record in coordinates, and the output that labels are counted from."""
        return self._encoder.asked(record), self._encoder.level(record) if self.settings.centred else None

    def _catch_up(self) -> None:
        for one in self._questions.news():
            self._known.add(one)

    @property
    def answered(self) -> int:
        """How many questions were answered from data so far; others lean on these."""
        return len(self._known)

    def _explanation(self, phi: Any, std: Any = None, **more: Any) -> LocalExplanation:
        weight, centred = self.settings.weight, self.settings.centred
        return LocalExplanation(
            features=self._encoder.labels,
            phi=phi,
            std=std,
            # Labels around the record's own output are halved to stay within [−1, 1].
            half_range=self._encoder.half_range * (2 if centred else 1),
            output=self._encoder.model.name,
            method=self.settings.method,
            neighbourhood=f"weight {weight.text}, bandwidth {weight.bandwidth:g}",
            centred=centred,
            radius=self.settings.radius,
            shape=self._shape,
            **more,
        )

    def _handed_on(self, level: float | None, known: Answered, distance: float) -> LocalExplanation:
        moved = self._drift * distance if distance else 0.0
        if level is not None and known.level is not None and level != known.level:
            # Labels move with the record's own output, each half as far; the slope of the loss in a label is part of the drift.
            moved += self._drift / (2 * self.settings.radius) * abs(level - known.level)
        return self._explanation(
            known.phi,
            known.std,
            source="reused",
            pull=known.pull,
            excess=known.excess,
            gain=known.gain,
            gain_error=known.gain_error,
            distance=distance,
            drift=2 * moved,
            leans_on=(known.number,),
        )

    def _asked(self, asked: tuple[float, ...], level: float | None) -> LocalExplanation:
        settings = self.settings
        starts = self._starts(asked, level) if settings.method in ("adaptive", "enhanced") and len(self._known) else []
        candidates = [phi for phi, _ in starts]
        made = explain(
            settings.method, self._questions.oracle(asked, level), settings.price, steps=settings.steps, candidates=candidates
        )
        leans = () if made.started_from is None else starts[made.started_from][1]
        return self._explanation(
            made.phi,
            made.std,
            pull=made.pull,
            excess=made.excess,
            gain=made.gain,
            gain_error=made.gain_error,
            leans_on=leans,
            steps=made.steps,
        )

    def _starts(self, asked: tuple[float, ...], level: float | None) -> list[tuple[np.ndarray, tuple[int, ...]]]:
        """Places to start from, with the answers each leans on: what a free answer would say, and the nearest answers."""
        near = [(np.array(one.phi), (one.number,)) for one in self._known.near(asked, STARTS)]
        return [self._fit(asked, level), *near]

    def _fit(self, asked: tuple[float, ...], level: float | None) -> tuple[np.ndarray, tuple[int, ...]]:
        known = self._known.near(asked, FITTED)
        records = np.array([one.asked for one in known])
        labels = self._encoder.outputs_at(records)
        if level is not None:
            labels = (labels - level) / 2
        said = np.array([one.phi for one in known])
        phi = non_interactive(asked, records, said, self.settings.weight, self.settings.radius, labels)
        return phi, tuple(one.number for one in known)

    def _fitted(self, asked: tuple[float, ...], level: float | None) -> LocalExplanation:
        phi, leans = self._fit(asked, level)
        return self._explanation(phi, source="history", leans_on=leans)


def compared(
    matrix: np.ndarray, vector: np.ndarray, phi: np.ndarray, radius: float, projector: np.ndarray | None = None
) -> Comparison:
    """An explanation against the minimum of φᵀAφ − 2bᵀφ in the ball."""
    best, _ = smallest_in_ball(matrix, vector, radius)
    kept = phi if projector is None else projector @ phi

    def loss(point: np.ndarray) -> float:
        return float(point @ matrix @ point - 2 * vector @ point)

    excess = max(0.0, loss(phi) - loss(best))
    gain = -loss(best)
    return Comparison(excess, excess / gain if gain > 0 else math.inf if excess else 0.0, float(np.linalg.norm(kept - best)))
