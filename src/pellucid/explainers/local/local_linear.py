"""Local linear explanations: which features carry the decision about one record, from the private records around it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...public.frozen import settle
from ...public.model import Model
from ...public.records import kept_record, record_digest
from ...public.rows import Rows
from ...public.schema import Schema
from ...query import Sum
from ...release.door import Ask
from ...release.explainer import Explainer, Interactive
from ...release.explanation import Explanation
from ...release.plan import Expected, Plan, Public, Stage
from ...release.stream import Channel
from ...sensitivity import Flow
from ..common.base import KEPT, OfGroups, empty_record, example_record, keep_whole_number, whole_number
from .encoder import Encoder, LocalRows, best_label_weight, moments_of, normaliser, read_moments
from .methods import GRAIN, METHODS, Solution, one_shot, step_price
from .moments import Foreseen, foreseen
from .questions import Questions
from .results import MOST_TIMES, LocalExplanation, round_up
from .settings import Settings
from .stream import LocalStream
from .weights import Stable, Weight, weight_of

ACCOUNTING = ("worst case", "individual")
PUBLIC_RECORDS = 2_000
"""Records drawn from the declared ranges, to tell what error to expect before any data is read."""


@dataclass(frozen=True)
class LocalPlan:
    """What was settled about local explanations: how records become coordinates, and how questions are answered."""

    settings: Settings
    encoder: Encoder


@dataclass(frozen=True)
class LocalLinear(OfGroups, Interactive[LocalStream]):
    """A linear explanation of a model around one record, fitted to the private records near it.

    Each feature is scaled to [0, 1] by its declared bounds, and φ minimises Σ α(‖x − z‖)·(φ·(x − z) − f(x))² over ‖φ‖ ≤ `radius`,
    where z is the record asked about and f the model's output scaled to [−1, 1]. Ask question after question with
    `session.open(LocalLinear(model), epsilon=…)`. For a single question give `record` and use `session.release`.

    Groups of features have a slope as a whole, `.by_group()`: it follows from those of their features.

    Released: one number per feature (per value of a category), by one draw of noise or as many as there are steps.
    Claim: local-moments, local-constant; steps: local-gradient, local-start; individual accounting: individual-filter.
    Assumes that the model is a function of one row.
    Paper: "Model explanations with differential privacy", with sensitivities, noise and accounting repaired.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"dose": pel.Number(0, 1), "age": pel.Number(0, 1)})
    >>> model = pel.Model(lambda d: 0.8 * d["dose"] + 0.1, output=(0, 1), trained_on="other data")
    >>> table = {"dose": [i % 100 / 99 for i in range(20_000)], "age": [i % 97 / 96 for i in range(20_000)]}
    >>> session = pel.Session(table, schema, budget=pel.Budget(epsilon=1.0, delta=1e-6))
    >>> with session.open(LocalLinear(model, questions=4, centred=True), epsilon=1.0) as local:
    ...     first = local.explain({"dose": 0.5, "age": 0.5})
    ...     second = local.explain({"dose": 0.52, "age": 0.5})
    >>> first.ranking[0], bool(abs(first.values[0] - 0.8) < 0.1)
    ('dose', True)
    >>> second.source, float(second.certificate.epsilon)
    ('reused', 0.0)
    """

    record: Any = field(default=None, repr=False)
    """The record asked about, as a dict; left out for a stream of questions."""
    _: KW_ONLY
    method: str = "one-shot"
    """"one-shot" (one joint release of all products; has error bars), "descent" (noisy steps), "adaptive" or "enhanced" (fewer
    steps from the best of earlier answers)."""
    weight: str | Weight = "stable"
    """α: "stable" (equation 5 of the paper), "gaussian", "cut-off" or a formula in r such as "1/(1 + r**4)"."""
    bandwidth: float = 1.0
    """By which the weight is stretched."""
    questions: int = 20
    """How many questions that are paid for the slice of a stream is planned for."""
    within: float = 0.1
    """Answers to records within this distance of an answered one are handed on, free; 0: never."""
    steps: int = 300
    """Noisy steps of a descent."""
    radius: float = 1.0
    """Of the ball that explanations lie in."""
    centred: bool = False
    """Whether outputs count from that of the record asked about; values are slopes then."""
    accounting: str = "worst case"
    """"worst case", or "individual" (streams, add-remove only): every record has its own account, and far fewer of them are used
    up by each question; choose a local weight, such as "gaussian" with bandwidth 0.5."""
    shape: tuple[int, int] | None = None
    """(rows, columns) of the picture that the features make, for heat maps."""
    label: str = ""
    """A name by which you will know the record again."""

    stored_as = "pellucid.explainers.local_linear.LocalLinear"
    references = (
        "N. Patel, R. Shokri, Y. Zick, Model Explanations with Differential Privacy, FAccT 2022.",
        "M. Bun, T. Steinke, Concentrated Differential Privacy, TCC 2016.",
        "V. Feldman, T. Zrnic, Individual Privacy Accounting via a Rényi Filter, NeurIPS 2021.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.weight, Weight) and self.bandwidth not in (1.0, self.weight.bandwidth):
            raise PlanError("bandwidth= belongs to a weight by name; this weight has its own.")
        keep_whole_number(self, "questions", 1, 1_000_000)
        keep_whole_number(self, "steps", 2, 100_000)
        for name in ("bandwidth", "within", "radius"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
                raise PlanError(f"{name}={value!r}: give a number.")
            settle(self, **{name: float(value)})
        if self.accounting not in ACCOUNTING:
            raise PlanError(f"accounting={self.accounting!r}: use one of {', '.join(map(repr, ACCOUNTING))}.")
        if self.method not in METHODS:
            raise PlanError(f"method={self.method!r}: use one of {', '.join(METHODS)}.")
        if not isinstance(self.centred, bool) or not isinstance(self.label, str):
            raise PlanError("centred= is True or False, and label= a short text by which you will know the record again.")
        if self.shape is not None:
            settle(self, shape=_pair(self.shape))
        self._settings(Fraction(1))
        if self.record is not None:
            if self.method != "one-shot" or self.accounting != "worst case":
                raise PlanError(
                    "a single question is answered by method='one-shot'; for the others leave out record= and open a stream."
                )
            settle(self, record=kept_record(self.record))

    @property
    def asks_one_by_one(self) -> bool:
        return self.record is None

    def encoder(self, schema: Schema) -> Encoder:
        """How records become coordinates."""
        found = Encoder(self.model, schema)
        self.grouping(schema)
        if not 1e-100 <= found.half_range <= 1e100:
            raise PlanError(f"output={self.model.output}: the declared range is too narrow or too wide to scale outputs by.")
        if self.shape is not None and self.shape[0] * self.shape[1] != found.length:
            raise PlanError(
                f"shape={self.shape}: the model's features have {found.length} coordinates; their product must be that."
            )
        return found

    def _settings(self, price: Fraction) -> Settings:
        weight = weight_of(self.weight, self.bandwidth)
        individual = self.accounting == "individual"
        return Settings(weight, self.method, price, self.within, self.steps, self.radius, individual, self.centred)

    def settings(self, public: Public) -> Settings:
        """How questions are answered; a question costs at most an equal part of the spend."""
        parts = 1 if self.record is not None else self.questions
        units = math.floor(public.spend.amount / parts * GRAIN)
        if units < 1:
            raise PlanError(f"{public.spend.text} is too little for {self.questions} questions; open with more, or plan fewer.")
        made = self._settings(Fraction(units, GRAIN))
        if (self.method != "one-shot" or made.individual) and public.spend.currency != "rho":
            raise PlanError(
                "steps and individual accounting need a zCDP account: open the session with a budget that has delta > 0."
            )
        if self.method != "one-shot":
            step_price(made.price, self.steps)
        return made

    def _stage(self) -> str:
        return "moments" if self.method == "one-shot" else "slopes"

    def plan(self, public: Public) -> Plan:
        details = LocalPlan(self.settings(public), self.encoder(public.schema))
        if self.record is not None:
            stage = public.stage(self._stage(), self._question(public, details))
        else:
            # No record is farther away than this: a weight that cannot be certified is refused before anything is charged.
            details.settings.weight.limits(details.encoder.diameter)
            stage = Stage(self._stage())
        return Plan(public, (stage,), details)

    def opened(self, plan: Plan, channel: Channel) -> LocalStream:
        settings, encoder = plan.details.settings, plan.details.encoder
        return LocalStream(settings, encoder, Questions(plan, channel, settings, encoder), self.shape)

    def _asked(self, encoder: Encoder) -> tuple[float, ...]:
        """The record asked about, or for a preview one in the middle of all ranges."""
        if self.record is not None:
            return encoder.asked(dict(self.record))
        return tuple(0.5 if column.position is None else float(column.position == 0) for column in encoder.columns)

    def _question(self, public: Public, details: LocalPlan) -> Sum:
        encoder, weight = details.encoder, details.settings.weight
        asked = self._asked(encoder)
        w = best_label_weight(weight, encoder.farthest, public.relation, self.radius)
        # Of a single question the limits are stored, on the certificate and in the noise, and the record is not: so they are the
        # same for all records. A stream stores both.
        limits = None if self.record is None else weight.limits(encoder.diameter, w)
        return moments_of(encoder, asked, weight, w, self._level(encoder, asked), limits)

    def _level(self, encoder: Encoder, asked: tuple[float, ...]) -> float | None:
        if not self.centred:
            return None
        return float(encoder.outputs_at(np.array([asked]))[0]) if self.record is None else encoder.level(dict(self.record))

    def run(self, ask: Ask) -> Explanation:
        asked = ask.plan["moments"].query
        assert isinstance(asked, Sum)
        answer = ask.total("moments")
        made = one_shot(read_moments(answer.integers, asked, answer.law, normaliser(ask.public)), self.radius)
        return self._explained(made, ask.plan.details)

    def _explained(self, made: Solution, details: LocalPlan) -> LocalExplanation:
        encoder, weight = details.encoder, details.settings.weight
        return LocalExplanation(
            features=encoder.labels,
            phi=made.phi,
            std=made.std,
            pull=made.pull,
            half_range=encoder.half_range * (2 if self.centred else 1),
            output=self.model.name,
            excess=made.excess,
            gain=made.gain,
            gain_error=made.gain_error,
            neighbourhood=f"weight {weight.text}, bandwidth {weight.bandwidth:g}",
            centred=self.centred,
            radius=self.radius,
            label=self.label,
            shape=self.shape,
        )

    def expected(self, plan: Plan) -> Expected:
        """The errors that records spread evenly over the declared ranges would have, and whether that would do. Reads no data."""
        found, encoder = self._foreseen(plan), plan.details.encoder
        error = found.error * encoder.half_range * (2 if self.centred else 1)
        normal = statistics.NormalDist()
        gap = normal.inv_cdf(0.95) / normal.inv_cdf(0.975) * math.sqrt(2) * float(error.max())
        notes = ["as if records were spread evenly over the declared ranges; where they lie closer together, errors are larger"]
        if self.method != "one-shot":
            notes.append("answers by steps have no error bars; these are the errors of one-shot at the same price")
        if self.record is None:
            notes.append(self._price_note(plan))
        if self.accounting == "individual" and isinstance(plan.details.settings.weight, Stable):
            notes.append(
                "far records keep their influence under this weight, so individual accounting gains little; use weight='gaussian'"
            )
        return Expected(encoder.labels, error, gap, (*notes, _verdict(found.needed, self.record is None)))

    def _price_note(self, plan: Plan) -> str:
        sign = "ρ" if plan.public.spend.currency == "rho" else "ε"
        price = f"{sign} = {float(plan.details.settings.price):.4g} for each question, {self.questions} of them"
        if self.accounting == "individual":
            return (
                price
                + " for a record that is near all of them; others go on counting, and questions are always answered from data"
            )
        return price + "; those near an answered one are free, and when the slice is used up all are, without data"

    def _foreseen(self, plan: Plan) -> Foreseen:
        """What the noise of one question would do to the answer for public records drawn from the schema."""
        public, encoder, price = plan.public, plan.details.encoder, plan.details.settings.price
        asked = plan.stages[0].query if self.record is not None else self._question(public, plan.details)
        assert isinstance(asked, Sum) and isinstance(asked.map, LocalRows)
        drawn, local = public.schema.sample(PUBLIC_RECORDS), asked.map
        z = local.of(*encoder.read(Rows(public.schema, {name: drawn[name] for name in encoder.features})))
        s, t = z[:, :-1], z[:, -1] / local.label_weight
        law = public.mechanism(asked, Fraction(price) / public.spend.amount).law
        noise = read_moments([0] * asked.size, asked, law, normaliser(public))
        return foreseen(replace(noise, matrix=s.T @ s / len(s), vector=s.T @ t / len(s)), self.radius)

    def flow(self, plan: Plan | None = None) -> Flow:
        stage, needs = (
            self._stage(),
            "products of rows in their set" if self.method == "one-shot" else "slopes in their set",
        )
        flow = Flow("a local linear explanation").input("records").public("record", "known to whoever asks")
        flow = flow.public("model", "treated as public").stage(stage, "records", "record", "model", needs=needs)
        return flow.output("explanation", stage, needs="solve in a ball")

    def about_record(self) -> str:
        known = "not protected: it is known to whoever asks, and the answer depends on it; "
        if self.record is not None:
            return known + KEPT
        return known + "what was asked and paid for is kept in the ledger, so that the stream can go on after a restart"

    def assumptions(self) -> tuple[str, ...]:
        listed = ["the record asked about is public to whoever asks, or its owner agrees: this guarantee is not about it"]
        if self.accounting == "individual":
            listed.append("the guarantee is that of the whole stream: it was charged at the opening, and no answer adds to it")
            listed.append("table and model are the same whenever the stream is opened again: accounts are computed from them")
        return tuple(listed)

    def describe(self) -> dict[str, Any]:
        about = {} if self.record is None else {"record": record_digest(self.record)}
        return {
            "explainer": "LocalLinear",
            **about,
            "method": self.method,
            **weight_of(self.weight, self.bandwidth).describe(),
            "questions": self.questions,
            "within": self.within,
            "steps": self.steps,
            "radius": self.radius,
            "centred": self.centred,
            "accounting": self.accounting,
            "shape": None if self.shape is None else list(self.shape),
            "label": self.label,
        }

    @classmethod
    def examples(cls, model: Model, schema: Schema) -> Sequence[Explainer]:
        own, other = example_record(model, schema), empty_record(model, schema)
        return [cls(model, own), cls(model, other, weight="gaussian", bandwidth=2.0, centred=True, radius=2.0, label="somebody")]


def _verdict(needed: float, of_stream: bool) -> str:
    """Whether answers would be worth their price, in words; `needed` is how many times smaller noise would have to be."""
    about = "a record in the middle of all ranges" if of_stream else "this record"
    if needed <= 1:
        return f"verdict: enough to tell an explanation of {about} from noise"
    if needed > MOST_TIMES:
        return f"verdict: nothing to tell about {about}: the model hardly changes around it, or far less than the noise"
    most = round_up(needed)
    return f"verdict: mostly noise; {most} times as many people would do for {about}, or as many times the ε"


def _pair(shape: Any) -> tuple[int, int]:
    if isinstance(shape, tuple | list) and len(shape) == 2:
        rows, columns = (whole_number("shape", side, 1, 1024) for side in shape)
        if rows is not None and columns is not None:
            return rows, columns
    raise PlanError(f"shape={shape!r}: give (rows, columns) of the picture that the features make.")
