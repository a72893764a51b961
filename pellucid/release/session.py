"""The door: plan → reserve → run → commit → certificate."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from ..engine import LocalEngine
from ..engine.sandbox import Outcomes
from ..engine.trial import Trials
from ..errors import DataError, PlanError
from ..explainers.local.desk import LedgerDesk, Opened
from ..explainers.local.local_linear import LocalLinear
from ..explainers.local.stream import LocalStream
from ..ledger import Account, Entry, Ledger, budget_units, charge_units, checked_text, from_units
from ..ledger.accounting import Amount, Budget
from ..mechanisms import Spend, is_private
from ..public.model import PROBES, PrivateTraining
from ..public.schema import Schema, Unit, check_relation
from .certificate import Certificate
from .door import Ask, Charge
from .explainer import Expected, Explainer, Stages
from .explanation import Explanation, from_json
from .plan import Public


@dataclass(frozen=True)
class Preview:
    """What a release would be worth: no data was touched and nothing was charged.

    `error` is the half-width of each output's 95 % error bar; `gap` the smallest difference between two outputs that is
    told apart with 95 % probability.
    """

    explainer: str
    spend: Spend
    epsilon: float
    delta: float
    labels: tuple[str, ...]
    error: np.ndarray
    gap: float
    stages: dict[str, float]
    affordable: bool
    notes: tuple[str, ...]

    @property
    def largest_error(self) -> float:
        return float(np.max(self.error))

    def to_dict(self) -> dict[str, Any]:
        return {
            "explainer": self.explainer,
            "currency": self.spend.currency,
            "amount": float(self.spend.amount),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "error": dict(zip(self.labels, (float(e) for e in self.error))),
            "largest_error": self.largest_error,
            "gap": self.gap,
            "stages": self.stages,
            "affordable": self.affordable,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        low, high = float(np.min(self.error)), self.largest_error
        size = f"±{high:.4g}" if math.isclose(low, high) else f"±{low:.4g} to ±{high:.4g}"
        lines = [
            f"{self.explainer} for {self.spend.text}"
            + (f" (ε = {self.epsilon:.4g} at δ = {self.delta:g})" if self.delta else ""),
            f"  {len(self.labels)} outputs, each within {size} of the value without noise (95 %)",
            f"  two outputs are told apart with 95 % when they differ by {self.gap:.4g} or more",
        ]
        if len(self.stages) > 1:
            lines.append("  stages: " + ", ".join(f"{name} {share:.0%}" for name, share in self.stages.items()))
        lines += [f"  note: {note}" for note in self.notes]
        if not self.affordable:
            lines.append("  the account cannot pay for it")
        return "\n".join(lines)


class Session:
    """One named private table with a budget: every release goes through here and is paid for first.

    >>> import pellucid as pel
    >>> schema = pel.Schema({"age": pel.Number(0, 99, integer=True)})
    >>> session = pel.Session({"age": [30, 40, 50] * 100}, schema, budget=pel.Budget(epsilon=1.0))
    >>> _ = session.release(pel.Distribution("age", bins=10), epsilon=0.25)
    >>> session.remaining
    ε = 0.75
    """

    def __init__(
        self,
        data: Any,
        schema: Schema,
        budget: Budget,
        neighbors: str = "replace",
        name: str | None = None,
        ledger: str | os.PathLike[str] | Ledger | None = None,
        unit: Unit | None = None,
        expected_rows: int | None = None,
    ):
        if not isinstance(schema, Schema):
            raise PlanError("schema: give a pel.Schema, for example pel.Schema.load('schema.yaml').")
        if not isinstance(budget, Budget):
            raise PlanError(f"budget={budget!r}: give pel.Budget(epsilon=..., delta=...).")
        if unit is not None and not isinstance(unit, Unit):
            raise PlanError(f"unit={unit!r}: give pel.Unit('person_id', max_rows=k) or leave it out for one row.")
        if expected_rows is not None and (
            not isinstance(expected_rows, int) or isinstance(expected_rows, bool) or expected_rows < 1
        ):
            raise PlanError(f"expected_rows={expected_rows!r}: give a public guess of the number of records, at least 1.")
        if ledger is not None and not name:
            raise PlanError(
                "name= is needed with a ledger: it names the private table whose budget is spent, for example 'ward-7'."
            )
        self.schema, self.budget, self.unit, self.expected_rows = schema, budget, unit or Unit(), expected_rows
        self.neighbors = check_relation(neighbors)
        self.name = name or "unnamed"
        self._engine = LocalEngine(data, schema, self.neighbors, self.unit)
        self._trials = Trials(schema)
        self._rows = self._engine.units if self.neighbors == "replace" else None
        if self._rows == 0:
            raise DataError(
                "the table is empty. Under 'replace' the number of records is public and must be positive; "
                "use neighbors='add-remove' if even that is private."
            )
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self._ledger.open_account(
            self.name,
            currency=budget.currency,
            budget=budget_units(budget.amount),
            delta=repr(budget.delta) if budget.delta else "0",
            relation=self.neighbors,
            unit=self.unit.text,
        )

    def _account(self) -> Account:
        return self._ledger.account(self.name)

    @property
    def spent(self) -> Amount:
        """What has been charged to the account, by this and every other session."""
        return Amount.of(self.budget, from_units(self._account().spent))

    @property
    def remaining(self) -> Amount:
        """What is left of the budget."""
        return Amount.of(self.budget, from_units(self._account().remaining))

    @property
    def whole(self) -> Amount:
        """The whole budget of the account, as the ledger has it."""
        return Amount.of(self.budget, from_units(self._account().budget))

    def _price(self, epsilon: Any, rho: Any, share: Any) -> Spend:
        return self.budget.price(epsilon, rho, share, whole=from_units(self._account().budget))

    def history(self) -> list[Entry]:
        """Every entry of the account, oldest first."""
        return self._ledger.history(self.name)

    def preview(self, explainer: Explainer, *, epsilon: Any = None, rho: Any = None, share: Any = None) -> Preview:
        """The error to expect from a release. Touches no data, charges nothing."""
        public, stages = self._plan(explainer, self._price(epsilon, rho, share))
        expected = explainer.expected(public)
        eps, delta, _ = self.budget.guarantee(public.spend)
        return Preview(
            explainer.describe()["explainer"],
            public.spend,
            eps,
            delta,
            expected.labels,
            expected.error,
            expected.gap,
            {name: float(part) for name, part in stages.items()},
            charge_units(public.spend.amount) <= self._account().remaining,
            expected.notes,
        )

    def cost_for(self, explainer: Explainer, error: float) -> Amount:
        """The smallest amount for which every output's 95 % error is at most `error`. Touches no data, charges nothing.

        The result is a number in the account's currency and carries `.epsilon`; pass it on as `epsilon=` (or `rho=`).
        """
        if not (isinstance(error, int | float) and math.isfinite(error) and error > 0):
            raise PlanError(f"error={error!r}: give a positive number in the units of the output.")

        def reached(amount: Fraction) -> bool:
            try:
                return float(np.max(self._expected(explainer, Spend(self.budget.currency, amount)).error)) <= error
            except PlanError:
                return False

        # Whatever is wrong with the request itself is said here; a price that is too small for it only means: not reached.
        self._expected(explainer, Spend(self.budget.currency, Fraction(1000)))
        high = Fraction(1, 10**6)
        while not reached(high):
            high *= 2
            if high > 10**6:
                raise PlanError(f"error={error:g} cannot be reached at any price; fewer points or more records would help.")
        low = high / 2
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if reached(middle) else (middle, high)
        return Amount.of(self.budget, Fraction(math.ceil(high * 10**9), 10**9))

    def charge_for(self, explainer: Explainer, *, epsilon: Any = None, rho: Any = None, share: Any = None) -> Amount:
        """What `release` would charge for this request now: nothing if it can be replayed. Touches no data."""
        public, _ = self._plan(explainer, self._price(epsilon, rho, share))
        free = self._stored(self._key(self._request(explainer, public))) is not None
        return Amount.of(self.budget, Fraction(0) if free else from_units(charge_units(public.spend.amount)))

    def _expected(self, explainer: Explainer, spend: Spend) -> Expected:
        public, _ = self._plan(explainer, spend)
        return explainer.expected(public)

    def release(
        self,
        explainer: Explainer,
        *,
        epsilon: Any = None,
        rho: Any = None,
        share: Any = None,
        by: str = "",
        purpose: str = "",
        fresh: bool = False,
    ) -> Explanation:
        """Pay, ask, and return an explanation with its certificate.

        An identical request to the same account is answered from the ledger, free of charge; `fresh=True` pays for new
        noise. Say what it may cost with exactly one of `epsilon`, `rho` or `share` (of the whole budget).
        """
        public, stages = self._plan(explainer, self._price(epsilon, rho, share))
        if explainer.asks_one_by_one:
            raise PlanError(
                f"{type(explainer).__name__} answers questions one after another: "
                "with session.open(explainer, epsilon=…) as local: local.explain(record). For a single question give it record=."
            )
        request = self._request(explainer, public)
        key = self._key(request)
        if not fresh:
            stored = self._stored(key)
            if stored is not None:
                return self._replayed(stored)
        reservation = self._ledger.reserve(
            self.name, charge_units(public.spend.amount), key=key, request=request, by=by, purpose=purpose
        )
        private = self._noise_is_private()
        ask = Ask(self._engine, public, stages)
        explanation = explainer.run(ask)
        private = self._noise_is_private() and private
        explanation = explanation.certified(
            self._certificate(explainer, public, ask.charges, private, reservation.hash, by, purpose)
        )
        self._ledger.commit(reservation, explanation.to_json())
        return explanation

    def open(
        self,
        explainer: LocalLinear,
        *,
        epsilon: Any = None,
        rho: Any = None,
        share: Any = None,
        by: str = "",
        purpose: str = "",
        name: str = "",
    ) -> LocalStream:
        """Open a stream of questions with a slice of the budget; use it in a with-statement.

        A stream that was opened before with the same explainer, slice and `name` goes on where it was. Every step is charged just
        before it is taken, so closing has nothing to give back; only with one account per record the whole slice is charged here.
        """
        if not isinstance(explainer, Explainer) or not explainer.asks_one_by_one:
            raise PlanError(
                "open() is for explainers that answer one question after another: pel.LocalLinear(model) without record=."
            )
        checked_text("name", name)
        public, _ = self._plan(explainer, self._price(epsilon, rho, share))
        request = json.dumps({**json.loads(self._request(explainer, public)), "stream": name}, sort_keys=True, ensure_ascii=False)
        opened = Opened(self, explainer, public, self._key(request), request, by, purpose)
        settings, design = explainer.settings(public), explainer.design(self.schema)
        return LocalStream(settings, design, LedgerDesk(opened, settings, design), explainer.shape)

    def owner_report(self) -> Outcomes | None:
        """What became of the blocks of the last release that asked a function of blocks: answered, failed, too slow, too large.

        Exact numbers, computed from records and not private: for whoever runs this process and may see the data. They are in
        no result, certificate, ledger or error.
        """
        return self._engine.outcomes

    def _noise_is_private(self) -> bool:
        """Whether noise comes from the operating system; if not, the ledger remembers it before anything is released."""
        if not is_private():
            self._ledger.not_private(self.name, "noise came from a test source")
        return is_private()

    def _stored(self, key: str) -> Explanation | None:
        """An identical request's release, unless it carried no guarantee."""
        text = self._ledger.replay(self.name, key)
        found = from_json(text) if text is not None else None
        return found if found is not None and found.certificate is not None and found.certificate.private else None

    def _replayed(self, explanation: Explanation) -> Explanation:
        """A stored release as it was, with the account's total as it is now."""
        assert explanation.certificate is not None
        return explanation.certified(replace(explanation.certificate, total=self._total()))

    def _plan(self, explainer: Explainer, spend: Spend) -> tuple[Public, Stages]:
        if not isinstance(explainer, Explainer):
            raise PlanError(f"{type(explainer).__name__} is not an explainer; see pellucid.explainers.")
        explainer.columns(self.schema)
        for model in explainer.models:
            model.ready(self.schema)
        public = Public(self.schema, self.neighbors, self.unit, spend, self._rows, self.expected_rows)
        stages = explainer.plan(public)
        self._trials.run(explainer.trial(public))
        if any(part <= 0 for part in stages.values()) or sum(stages.values()) != 1:
            raise PlanError(f"the stages of {type(explainer).__name__} must have positive shares that add up to one.")
        return public, stages

    @staticmethod
    def _key(request: str) -> str:
        return hashlib.sha256(request.encode()).hexdigest()

    def _request(self, explainer: Explainer, public: Public) -> str:
        """The request as canonical text: what is asked, of which model under which schema, for how much."""
        body = {
            **explainer.describe(),
            "class": f"{type(explainer).__module__}.{type(explainer).__qualname__}",
            "models": [m.ready(self.schema).fingerprint for m in explainer.models],
            "outputs": [m.declared for m in explainer.models],
            "provenance": [f"{m.provenance} {m.trained_on!r}" for m in explainer.models],
            "schema": hashlib.sha256(json.dumps(self.schema.to_dict(), sort_keys=True).encode()).hexdigest(),
            "currency": public.spend.currency,
            "amount": str(public.spend.amount),
            "expected_rows": self.expected_rows,
        }
        try:
            return json.dumps(body, sort_keys=True, ensure_ascii=False)
        except (TypeError, ValueError):
            raise PlanError(
                f"{type(explainer).__name__} was given a setting that is neither a number, text, nor a list of these."
            ) from None

    def _certificate(
        self, explainer: Explainer, public: Public, charges: list[Charge], private: bool, entry: str, by: str, purpose: str
    ) -> Certificate:
        epsilon, delta, rho = self.budget.guarantee(public.spend)
        conditions = self._conditions(explainer)
        standing = self._standing_assumptions(explainer)
        status = "not private" if not private else "conditional" if conditions else "proved"
        return Certificate(
            status=status,
            conditions=conditions,
            assumptions=(*conditions, *standing),
            explainer=explainer.describe(),
            account=self.name,
            relation=self.neighbors,
            unit=self.unit.text,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            total=self._total(),
            charges=tuple(_charge_dict(charge, public.spend.currency) for charge in charges),
            protects=_protects(explainer, self.unit),
            bounds=self._bound_sources(explainer),
            references=explainer.references,
            by=by,
            purpose=purpose,
            day=datetime.date.today().isoformat(),
            ledger=os.path.basename(str(self._ledger.path)) if self._ledger.durable else "in memory",
            entry=entry,
            versions=_versions(),
        )

    def _total(self) -> dict[str, Any]:
        """What the account has spent, in the words of a certificate."""
        account = self._account()
        epsilon, delta, rho = self.budget.guarantee(Spend(self.budget.currency, from_units(account.spent)))
        whole, _, _ = self.budget.guarantee(Spend(self.budget.currency, from_units(account.budget)))
        return {"epsilon": epsilon, "delta": delta, "rho": rho, "budget_epsilon": whole, "bounded": account.bounded}

    def _conditions(self, explainer: Explainer) -> tuple[str, ...]:
        conditions = []
        if not type(explainer).__module__.startswith("pellucid."):
            conditions.append(f"the explainer {type(explainer).__qualname__} is not part of Pellucid and was not reviewed")
        if not self.unit.column and self.unit.max_rows > 1:
            conditions.append(f"no person has more than {self.unit.max_rows} rows: there is no id column to enforce it")
        for model in explainer.models:
            if model.trained_on == "this data":
                conditions.append(
                    f"the model {model.name} was trained without privacy on the same people; it is treated as public and nothing "
                    "is claimed about what the model itself reveals"
                )
            if isinstance(model.trained_on, PrivateTraining):
                conditions += [f"{model.name}: {condition}" for condition in model.trained_on.conditions]
                if model.trained_on.relation not in (None, self.neighbors):
                    conditions.append(
                        f"{model.name} was found under {model.trained_on.relation} neighbours; its guarantee is of that kind, "
                        f"and under {self.neighbors} it is another number"
                    )
        return tuple(conditions)

    def _standing_assumptions(self, explainer: Explainer) -> tuple[str, ...]:
        listed = [
            f"{model.name} is a function of one row (tried on {PROBES} public records, in other orders and batch sizes)"
            for model in explainer.models
        ]
        if not self._ledger.durable:
            listed.append("the ledger is in memory: the total spent is known to this process only")
        return (*listed, *explainer.assumptions())

    def _bound_sources(self, explainer: Explainer) -> dict[str, str]:
        sources = {
            name: self.schema[name].source or "declared in the schema, no source given" for name in explainer.columns(self.schema)
        }
        for model in explainer.models:
            sources[f"output of {model.name}"] = model.bound_text
        return sources


def _charge_dict(charge: Charge, currency: str) -> dict[str, Any]:
    return {
        "stage": charge.stage,
        "mechanism": charge.mechanism,
        "currency": currency,
        "amount": float(charge.amount),
        "norm": charge.norm,
        "sensitivity": charge.sensitivity,
        "noise": charge.noise,
        "bound": charge.bound,
        "enforced": charge.enforced,
        "claims": list(charge.claims),
    }


def _protects(explainer: Explainer, unit: Unit) -> dict[str, str]:
    says = {"explanation data": f"protected, {unit.text}"}
    for model in explainer.models:
        if isinstance(model.trained_on, PrivateTraining):
            training = f"protected by its own training, {model.trained_on.text}; a person in both pays the sum"
        elif model.trained_on == "this data":
            training = "not protected: the model was trained on these people without privacy, and is treated as public"
        else:
            training = "other data: nothing is claimed about it"
        says[f"training data of {model.name}"] = training
        says[f"the model {model.name} itself"] = "not protected: its answers appear in the release"
    return {**says, "record asked about": explainer.about_record()}


@cache
def _versions() -> dict[str, str]:
    found = {}
    for package in ("pellucid", "opendp", "numpy"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found
