"""The game for streams: whole streams of questions beside two tables, and everything that left their doors.

A few streams are opened through a session, with its ledger and its charges. Many more are rehearsed: the same questions, methods,
doors and noise, with charges that are counted and not written down.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ..engine import LocalEngine, Prepared
from ..explainers.local.encoder import Encoder
from ..explainers.local.history import History
from ..explainers.local.local_linear import LocalLinear
from ..explainers.local.stream import LocalStream
from ..ledger import from_units
from ..ledger.accounting import Budget
from ..mechanisms import Mechanism
from ..query import Query
from ..release.charge import Charge
from ..release.door import Door, IndividualAsk, PaidAsk, Totals
from ..release.explanation import Explanation
from ..release.individual import IndividualAccounts
from ..release.plan import Plan
from ..release.session import Session
from ..release.stream import Paid, Question
from ..release.stream import Said as Told
from .draws import scores_of
from .estimate import Scores, largest
from .game import FEWEST, WHOLE, Row, claim_of
from .neighbours import Neighbours, Record
from .search import SLACK, World, moved_part
from .transcript import Kept, Likelihood, Names, Said, law_of

OPENED = 5
"""Streams of each table that are opened through a session."""
BUDGET = Budget(epsilon=1000.0), Budget(epsilon=1000.0, delta=0.01)
"""Of sessions with pure ε and with zCDP: enough for every slice."""


@dataclass
class Rehearsal:
    """What a channel is to a stream, without a ledger."""

    plan: Plan
    engine: LocalEngine
    names: Names = field(default_factory=Names)

    def __post_init__(self) -> None:
        self.heard: list[Said] = []
        self.exact: list[list[int]] = []
        self.paid: list[Fraction] = []
        self._records: Prepared | None = None
        self.kept = Kept(self._totals, self.names)
        self._individual = False
        self.forget()

    def forget(self) -> None:
        """Begin anew: nothing was asked, and nothing paid."""
        self.heard, self.exact, self.paid, self.said = [], [], [], 0
        self.unread: list[Told] = []
        if self._individual:
            self._open()

    def prepared(self, reader: Callable[..., Any], columns: tuple[str, ...], width: int) -> Prepared:
        self._records = Prepared(self.engine, reader, columns, width)
        return self._records

    def open_accounts(self, prepared: Prepared, again: Callable[..., Any]) -> None:
        self._individual = True
        self._open()

    def _open(self) -> None:
        assert self._records is not None
        public = self.plan.public
        self._accounts = IndividualAccounts(self._records, public.spend.amount, public.relation, public.unit)

    def news(self) -> list[Told]:
        found, self.unread = self.unread, []
        return found

    def affordable(self, price: Fraction) -> bool:
        return self._individual or sum(self.paid) + price <= self.plan.public.spend.amount

    def question(self, about: dict[str, Any], totals: Totals) -> Question:
        made = Question(about, True)
        public = self.plan.public
        made.ask = IndividualAsk(self._accounts, public, self._pay) if self._individual else PaidAsk(self.kept, public, self._pay)
        overhear(made.ask, self.heard, self.exact)
        return made

    def _totals(self, query: Any) -> list[int]:
        assert self._records is not None
        return self._records.totals(query)

    def _pay(self, charge: Charge) -> None:
        self.paid.append(charge.amount)

    def keep(self, question: Question, explained: Callable[[Paid], Explanation]) -> Explanation:
        self.said += 1
        told = explained(Paid(self.said, 0.0, None))
        self.unread.append(Told(self.said, question.about, told))
        return told

    def free(self, found: Explanation) -> Explanation:
        return found


def overhear(door: Door, heard: list[Said], exact: list[list[int]]) -> None:
    """Note what leaves this door; beside it, behind the door, the exact totals that noise was added to."""
    noisy, chosen, totals = door._noisy, door._chosen, door._totals

    def noting(stage: str, query: Any, how: Any, spend: Any, *claims: str) -> Any:
        answer = noisy(stage, query, how, spend, *claims)
        heard.append(Said(stage, query, how, answer.integers))
        return answer

    def choosing(stage: str, choice: Any, how: Any, spend: Any) -> Any:
        picked = chosen(stage, choice, how, spend)
        heard.append(Said(stage, choice, how, tuple(picked)))
        return picked

    def reading(query: Any, how: Any) -> list[int]:
        exact.append(totals(query, how))
        return exact[-1]

    door._noisy, door._chosen, door._totals = noting, choosing, reading  # type: ignore[method-assign]


class Remembering:
    """An encoder that knows what the model says about records that were asked about before: they are public, and so is the
    model, so that nothing random is left out of a run."""

    def __init__(self, encoder: Encoder):
        self._encoder = encoder
        self._outputs: dict[bytes, np.ndarray] = {}
        self._places: dict[str, tuple[float, ...]] = {}

    def outputs_at(self, records: np.ndarray) -> np.ndarray:
        key = records.tobytes()
        if key not in self._outputs:
            self._outputs[key] = self._encoder.outputs_at(records)
        return self._outputs[key]

    def asked(self, record: Record) -> tuple[float, ...]:
        key = repr(record)
        if key not in self._places:
            self._places[key] = self._encoder.asked(record)
        return self._places[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)


@dataclass
class Rehearsed:
    """One side of the game: a stream that is begun anew for every run."""

    explainer: LocalLinear
    plan: Plan
    engine: LocalEngine
    asked: Sequence[Record]
    names: Names

    def __post_init__(self) -> None:
        self.channel = Rehearsal(self.plan, self.engine, self.names)
        self._stream: LocalStream = self.explainer.opened(self.plan, self.channel)  # type: ignore[arg-type]
        self._stream._encoder = Remembering(self._stream._encoder)  # type: ignore[assignment]

    def run(self) -> list[Said]:
        """What a new stream says to the questions."""
        self.channel.forget()
        self._stream._known = History(self.plan.details.encoder.length)
        for record in self.asked:
            self._stream.explain(record)
        return self.channel.heard


def opened(explainer: LocalLinear, world: World, table: Any, rows: int, asked: Sequence[Record]) -> tuple[list[Said], Fraction]:
    """What a stream of a session says, and what is charged for it."""
    session = Session(
        table, world.schema, BUDGET[world.currency == "rho"], neighbors=world.relation, unit=world.unit,
        expected_rows=None if world.relation == "replace" else rows,
    )  # fmt: skip
    heard: list[Said] = []
    price: dict[str, Any] = {world.currency: world.amount}
    with session.open(explainer, **price) as stream:
        channel = stream._questions.channel
        question = channel.question

        def overheard(about: dict[str, Any], totals: Totals) -> Question:
            made = question(about, totals)
            overhear(made.ask, heard, [])
            return made

        channel.question = overheard  # type: ignore[method-assign]
        for record in asked:
            stream.explain(record)
    return heard, from_units(session._account.standing.spent)


def play_stream(
    explainer: LocalLinear,
    world: World,
    pair: Neighbours,
    asked: Sequence[Record],
    *,
    runs: int,
    seconds: float = math.inf,
    confidence: float = 0.95,
    name: str = "",
    told: Callable[[], None] = lambda: None,
) -> Row:
    """Audit a stream of these questions."""
    start = time.perf_counter()
    engines = pair.engines(world.schema, world.relation, world.unit)
    plan = world.plan(explainer, engines[0].units)
    names = Names()
    sides = [Rehearsed(explainer, plan, engine, asked, names) for engine in engines]
    known = _known(sides)
    moved = _moved(known, world, plan.details.settings.individual)
    score = _score(sides, known)
    claimed, delta = claim_of(world)
    whole = runs // WHOLE if explainer.method == "one-shot" and runs > FEWEST else runs
    seen = [_rehearsals(sides, score, max(whole, min(runs, FEWEST)), time.process_time() + seconds, told)]
    if whole < runs:
        first, second = (np.sum([step.drawn(plan, side, runs) for step in known], axis=0) for side in (0, 1))
        seen.append((first, second))
    measured, made = largest([Scores(*scores) for scores in seen], confidence, delta, claimed), max(len(one) for one, _ in seen)
    verdict = "holds" if measured <= claimed else f"broken: ε is at least {measured:.3g}"
    if moved > 1 + SLACK:
        verdict = f"broken: answers move {moved:.3g} times as far as their noise was scaled to"
    wrong = _not_as_rehearsed(explainer, world, pair, asked, sides)
    return Row(
        name=name or type(explainer).__name__,
        claimed=claimed,
        measured=measured,
        confidence=confidence,
        verdict=f"broken: {wrong}" if wrong else verdict,
        moved=moved,
        pair=pair.name,
        relation=world.relation,
        currency=world.currency,
        delta=delta,
        runs=made,
        seconds=round(time.perf_counter() - start, 2),
    )


@dataclass(frozen=True)
class Step:
    """One answer of a stream: the question, its noise, the exact totals of both tables, and what was charged for it."""

    query: Query
    how: Mechanism
    exact: tuple[list[int], list[int]]
    charged: Fraction

    def drawn(self, plan: Plan, side: int, runs: int) -> np.ndarray:
        first, second = (np.array(one, dtype=float) for one in self.exact)
        return scores_of(plan, self.query, self.how, [self.exact[side]], first, second, runs)

    def score(self, answer: Sequence[int]) -> float:
        first, second = (np.array(one, dtype=float) for one in self.exact)
        return float(law_of(np.array(answer, dtype=float), first, second, self.how))


def _known(sides: Sequence[Rehearsed]) -> list[Step]:
    """The steps of one run. Those of one-shot answers are the same in every run: who still counts follows from the questions."""
    heard = [[pair for pair in zip(side.run(), side.channel.paid) if isinstance(pair[0].how, Mechanism)] for side in sides]
    exact = zip(*(side.channel.exact for side in sides))
    return [Step(said.query, said.how, totals, paid) for (said, paid), totals in zip(heard[0], exact)]  # type: ignore[arg-type]


def _moved(known: Sequence[Step], world: World, individual: bool) -> float:
    """How far the worst answer moves, as a part of what its noise was scaled to; with one account per record, how far all do."""
    parts = [moved_part(step.how, *step.exact, None if individual else step.charged) for step in known]
    if not individual:
        return max(parts)
    return math.sqrt(sum(part**2 * float(step.how.cost) for part, step in zip(parts, known)) / float(world.amount))


def _score(sides: Sequence[Rehearsed], known: Sequence[Step]) -> Callable[[Sequence[Said]], float]:
    """The log-likelihood ratio of what was heard."""
    if sides[0].plan.details.settings.method != "one-shot":
        return Likelihood(*(side.channel.kept for side in sides))
    return lambda heard: sum(step.score(said.answer) for step, said in zip(known, heard, strict=True))


def _rehearsals(
    sides: Sequence[Rehearsed], score: Callable[[Sequence[Said]], float], runs: int, end: float, told: Callable[[], None]
) -> tuple[np.ndarray, np.ndarray]:
    found = np.empty((2, runs))
    for run in range(runs):
        if run >= FEWEST and time.process_time() > end:
            return found[0, :run], found[1, :run]
        for side, rehearsed in enumerate(sides):
            found[side, run] = score(rehearsed.run())
        told()
    return found[0], found[1]


def _not_as_rehearsed(
    explainer: LocalLinear, world: World, pair: Neighbours, asked: Sequence[Record], sides: Sequence[Rehearsed]
) -> str:
    """What is different in streams that are opened through a session, or nothing."""
    for table, rehearsed in zip(pair.tables(world.schema, world.unit), sides):
        for _ in range(OPENED):
            heard, spent = opened(explainer, world, table, max(sides[0].engine.units, 1), asked)
            if heard[0].how != rehearsed.run()[0].how:
                return "a session asks with other noise than was rehearsed"
            if spent > world.amount:
                return "a stream was charged more than its slice"
            if spent < (world.amount if explainer.accounting == "individual" else sum(said.how.cost for said in heard)):
                return "a stream was charged less than its noise costs"
    return ""
