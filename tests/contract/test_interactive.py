"""The contract of streams: for local explanations, and for a small stream of somebody's own."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from interactive import InteractiveConformance

import pellucid as pel
from pellucid.explainers.local.bound import Moments
from pellucid.explainers.local.weights import Stable
from pellucid.query import Sum
from pellucid.query.bounds import Box
from pellucid.release.explainer import Interactive
from pellucid.release.explanation import Explanation, frame
from pellucid.release.plan import Expected, Plan, Stage
from pellucid.release.stream import Stream

CANARY = 0.31415926535897931


def table(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.random(rows), "y": rng.random(rows), "side": rng.choice(["low", "high"], rows)})


def by_side(d):
    """Outputs at both ends of the range: what moves totals most."""
    return (d["side"] == "high").to_numpy(float)


SCHEMA = pel.Schema({"x": pel.Number(0, 1), "y": pel.Number(0, 1), "side": pel.Category(["low", "high"])})
MODEL = pel.Model(by_side, output=(0, 1), features=["x", "y", "side"], trained_on="other data")
ASKED = {"x": 0.0, "y": 0.0, "side": "low"}


class LocalStreams(InteractiveConformance):
    def schema(self):
        return SCHEMA

    def questions(self):
        return [ASKED, {"x": 0.6, "y": 0.3, "side": "low"}, {"x": 1.0, "y": 1.0, "side": "high"}]

    def neighbours(self, relation):
        people = table()
        # A weight is largest at some distance; records around it, with outputs at both ends, move the totals most.
        near = Stable().near
        spots = [(min(near, 1.0), 0.0), (0.7 * near, 0.7 * near), (1.0, 1.0), (0.3, 0.1)]
        pairs = []
        for x, y in spots:
            for side in ("low", "high"):
                row = pd.DataFrame({"x": [min(x, 1.0)], "y": [min(y, 1.0)], "side": [side]})
                other = pd.DataFrame({"x": [0.0], "y": [min(y, 1.0)], "side": ["low" if side == "high" else "high"]})
                if relation == "add-remove":
                    pairs.append((people, pd.concat([people, row], ignore_index=True)))
                else:
                    pairs.append(tuple(pd.concat([r, people], ignore_index=True) for r in (row, other)))
        return pairs

    def canary(self):
        people = table()
        people.loc[3, "x"] = CANARY
        return people, CANARY


class TestOneShot(LocalStreams):
    def streams(self):
        return [pel.LocalLinear(MODEL, questions=3), pel.LocalLinear(MODEL, questions=3, weight="gaussian", centred=True)]

    def sabotages(self):
        return [(Moments, "added"), (Moments, "replaced")]


class TestSteps(LocalStreams):
    def streams(self):
        return [
            pel.LocalLinear(MODEL, questions=3, method="descent", steps=4),
            pel.LocalLinear(MODEL, questions=3, method="adaptive", steps=110),
        ]

    def sabotages(self):
        return [(Moments, "slope_norm")]


class TestPasses(LocalStreams):
    """With very many coordinates every step reads all records; forced here on a few."""

    def streams(self):
        return [pel.LocalLinear(MODEL, questions=3, method="adaptive", steps=110)]

    def asked(self, *given):
        import pytest

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pellucid.explainers.local.questions.COORDINATES_PER_STEP", 0)
            return super().asked(*given)


class TestOwnAccounts(LocalStreams):
    relations = ("add-remove",)

    def streams(self):
        return [pel.LocalLinear(MODEL, questions=2, accounting="individual", weight="gaussian", bandwidth=0.5)]

    def charged_at_once(self, explainer):
        return True

    def sabotages(self):
        return [(Moments, "added")]


@dataclass(frozen=True, eq=False, kw_only=True)
class OneMean(Explanation):
    kind = "mean of somebody's own"
    feature: str
    value: float

    def interval(self, level=0.95):
        return np.array([self.value]), np.array([self.value])

    def to_frame(self):
        return frame([self.feature], [self.value], *self.interval())

    def plot(self, ax=None):
        return ax


@dataclass(frozen=True)
class ReadColumn:
    name: str

    def __call__(self, rows):
        return rows[self.name][:, None]


class MeanStream(Stream):
    """Means of columns, one after another; each question costs a third of the slice."""

    def __init__(self, channel):
        super().__init__(channel)
        self._channel = channel
        self._said = {}
        self._news()

    def _news(self):
        for said in self._channel.news():
            self._said[said.about["asked"]] = said.explanation

    @property
    def answered(self):
        return len(self._said)

    def explain(self, name):
        self._check_open()
        question = self._channel.question({"asked": name}, self._channel.totals)
        query = Sum(ReadColumn(name), Box(1, 0.0, 1.0, count=True), columns=(name,))
        price = self._channel.plan.public.spend.amount * Fraction(1, 3)
        mean = question.ask.total("mean", query, Fraction(int(price * 10**12), 10**12)).mean()
        kept = self._channel.keep(question, lambda paid: OneMean(feature=name, value=float(mean.values[0])))
        self._news()
        return kept


@dataclass(frozen=True)
class Means(Interactive):
    """A stream that is not part of Pellucid: the generic parts are enough for it."""

    note: str = ""

    def columns(self, schema) -> tuple[str, ...]:
        return tuple(schema)

    def plan(self, public):
        return Plan(public, (Stage("mean"),))

    def opened(self, plan, channel):
        return MeanStream(channel)

    def run(self, ask):
        raise NotImplementedError

    def expected(self, plan):
        return Expected(("mean",), np.array([1.0]), 1.0)

    def describe(self) -> dict[str, Any]:
        return {"explainer": "Means", "note": self.note}

    @classmethod
    def examples(cls, model, schema):
        return [cls()]


class TestSomebodysOwn(LocalStreams):
    def streams(self):
        return [Means()]

    def questions(self):
        return ["x", "y", "x"]

    def test_it_is_never_plainly_proved(self):
        with self.session(table()).open(Means(), share=0.5) as stream:
            certificate = stream.explain("x").certificate
        assert certificate.status == "conditional" and "not part of Pellucid" in certificate.text
