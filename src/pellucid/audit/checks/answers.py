"""Whether all that is told follows from noisy answers: nothing exact may have a part in what is asked, charged and said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ...engine import LocalEngine
from ...explainers import Explainer, LocalLinear
from ...explainers.local.methods import METHODS
from ...ledger.accounting import Budget
from ...public.model import Model
from ...query import Choice, Query
from ...release.answer import Answer
from ...release.plan import Plan
from ...release.session import Session
from ..cases import ONE, Case, beyond_near, cases
from ..neighbours import Neighbours, between, highest
from ..transcript import Listening, Said
from .finding import Finding


def answers_alone() -> Finding:
    """All that is released follows from noisy answers: beside all tables the same answers give the same questions and results.

    A number that is used without noise (a step size, a number of steps, a set of names) would show as a difference.
    """
    wrong, seen = [], set()
    for case in cases():
        if case.pair is None or type(case) is not Case:
            continue
        engines = _engines(case)
        plan = case.world.plan(case.explainer, engines[0].units)
        kind = type(case.explainer).__name__, getattr(case.explainer, "method", ""), tuple(plan.shares), case.world.currency
        if kind in seen:
            continue
        seen.add(kind)
        told: list[Said] = []
        said = [_with_answers(case.explainer, plan, engine, told) for engine in engines]
        if any(one != said[0] for one in said):
            wrong.append(case.name)
    wrong += [f"stream, {method}" for method in METHODS if not _stream_alone(method)]
    text = f"exact numbers have a part in {', '.join(wrong) or 'nothing'}"
    return Finding("what is told follows from noisy answers alone", not wrong, text)


def _engines(case: Case) -> list[LocalEngine]:
    """Two neighbours and, where records have no owners, tables of as many records that have nothing to do with them: what one
    record rarely tips, other tables do."""
    world, pair = case.world, case.pair
    assert pair is not None
    tables = [pair]
    if world.unit.column is None:
        many = len(pair.first)
        tables.append(Neighbours((between(world.schema),) * many, (highest(world.schema),) * many))
    return [engine for one in tables for engine in one.engines(world.schema, world.relation, world.unit)]


def _with_answers(explainer: Explainer, plan: Plan, engine: LocalEngine, told: list[Said]) -> tuple[Any, ...]:
    """Questions, noise and result of a release that is given the answers of the one before it, if there was one."""
    ask = Echo(engine.totals, plan, told=list(told))
    made = explainer.run(ask)
    told[:] = ask.heard
    return json.dumps(made.content(), default=repr), [(said.stage, said.how) for said in ask.heard], repr(ask.charges)


@dataclass
class Echo(Listening):
    """A door that draws as any other, and then says what was said before."""

    told: list[Said] = field(default_factory=list)

    def total(self, stage: str, query: Query | None = None) -> Answer:
        answer = super().total(stage, query)
        return replace(answer, integers=self._again(answer.integers))

    def choose(self, stage: str, choice: Choice | None = None) -> list[Any]:
        chosen = super().choose(stage, choice)
        return _thawed(self._again(self.heard[-1].answer)) if self.told else chosen

    def _again(self, answer: tuple[Any, ...]) -> tuple[Any, ...]:
        place = len(self.heard) - 1
        if place < len(self.told) and len(self.told[place].answer) == len(answer):
            answer = self.told[place].answer
            self.heard[-1] = replace(self.heard[-1], answer=answer)
        return answer


def _thawed(chosen: Any) -> Any:
    return [_thawed(one) for one in chosen] if isinstance(chosen, tuple) else chosen


def _stream_alone(method: str) -> bool:
    """Whether a stream beside two tables, given the same answers, asks the same, costs the same and says the same."""
    model = Model(beyond_near, output=(0, 1), features=["v"], trained_on="other data")
    explainer = LocalLinear(model, within=0.0, questions=2, steps=6, method=method, bandwidth=1.0)
    near, far = {"v": [0.0] * 60}, {"v": [0.9] * 60}
    told: list[tuple[int, ...]] = []
    said = []
    for table in (near, far):
        session = Session(table, ONE, Budget(epsilon=1000.0, delta=0.01))
        heard: list[Any] = []
        with session.open(explainer, rho=50.0) as stream:
            channel = stream._questions.channel
            channel.question = _echoing(channel.question, heard, told)  # type: ignore[method-assign]
            made = [json.dumps(stream.explain({"v": at}).content(), default=repr) for at in (0.0, 0.5)]
        told = [answer for *_, answer in heard]
        said.append((made, [how for *how, _ in heard], session.spent))
    return said[0] == said[1]


def _echoing(question: Callable[..., Any], heard: list[Any], told: list[tuple[int, ...]]) -> Callable[..., Any]:
    """Questions whose doors draw as any other, and then say what was said before; `heard` notes it, with its noise."""

    def asked(about: dict[str, Any], totals: Any) -> Any:
        made = question(about, totals)
        noisy, chosen = made.ask._noisy, made.ask._chosen

        def answer(stage: str, query: Any, how: Any, spend: Any, *claims: str) -> Any:
            drawn = noisy(stage, query, how, spend, *claims)
            said = told[len(heard)] if len(heard) < len(told) else drawn.integers
            heard.append((stage, how, said))
            return replace(drawn, integers=said) if len(said) == len(drawn.integers) else drawn

        def choice(stage: str, query: Any, how: Any, spend: Any) -> Any:
            drawn = tuple(chosen(stage, query, how, spend))
            heard.append((stage, how, told[len(heard)] if len(heard) < len(told) else drawn))
            return list(heard[-1][-1])

        made.ask._noisy, made.ask._chosen = answer, choice
        return made

    return asked
