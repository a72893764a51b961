"""Models are functions of one row: those that are not are refused, and none learns how many others there are."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from ...errors import ModelError
from ...explainers import PartialDependence
from ...ledger.accounting import Budget
from ...public.asking import DEFAULT, STRICT
from ...public.model import Model
from ...query import Sum
from ...release.session import Session
from .finding import SCHEMA, Finding, small_table


def own_rows_alone() -> Finding:
    """Models whose answers for a record depend on the others of its batch are refused, and cost nothing."""
    passed = []
    for function in (less_the_mean, ranks, the_largest, by_place, by_size):
        session = Session(small_table(), SCHEMA, Budget(1.0))
        model = Model(function, output=(0, 1), features=["age", "dose"], trained_on="other data")
        with contextlib.suppress(ModelError):
            session.release(PartialDependence(model, "age", points=2), epsilon=1.0)
            passed.append(function.__name__.replace("_", " "))
        if session.spent:
            passed.append("a charge")
    text = f"not refused: {', '.join(passed) or 'none'}"
    return Finding("models that look at their batch are refused", not passed, text)


def less_the_mean(rows: Any) -> Any:
    return rows["dose"] - rows["dose"].mean() + 0.5


def ranks(rows: Any) -> Any:
    return rows["dose"].rank(pct=True)


def the_largest(rows: Any) -> Any:
    return rows["dose"] / rows["dose"].max()


def by_place(rows: Any) -> Any:
    return rows["dose"] * (np.arange(len(rows)) % 2)


def by_size(rows: Any) -> Any:
    return rows["dose"] / len(rows)


class Drifts:
    """Gives another answer every time it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, rows: Any) -> Any:
        self.asked += 1
        return rows["dose"] / self.asked


class Remembers:
    """Answers 1 for everybody once it has met somebody whom it knows."""

    def __init__(self) -> None:
        self.met = False

    def __call__(self, rows: Any) -> Any:
        self.met = self.met or bool((rows["age"] == KNOWN_AGE).any())
        return np.ones(len(rows)) if self.met else np.zeros(len(rows))


KNOWN_AGE = 44.123456789
"""On no public record that is drawn by chance."""


def no_memory() -> Finding:
    """A model that changes while it is asked is refused. One that remembers people cannot be told by its trial: certificates do
    not call it plainly proved, and a strict session lets nothing pass from one question to the next."""
    wrong = []
    drifting = Model(Drifts(), output=(0, 1), features=["age", "dose"], trained_on="other data")
    try:
        Session(small_table(), SCHEMA, Budget(1.0)).release(PartialDependence(drifting, "dose", points=2), epsilon=1.0)
        wrong.append("a model that changes is not refused")
    except ModelError:
        pass
    made = Session(small_table(), SCHEMA, Budget(1.0)).release(PartialDependence(_knowing(), "dose", points=2), epsilon=1.0)
    if made.certificate is None or made.certificate.status == "proved":
        wrong.append("a model that was not read is plainly proved")
    moved = _moved_by_memory()
    if moved > STRICT:
        wrong.append(f"one person changed the answers of {moved:.0f} in questions of {STRICT}")
    return Finding(
        "no memory of people", not wrong, "; ".join(wrong) or f"one person moves {moved:.0f} answers of a strict session"
    )


def _knowing() -> Model:
    return Model(Remembers(), output=(0, 1), features=["age", "dose"], trained_on="other data")


def _moved_by_memory() -> float:
    """How many answers one person changes, in a strict session about three questions' worth of people."""
    totals = []
    for age in (KNOWN_AGE, 44.0):
        table = small_table(3 * STRICT)
        table["age"][0] = age
        session = Session(table, SCHEMA, Budget(1.0), strict=True)
        plan = session.plan(PartialDependence(_knowing(), "dose", points=2), epsilon=1.0)
        query = plan.stages[0].query
        assert isinstance(query, Sum)
        totals.append(session._engine.totals(query))
        unit = query.bound.replaced().linf
    return max(abs(a - b) for a, b in zip(*totals)) / unit


ROWS: list[int] = []


def counts_rows(rows: Any) -> Any:
    """Notes how many rows it is asked about, and fails for one of them."""
    ROWS.append(len(rows))
    if bool((rows["age"] == KNOWN_AGE).any()):
        raise ValueError("somebody")
    return rows["dose"]


def one_shape() -> Finding:
    """Questions about people have as many rows however many people there are, also when a row that fails is looked for."""
    shapes = set()
    for people in (1, DEFAULT.rows - 1, DEFAULT.rows, DEFAULT.rows + 1):
        for age in (44.0, KNOWN_AGE):
            table = small_table(people)
            table["age"][-1] = age
            session = Session(table, SCHEMA, Budget(1.0), neighbors="add-remove", expected_rows=DEFAULT.rows)
            model = Model(counts_rows, output=(0, 1), features=["age", "dose"], trained_on="other data")
            plan = session.plan(PartialDependence(model, "dose", points=2), epsilon=1.0)
            assert isinstance(plan.stages[0].query, Sum)
            ROWS.clear()
            session._engine.totals(plan.stages[0].query)
            shapes |= set(ROWS)
    text = f"rows of questions about people: {', '.join(map(str, sorted(shapes)))}"
    return Finding("questions have one shape", len(shapes) == 1, text)
