"""A stream's questions on their way to the channel: what is asked, by which oracle, and what the ledger is told about it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...query import Sum
from ...release.door import IndividualAsk, PaidAsk
from ...release.plan import Plan
from ...release.stream import Channel, Paid, Question, Said
from .bound import Moments
from .encoder import Encoder, LocalRows, best_label_weight, moments_of, normaliser
from .history import Answered
from .methods import Oracle
from .oracles import IndividualOracle, MomentsOracle, PassOracle
from .results import LocalExplanation
from .settings import Settings
from .weights import Limits

COORDINATES_PER_STEP = 100
"""With more coordinates than this for each step, a pass per step is less work than all products once (measured: 77 to 114)."""


class Questions:
    """What stands between the control flow of a stream and the data. Nothing in here may be shown but through noise."""

    def __init__(self, plan: Plan, channel: Channel, settings: Settings, encoder: Encoder):
        self.channel, self._settings, self._encoder = channel, settings, encoder
        self._records = normaliser(plan.public)
        self._label_weight = _label_weight(plan, settings, encoder)
        # The model is asked about each record once, however many questions follow.
        self._people = channel.prepared(encoder.read, encoder.features, encoder.length)
        self._question: Question | None = None
        if settings.individual:
            channel.open_accounts(self._people, self._again)

    def news(self) -> list[Answered]:
        """Answers of this stream that were given since the last call, by this process or another."""
        return [_answered(said) for said in self.channel.news()]

    def affordable(self) -> bool:
        """Whether one more question can be paid for; from the ledger alone."""
        return self.channel.affordable(self._settings.price)

    def oracle(self, asked: tuple[float, ...], level: float | None) -> Oracle:
        """The way to the data for one question; what goes through it is charged."""
        settings = self._settings
        made = moments_of(self._encoder, asked, settings.weight, self._label_weight, level)
        about: dict[str, Any] = {"asked": list(asked), "level": level}
        if settings.individual:
            about |= _counted_with(made)
        self._question = self.channel.question(about, self._people.totals)
        ask = self._question.ask
        if isinstance(ask, IndividualAsk):
            return IndividualOracle(ask, made, self._records, settings.radius)
        assert isinstance(ask, PaidAsk)
        if settings.method != "one-shot" and COORDINATES_PER_STEP * settings.steps < self._encoder.length:
            return PassOracle(ask, self._encoder, asked, settings.weight, self._records, settings.radius, level)
        return MomentsOracle(ask, made, self._records, settings.radius)

    def _again(self, body: dict[str, Any]) -> tuple[Sum, Fraction]:
        """A question as it was asked, with the limits it had then, whatever they would be now."""
        limits = Limits(*body["limits"])
        weight, label_weight = self._settings.weight, body["label_weight"]
        made = moments_of(self._encoder, body["asked"], weight, label_weight, body["level"], limits)
        return made, self._settings.price

    def keep(self, found: LocalExplanation) -> LocalExplanation:
        """Certify an answer that was paid for, and store it with the record asked about."""
        assert self._question is not None

        def told(paid: Paid) -> LocalExplanation:
            return replace(found, number=paid.number, rho=paid.rho or 0.0, epsilon=paid.epsilon)

        return _local(self.channel.keep(self._question, told))

    def free(self, found: LocalExplanation) -> LocalExplanation:
        """Certify an answer for which no data was read."""
        return _local(self.channel.free(found))

    def compare(self, asked: tuple[float, ...], level: float | None) -> tuple[np.ndarray, np.ndarray]:
        """A and b without noise. The account is marked as not private first."""
        made = moments_of(self._encoder, asked, self._settings.weight, 1.0, level)
        bound = made.bound
        assert isinstance(bound, Moments)
        why = "an explanation was compared with the best one without noise"
        exact = self.channel.without_noise(self._people.totals, made, why)
        matrix, vector = bound.matrix(np.array([float(v) for v in exact]))
        unit = bound.unit / float(self._records)
        return matrix * unit, vector * unit


def _label_weight(plan: Plan, settings: Settings, encoder: Encoder) -> float:
    if settings.method != "one-shot":
        return 1 / settings.radius
    return best_label_weight(settings.weight, encoder.farthest, plan.public.relation, settings.radius)


def _local(explanation: Any) -> LocalExplanation:
    assert isinstance(explanation, LocalExplanation)
    return explanation


def _answered(said: Said) -> Answered:
    told, about = said.content, said.about
    # Answers of 0.1.0 say less.
    std, pull = (None if told.get(name) is None else tuple(map(float, told[name])) for name in ("std", "pull"))
    return Answered(
        tuple(about["asked"]),
        tuple(map(float, told["phi"])),
        said.number,
        std,
        told.get("excess"),
        told.get("gain"),
        about["level"],
        pull,
        told.get("gain_error"),
    )


def _counted_with(asked: Sum) -> dict[str, Any]:
    """What a question's part of everybody's account depends on, beside the record asked about and the price."""
    bound, local = asked.bound, asked.map
    assert isinstance(bound, Moments) and isinstance(local, LocalRows)
    return {"limits": [bound.joint, bound.slope, bound.label], "label_weight": local.label_weight}
